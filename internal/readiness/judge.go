package readiness

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/timespan"
)

// Figures are the data from which the gates of a table are judged.
type Figures struct {
	Found   bool
	State   checkpoint.TableState
	Shards  []checkpoint.Shard
	Merged  []checkpoint.Applied
	Parked  int
	Targets []checkpoint.Target

	Listings    checkpoint.Listings
	Coordinator checkpoint.Heartbeat
	DeadLetter  checkpoint.DeadLetter
	Doubts      []standing.Doubt // doubts about the target
	// Outdated names a process of an older version, which keeps no record of the rows that it may
	// write. It is "" if there is none.
	Outdated string
}

// Judge judges the gates of a table. A gate whose data are missing is not ready.
func (f Figures) Judge(source string, r Limits, now time.Time) []checkpoint.CutoverGate {
	gate := func(name string, ready bool, figure, cure string) checkpoint.CutoverGate {
		g := checkpoint.CutoverGate{Name: name, Table: source, Ready: ready, Figure: figure}
		if !ready {
			g.Cure = cure
			g.Binding = !slices.Contains(Overridable, name) || name == GateVerify && f.differs() || name == GateFence && f.Outdated != ""
		}
		return g
	}
	s := f.standing(r.Lease, now)
	copied, why, cure := f.copied(&s)
	verified, verdict := f.verified(r.VerifyWithin, now)
	whole, full, fullCure := f.full(source, r.FinalWithin, r.Small, now)
	parked := "replicator parked list --table " + source
	fenced, withheld := true, "late writes are rejected"
	for _, t := range f.Targets {
		switch {
		case t.Withheld != "":
			fenced, withheld = false, "late writes to "+t.Table+" are not rejected: "+t.Withheld
		case t.Fence == 0:
			fenced, withheld = false, "table "+t.Table+" has no fence yet"
		}
	}
	fence := "grant bigtable.tables.update to the workers, and remove the table's deletion protection"
	if f.Outdated != "" {
		fenced, withheld, fence = false, f.Outdated, "upgrade or stop that process"
	}
	lagging, lag := f.lag(&s, r, now)
	roomy, headroom := f.headroom(r.HeadroomAbove, now)
	return []checkpoint.CutoverGate{
		gate(GateCopy, copied, why, cure),
		gate(GateLag, lagging, lag, "replicator status --table "+source+" --shards"),
		gate(GateVerify, verified, verdict, "replicator verify --table "+source),
		gate(GateFull, whole, full, fullCure),
		gate(GateParked, f.Found && f.Left() <= r.ParkedAtMost, fmt.Sprint(f.Left()), parked),
		gate(GateHeadroom, roomy, headroom, "replicator status --table "+source+" --shards"),
		gate(GateFence, f.Found && fenced, withheld, fence),
	}
}

func resultText(r checkpoint.VerifyResult, now time.Time) string {
	if !r.Known() {
		return "never"
	}
	return r.Verdict(now)
}

// standing judges the state of the table from the figures.
func (f Figures) standing(lease time.Duration, now time.Time) standing.Standing {
	return standing.Of(standing.Facts{Table: f.State, Named: true, Shards: f.Shards, Listings: f.Listings, Coordinator: f.Coordinator, Merged: f.Merged,
		DeadLetter: f.DeadLetter, Doubts: f.Doubts, Lease: lease, Now: now})
}

// Uncopied returns why the table is not completely loaded, swept and replicated since then; "" if
// it is.
func (f Figures) Uncopied(lease time.Duration, now time.Time) (why string) {
	s := f.standing(lease, now)
	if copied, figure, _ := f.copied(&s); !copied {
		return figure
	}
	return ""
}

// copied reports whether the table is completely loaded and swept, and replicated since then. If
// not, `figure` is the reason, and `cure` is the command that helps.
func (f Figures) copied(s *standing.Standing) (yes bool, figure, cure string) {
	c, holds := s.Unloaded()
	if !holds {
		return true, "done", ""
	}
	if step, leads := c.NextStep(f.State.Source, ""); leads {
		return false, step.Why, step.Command
	}
	return false, c.Text(), "replicator status --table " + f.State.Source
}

