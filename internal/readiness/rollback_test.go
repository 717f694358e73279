package readiness

import (
	"slices"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// A rollback begins only while a leader follows, is not behind, and no request is in doubt. Rows that
// cannot be carried are the only reason that an operator may override.
func TestGatesOfARollback(t *testing.T) {
	const lease, below = 20 * time.Second, time.Minute
	for name, c := range map[string]struct {
		change func(f *checkpoint.Fallback)
		open   []string
		figure string
	}{
		"ready":                 {func(*checkpoint.Fallback) {}, nil, ""},
		"none":                  {func(f *checkpoint.Fallback) { *f = checkpoint.Fallback{} }, []string{GateFollowing, GateBehind, GateLeader}, "there is no way back"},
		"of another attempt":    {func(f *checkpoint.Fallback) { f.Attempt = 2 }, []string{GateFollowing}, "there is no way back"},
		"stopping":              {func(f *checkpoint.Fallback) { f.State = checkpoint.FallbackStopping }, []string{GateFollowing}, "stopping"},
		"a gap":                 {func(f *checkpoint.Fallback) { f.State, f.Reason = checkpoint.FallbackGap, "too late" }, []string{GateFollowing}, "changes were lost: too late"},
		"silent for 3 leases":   {func(f *checkpoint.Fallback) { f.SavedAt = noon.Add(-3 * lease) }, nil, ""},
		"silent for longer":     {func(f *checkpoint.Fallback) { f.SavedAt = noon.Add(-3*lease - 1) }, []string{GateFollowing}, "no worker leads since 2026-11-02 11:58:59"},
		"a row is parked":       {func(f *checkpoint.Fallback) { f.Parked = 2 }, []string{GateCarried}, "2 rows cannot be carried"},
		"behind by the bound":   {func(f *checkpoint.Fallback) { f.Settled = noon.Add(-below) }, nil, ""},
		"behind by more":        {func(f *checkpoint.Fallback) { f.Settled = noon.Add(-below - time.Second) }, []string{GateBehind}, "1m1s behind"},
		"ahead":                 {func(f *checkpoint.Fallback) { f.Settled = noon.Add(time.Hour) }, nil, ""},
		"nothing settled":       {func(f *checkpoint.Fallback) { f.Settled = time.Time{} }, []string{GateBehind}, "lag unknown"},
		"a new leader":          {func(f *checkpoint.Fallback) { f.Led = noon.Add(time.Second - f.Wait) }, []string{GateLeader}, "the same leader for 14m59s (15m needed)"},
		"no leader":             {func(f *checkpoint.Fallback) { f.Led = time.Time{} }, []string{GateLeader}, "no leader"},
		"a request is in doubt": {func(f *checkpoint.Fallback) { f.DoubtUntil = noon.Add(1) }, []string{GateLeader}, "the same leader for 15m (15m needed)"},
		"it was in doubt":       {func(f *checkpoint.Fallback) { f.DoubtUntil = noon }, nil, ""},
	} {
		f := checkpoint.Fallback{Source: "Orders", Attempt: 3, State: checkpoint.FallbackFollowing, SavedAt: noon, Settled: noon.Add(-time.Second), Wait: 15 * time.Minute, Led: noon.Add(-15 * time.Minute)}
		c.change(&f)
		gates := judgeRollback(f, 3, below, lease, noon)
		var open []string
		for _, g := range Open(gates) {
			open = append(open, g.Name)
			if g.Cure == "" || g.Table != f.Source || g.Binding != (g.Name != GateCarried) {
				t.Errorf("%s: %+v", name, g)
			}
		}
		if !slices.Equal(open, c.open) {
			t.Errorf("%s: open are %v, want %v", name, open, c.open)
		} else if len(open) > 0 && Open(gates)[0].Figure != c.figure {
			t.Errorf("%s: %q, want %q", name, Open(gates)[0].Figure, c.figure)
		}
		Override(gates, checkpoint.CutoverPlan{Overrides: []checkpoint.CutoverOverride{{Gate: GateCarried, Reason: "known"}, {Gate: GateBehind, Reason: "known"}}})
		if left := len(Open(gates)); left != len(slices.DeleteFunc(slices.Clone(open), func(gate string) bool { return gate == GateCarried })) {
			t.Errorf("%s: %d gates are open after an override", name, left)
		}
	}
}

// An end of the way back that did not complete is completed by the same command.
func TestAnEndedWayBackNamesItsCommand(t *testing.T) {
	for _, state := range []checkpoint.FallbackState{checkpoint.FallbackStopping, checkpoint.FallbackStopped} {
		gates := judgeRollback(checkpoint.Fallback{Source: "Orders", Attempt: 3, State: state, SavedAt: noon}, 3, time.Minute, time.Minute, noon)
		if g := gates[0]; g.Ready || g.Cure != "replicator cutover end-fallback" {
			t.Errorf("%s: %+v", state, g)
		}
	}
}

// The drain waits for what is settled up to the given time, and for all that is under way.
func TestWhatADrainBackAwaits(t *testing.T) {
	good := checkpoint.Fallback{Settled: noon, SavedAt: noon}
	for name, c := range map[string]struct {
		change func(f *checkpoint.Fallback)
		want   string
	}{
		"drained":       {func(*checkpoint.Fallback) {}, ""},
		"not read":      {func(f *checkpoint.Fallback) { f.Settled = noon.Add(-time.Nanosecond) }, "changes are read up to 11:59:59, and 12:00:00 is needed"},
		"dirty":         {func(f *checkpoint.Fallback) { f.Dirty = 2 }, "2 rows may differ from their items"},
		"in doubt":      {func(f *checkpoint.Fallback) { f.Doubts = 1 }, "a request may still be executed"},
		"former doubts": {func(f *checkpoint.Fallback) { f.DoubtUntil = noon.Add(time.Minute + 1) }, "a request may still be executed"},
		"doubts over":   {func(f *checkpoint.Fallback) { f.DoubtUntil = noon.Add(time.Minute) }, ""},
		"just written":  {func(f *checkpoint.Fallback) { f.WroteAt = noon.Add(30*time.Second + 1) }, "the last request to DynamoDB was at 12:00:30"},
		"written":       {func(f *checkpoint.Fallback) { f.WroteAt = noon.Add(30 * time.Second) }, ""},
		"not saved":     {func(f *checkpoint.Fallback) { f.SavedAt = noon.Add(-1) }, "its leader has not answered yet"},
	} {
		f := good
		c.change(&f)
		if got := DrainedBack(f, noon.Add(-30*time.Second), noon.Add(time.Minute), 30*time.Second); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
	for name, c := range map[string]struct {
		f      checkpoint.Fallback
		parked bool
		want   string
	}{
		"following":     {checkpoint.Fallback{Attempt: 3, State: checkpoint.FallbackFollowing}, false, ""},
		"a gap":         {checkpoint.Fallback{Attempt: 3, State: checkpoint.FallbackGap, Reason: "x"}, true, "changes were lost: x"},
		"another":       {checkpoint.Fallback{Attempt: 4, State: checkpoint.FallbackFollowing}, false, "the way back is following"},
		"stopping":      {checkpoint.Fallback{Attempt: 3, State: checkpoint.FallbackStopping}, false, "the way back is stopping"},
		"parked":        {checkpoint.Fallback{Attempt: 3, State: checkpoint.FallbackFollowing, Parked: 1}, false, "1 rows cannot be carried"},
		"parked, known": {checkpoint.Fallback{Attempt: 3, State: checkpoint.FallbackFollowing, Parked: 1}, true, ""},
	} {
		if got := LostBack(c.f, 3, c.parked); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
	stopped := checkpoint.Fallback{Source: "A", State: checkpoint.FallbackStopped, DoubtUntil: noon.Add(time.Hour)}
	for want, f := range map[string]checkpoint.Fallback{
		"": stopped, "table B: its leader has not stopped yet": {Source: "B", State: checkpoint.FallbackStopping, DoubtUntil: noon},
		"table B: a request may still be executed until 12:00:01": {Source: "B", State: checkpoint.FallbackStopping, DoubtUntil: noon.Add(time.Second)},
	} {
		if got := StoppedAll([]checkpoint.Fallback{stopped, f}, noon); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
