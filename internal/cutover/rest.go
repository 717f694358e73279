package cutover

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
)

// A freeze lasts until the switch hook is called. So a try that has proved its drain is not over:
// the final comparison and the goodbyes follow. Both the moment for a freeze and the end of a try
// count this rest.

const (
	// Fencing is how much longer a freeze lasts if late writes are rejected before the switch.
	Fencing = 35 * time.Second
	// comparing is how long a final comparison usually takes. Large tables are sampled side by
	// side.
	comparing = 2 * time.Second
	// handing is how long the halts, the goodbyes and the last look usually take.
	handing = time.Second
	// restAtLeast is how long the steps after the drain take at least.
	restAtLeast = time.Second
)

// restOf returns how long a try usually takes from the proof of its drain until the switch hook is
// called. The argument `small` is the number of tables that this process compares as a whole.
func restOf(c checkpoint.Cutover, small int) time.Duration {
	rest := handing + comparing*time.Duration(max(1, (small+comparesAtOnce-1)/comparesAtOnce))
	if c.FencesFirst() {
		rest += Fencing
	}
	return rest
}

// provedWithin returns how long the proof of a drain may take if the switch hook must be called
// within `most`. A freeze that waits for nothing is always allowed.
func provedWithin(most, rest time.Duration) time.Duration { return max(most-rest, 0) }

// Provable returns how long the proof of a drain may take if the freeze may last `most`.
func Provable(c checkpoint.Cutover, most time.Duration) time.Duration {
	return provedWithin(most, restOf(c, 0))
}

// switchBy returns the time after which a try is abandoned if the switch hook cannot be called
// before. In the drain, that is the limit of the freeze. Afterwards no condition is awaited, and
// another try would freeze the application for the whole time again. So the limit then rises by the
// time that the rest usually takes. The result is zero if only the deadline ends the try: in a
// rehearsal, and while workers compare whole tables.
func switchBy(c checkpoint.Cutover, rest time.Duration) time.Time {
	switch {
	case c.FrozenAt.IsZero(), len(c.Finals) > 0, c.Direction == checkpoint.Back:
	case c.Step == checkpoint.CutoverVerify, c.Step == checkpoint.CutoverFence:
		return c.FrozenAt.Add(c.Limit() + rest)
	case c.Step == checkpoint.CutoverDrain:
		return c.FrozenAt.Add(c.Limit())
	}
	return time.Time{}
}

// tooLate reports whether a try is abandoned because the present step ends at time `at` at the
// earliest.
func tooLate(c checkpoint.Cutover, rest time.Duration, at time.Time) bool {
	if c.Step == checkpoint.CutoverDrain {
		at = at.Add(restAtLeast)
		if c.FencesFirst() && c.Limit() > Fencing {
			at = at.Add(Fencing)
		}
	}
	limit := switchBy(c, rest)
	return !limit.IsZero() && at.After(limit)
}

// comparesItself returns the number of tables that this process compares as a whole in the freeze.
func comparesItself(found []readiness.Figures, most int64) (n int) {
	for _, f := range found {
		if readiness.Small(f.State.Verify.Full, most) {
			n++
		}
	}
	return n
}