func (f Figures) verified(within time.Duration, now time.Time) (bool, string) {
	ready := standing.Verified(f.State, within, now)
	if n := f.State.Sampled.Differing; n > 0 {
		return false, differing(n)
	}
	return ready, resultText(f.State.Verify.Result, now)
}

// differs reports whether rows are known to differ. No override can pass this gate.
func (f Figures) differs() bool {
	return f.State.Sampled.Differing > 0 || f.State.Verify.Result.Differing() > 0
}

// Left returns the number of items that are missing in the target. Parked items are missing, and so
// are items that the last full verify could not map. The two may be the same items, so the larger
// number counts.
func (f Figures) Left() int {
	return max(f.Parked, int(f.State.Verify.Full.Unmapped))
}

// smallItems is the default of Limits.Small.
const smallItems = 20_000

// Small reports whether the driver itself compares the whole table during the freeze, which takes
// one or two seconds. In the last full verify, the table must have had fewer items than `most`, and
// not many more rows.
func Small(full checkpoint.VerifyResult, most int64) bool {
	most = cmp.Or(most, smallItems)
	return full.Known() && full.Items < most && full.Rows < 5*most
}

// full judges the last full verify. The final verify takes as long as the last one, and must end
// within the deadline of the freeze. If the last verify took too long for that, the gate is not
// ready.
func (f Figures) full(source string, within time.Duration, most int64, now time.Time) (yes bool, figure, cure string) {
	r := f.State.Verify.Full
	if !standing.VerifiedInFull(f.State, now) {
		return false, resultText(r, now), "replicator verify --full --table " + source
	}
	if took := r.EndedAt.Sub(r.BegunAt); within > 0 && f.State.Apply == checkpoint.Topic && !Small(r, most) && !r.BegunAt.IsZero() && took > within/2 {
		return false, fmt.Sprintf("took %s, more than half of cutover.freeze_deadline (%s)", timespan.Spell(took.Round(time.Second)), timespan.Spell(within)),
			"raise cutover.freeze_deadline to at least " + timespan.Spell((2 * took).Round(time.Second))
	}
	return true, resultText(r, now), ""
}

// differing describes the number of rows of a sample that differ.
func differing(n int) string {
	if n == 1 {
		return "1 row of a sample differs"
	}
	return fmt.Sprintf("%d rows of a sample differ", n)
}

// lag reports whether every shard is read and has been caught up for long enough.
func (f Figures) lag(s *standing.Standing, r Limits, now time.Time) (bool, string) {
	open := standing.Open(f.State, f.Shards)
	if len(open) == 0 {
		return false, "no shard is being read"
	}
	var behind time.Time
	for _, shard := range open {
		reached := reached(shard)
		switch {
		case shard.State != checkpoint.Reading || shard.Owner == "" || reached.IsZero():
			return false, "no worker reads shard " + shard.ID
		case now.Sub(reached) > r.LagBelow+standing.Fresh(r.Lease):
			return false, "shard " + shard.ID + " is " + timespan.Spell(now.Sub(reached).Round(time.Second)) + " behind"
		}
		if at := shard.Sighted.BehindAt; at.After(behind) {
			behind = at
		}
	}
	if c, holds := s.Unapplied(); holds {
		return false, c.Text()
	}
	if behind.IsZero() {
		return true, "held since the copy"
	}
	held := now.Sub(behind)
	return held >= r.LagHeldFor, fmt.Sprintf("held %s (%s needed)", timespan.Spell(held.Round(time.Second)), timespan.Spell(r.LagHeldFor))
}

// reached returns the time up to which a shard is applied or published. A settling change was
// applied once already, so for such changes the time of the last read counts. Messages that wait in
// a topic are judged by standing.Unapplied, which has a lower bound.
func reached(s *checkpoint.Shard) time.Time {
	at := s.PositionTime()
	if s.Settling.Changes > 0 && s.ReadAt.After(at) {
		at = s.ReadAt
	}
	return at
}

func (f Figures) headroom(above time.Duration, now time.Time) (bool, string) {
	open := standing.Open(f.State, f.Shards)
	least, known := standing.Headroom(open, now)
	switch {
	case len(open) == 0:
		return false, "no shard is being read"
	case known < len(open):
		return false, "unknown for some shards"
	}
	return least > above, timespan.Spell(min(least, cdc.Retention).Round(time.Minute))
}
