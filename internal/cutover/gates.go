package cutover

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Ready holds the limits of the gates. Within these limits, the application may be frozen.
type Ready struct {
	LagBelow, LagHeldFor time.Duration
	VerifyWithin         time.Duration
	FinalWithin          time.Duration // the freeze's deadline, if workers make the final verify; 0 otherwise
	// Small is the number of items below which the driver itself compares a table; 0 means 20,000.
	Small         int64
	ParkedAtMost  int
	HeadroomAbove time.Duration
	// Lease is the duration of the workers' leases. A report that is older than three leases does
	// not count.
	Lease time.Duration
}

// The names of the gates.
const (
	GateCopy     = "copy"
	GateLag      = "lag"
	GateVerify   = "verify"
	GateFull     = "full_verify"
	GateParked   = "parked"
	GateHeadroom = "headroom"
	GateFence    = "fence"
)

// GateNames are the names of the gates of every cutover.
var GateNames = []string{GateCopy, GateLag, GateVerify, GateFull, GateParked, GateHeadroom, GateFence}

// Overridable are the gates that an operator may override. The other gates check that a table is
// copied and was compared completely. Otherwise the attempt would fail after the freeze.
var Overridable = []string{GateLag, GateVerify, GateParked, GateHeadroom, GateFence}

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

// rows reads the ledger's rows of a table, of its shards, and of the progress of its appliers.
func (d *Driver) rows(ctx context.Context, source string) (f Figures, err error) {
	if f.State, f.Found, err = d.Ledger.Table(ctx, source); err != nil {
		return f, err
	}
	// This must be read before the shards: changes that are published later then count as
	// unapplied.
	if f.State.Apply == checkpoint.Topic {
		if f.Merged, err = d.Ledger.Merged(ctx, source); err != nil {
			return f, err
		}
	}
	f.Shards, err = d.Ledger.Shards(ctx, source)
	return f, err
}

// figures reads the data from which the gates of a table are judged, except the targets.
func (d *Driver) figures(ctx context.Context, source string) (f Figures, err error) {
	if f, err = d.rows(ctx, source); err != nil {
		return f, err
	}
	items, err := d.Parked(ctx, source)
	if err != nil {
		return f, err
	}
	f.Parked = len(items)
	return f, nil
}

// stands adds to f the other data from which the state of a table is judged.
func (d *Driver) stands(ctx context.Context, source string, f *Figures, now time.Time) (err error) {
	if f.Listings, err = d.Ledger.ListingsFor(ctx, source, f.State, f.Shards); err != nil {
		return err
	}
	if f.State.Apply == checkpoint.Topic {
		if f.DeadLetter, err = d.Ledger.DeadLetter(ctx); err != nil {
			return err
		}
	}
	lease, err := d.Ledger.CoordinatorLease(ctx, source)
	if err != nil {
		return err
	}
	f.Coordinator = lease.Heartbeat()
	processes, err := d.Ledger.Processes(ctx)
	f.Outdated = f.outdated(lease.Owner(), standing.Answering(processes, now, d.Ledger.Lease()))
	return err
}

// outdated returns why a process of an older version hinders a cutover; "" if there is none. Such a
// process keeps no record of the rows that it may write. It stops when the fence is raised for a
// cutover.
func (f *Figures) outdated(coordinator string, processes []checkpoint.Process) string {
	worker, version := standing.Outdated(f.Shards, coordinator, f.Coordinator, processes)
	if worker == "" {
		return ""
	}
	return fmt.Sprintf("process %s runs version %s, which does not record what it may write", worker, version)
}

// Gates reads and judges all gates.
func (d *Driver) Gates(ctx context.Context, plan checkpoint.CutoverPlan, now time.Time) ([]checkpoint.CutoverGate, error) {
	found, targets := make([]Figures, len(plan.Tables)), make([]checkpoint.Target, len(plan.Targets))
	g := task.NewGroup(ctx, tablesAtOnce)
	for i, name := range plan.Targets {
		g.Go("read the target "+name, func(ctx context.Context) (err error) {
			targets[i], _, err = d.Ledger.Target(ctx, name)
			return err
		})
	}
	for i, source := range plan.Tables {
		g.Go("judge "+source, func(ctx context.Context) (err error) {
			if found[i], err = d.figures(ctx, source); err == nil {
				err = d.stands(ctx, source, &found[i], now)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var gates []checkpoint.CutoverGate
	for i, source := range plan.Tables {
		found[i].Targets = targets
		gates = append(gates, found[i].Judge(source, d.Settings.orDefault().Ready, now)...)
	}
	further, err := d.fallbackGates(ctx, plan)
	if err != nil {
		return nil, err
	}
	gates = append(gates, further...)
	override(gates, plan)
	return gates, nil
}

// override notes the operator's reasons on the gates that may be overridden.
func override(gates []checkpoint.CutoverGate, plan checkpoint.CutoverPlan) {
	for i := range gates {
		g := &gates[i]
		j := slices.IndexFunc(plan.Overrides, func(o checkpoint.CutoverOverride) bool { return o.Gate == g.Name })
		if !g.Ready && !g.Binding && j >= 0 {
			g.Overridden = plan.Overrides[j].Reason
		}
	}
}

// Open returns the gates that are neither ready nor overridden.
func Open(gates []checkpoint.CutoverGate) (open []checkpoint.CutoverGate) {
	for _, g := range gates {
		if !g.Ready && g.Overridden == "" {
			open = append(open, g)
		}
	}
	return open
}

// Judge judges the gates of a table. A gate whose data are missing is not ready.
func (f Figures) Judge(source string, r Ready, now time.Time) []checkpoint.CutoverGate {
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
		gate(GateParked, f.Found && f.left() <= r.ParkedAtMost, fmt.Sprint(f.left()), parked),
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

// left returns the number of items that are missing in the target. Parked items are missing, and so
// are items that the last full verify could not map. The two may be the same items, so the larger
// number counts.
func (f Figures) left() int {
	return max(f.Parked, int(f.State.Verify.Full.Unmapped))
}

// full judges the last full verify. The final verify takes as long as the last one, and must end
// within the deadline of the freeze. If the last verify took too long for that, the gate is not
// ready.
func (f Figures) full(source string, within time.Duration, most int64, now time.Time) (yes bool, figure, cure string) {
	r := f.State.Verify.Full
	if !standing.VerifiedInFull(f.State, now) {
		return false, resultText(r, now), "replicator verify --full --table " + source
	}
	if took := r.EndedAt.Sub(r.BegunAt); within > 0 && f.State.Apply == checkpoint.Topic && !small(r, most) && !r.BegunAt.IsZero() && took > within/2 {
		return false, fmt.Sprintf("took %s, more than half of cutover.freeze_deadline (%s)", spell(took.Round(time.Second)), spell(within)),
			"raise cutover.freeze_deadline to at least " + spell((2 * took).Round(time.Second))
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
func (f Figures) lag(s *standing.Standing, r Ready, now time.Time) (bool, string) {
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
			return false, "shard " + shard.ID + " is " + spell(now.Sub(reached).Round(time.Second)) + " behind"
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
	return held >= r.LagHeldFor, fmt.Sprintf("held %s (%s needed)", spell(held.Round(time.Second)), spell(r.LagHeldFor))
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
	return least > above, spell(min(least, cdc.Retention).Round(time.Minute))
}

// spell formats a duration without units that are zero: 24h, and not 24h0m0s.
func spell(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
