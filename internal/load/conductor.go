package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/source"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Conductor takes a table's load through its stages. It requests loads that start automatically,
// plans them, completes the copy, and runs the sweep pass by pass. It works under the coordinator
// lease. It copies no items itself, because the loaders of all workers do that. All its state is in
// the ledger, so the next coordinator can continue.
type Conductor struct {
	*engine.Common
	mapping   *transform.Mapping
	database  engine.Database
	target    sink.MarkReader
	witnesses *engine.Witnesses
	fencing   *engine.Fencing
	// busy returns why loads must wait for the target's CPU. It is nil if the CPU load is not
	// checked.
	busy     func(ctx context.Context, above float64) (why string)
	settings loadSettings
	writer   *sink.Writer
	sources  *source.Opener
	exporter engine.Exporter // nil if this worker requests no exports
	// joined reports that a pattern matched the table, so the table leaves when it is dropped.
	joined       bool
	wake         *task.Wakeup
	wakeLoader   *task.Wakeup // wakes the loader when there are parts to acquire
	wakeAssigner *task.Wakeup // wakes the assigner, which waits for the load with Once

	cleaned uint32        // the number of the last load with parts that were removed
	asked   time.Duration // when the target's CPU load was last read; 0 if never
	why     string        // result of the last read of the CPU load
	stuck   string        // why the sweep of a fast load must wait; "" if it need not
	// stuckSince is when that was found.
	stuckSince time.Duration
	looked     time.Duration  // when other migrations were last searched for; 0 if never
	other      string         // result of the last search for other migrations
	meter      backfill.Meter // meter of the running load
	metered    uint32         // number of the load that the meter measures
	paced      time.Duration  // when the pace of that load was last saved

	judged   time.Duration // when the configured export was last checked; 0 if never
	lastCall exportCall    // the last call about an export
	nextCall time.Duration // the earliest time of the next call about an export
}

// paceStore stores the progress of a load, which status shows. *checkpoint.Coordinator implements
// it.
type paceStore interface {
	SavePace(ctx context.Context, pace checkpoint.Pace) error
}

const (
	// safeHeadroom is the minimum headroom of every shard while a load runs. Headroom is the time
	// until the stream drops the shard's oldest unread change. A load that delays the replication
	// too much would cause the next gap (H106).
	safeHeadroom = 18 * time.Hour
	// busyEvery is the time between two reads of the target's CPU load.
	busyEvery = time.Minute
	// paceEvery is the time between two saves of a load's pace.
	paceEvery = 5 * time.Second
	// mostSweepParts is the maximum number of ranges into which a sweep divides a target table.
	mostSweepParts = 32
)

// Run executes the steps of loads until a drain begins. A dropped table needs no load, but its task
// continues as long as its stream can be read, if the configuration names the table.
func (c *Conductor) Run(life engine.Lifecycle, paces paceStore) error {
	for !life.Draining() && life.Work.Err() == nil {
		err := c.Retry(life, "load the table", func(ctx context.Context) error {
			err := c.step(life.Within(ctx), paces)
			var refused *checkpoint.LoadError
			if errors.As(err, &refused) && refused.Yet {
				return nil // the ledger has changed since the last read
			}
			return err
		})
		switch {
		case engine.Fatal(err): // a fatal error counts first, even if there are others
			return err
		case life.Draining():
			return nil
		case engine.IsAny(err, sink.ErrFenced): // treated as a refusal
		case !c.joined && cdc.Is(err, cdc.NotFound) && engine.Gone(c.database.Describe(life.Work, c.Source)):
			_ = life.Rest(c.Timing.List)
		case err != nil:
			return err
		}
		_ = c.wake.Wait(life.Drain, c.Timing.Pass)
	}
	return nil
}

// step executes the next step of the load's stage, if there is one. A suspended table gets no load
// until the reconciler finds that the table can be replicated again.
func (c *Conductor) step(life engine.Lifecycle, paces paceStore) error {
	state, err := c.Record(life.Work)
	if err != nil || state.Suspended.Reason != "" {
		return err
	}
	stage := state.Stage()
	if stage == checkpoint.StageNone || stage == checkpoint.StageOver {
		err := c.clean(life, state)
		if err == nil && stage == checkpoint.StageNone {
			err = c.ask(life, state)
		}
		return err
	}
	v, err := c.Look(life.Work) // the view includes the shards
	if err != nil || v.State.Suspended.Reason != "" || v.State.Stage() != stage {
		return err // the next step handles a record that has changed meanwhile
	}
	if changed, err := c.guard(life, v); changed || err != nil {
		return err
	}
	switch stage {
	case checkpoint.StageAsked:
		if v.State.Load.Request.Refused() {
			return c.judgeAgain(life, v.State)
		}
		if there, err := c.request(life, v); !there || err != nil {
			return err
		}
		return c.seal(life, v)
	case checkpoint.StageCopying:
		return c.complete(life, v.State, paces)
	}
	return c.sweep(life, v.State)
}

// ask requests loads that need no operator. One is the first load, from the export that the
// configuration names, if any. The other is the load after a gap, with `on_gap: load`.
func (c *Conductor) ask(life engine.Lifecycle, state checkpoint.TableState) error {
	if !c.settings.wanted || state.StreamEnded {
		return nil
	}
	asks, _ := state.AsksItself(true, c.settings.again)
	if !asks {
		return nil
	}
	// Only the first load may copy the configured export, because an earlier export cannot repair a
	// later loss.
	if c.settings.named.Given() && state.Base == 0 {
		return c.askNamed(life)
	}
	_, err := c.Ledger.AskLoad(life.Work, c.Source, false)
	if err == nil {
		c.wake.Signal()
	}
	return err
}

// seal plans the load as soon as the load is admissible. First it raises the fence, so that
// in-flight writes of earlier generations can be rejected before the sweep.
func (c *Conductor) seal(life engine.Lifecycle, v engine.View) error {
	ctx := life.Work
	// Without a stream, changes after the load's images would be missing.
	if v.State.Load.Paused != "" || v.State.StreamEnded {
		return nil
	}
	if yet, err := source.Admissible(v.State, v.Shards, c.Ledger.ServiceTime(ctx), c.settings.late); yet || err != nil {
		return err
	}
	var d backfill.Description
	err := c.call(life, func(ctx context.Context) (err error) {
		if d, err = c.database.Describe(ctx, c.Source); err == nil && d.At.IsZero() {
			err = engine.ErrTimeless
		}
		return err
	})
	// The load begins at this time. Because it is rounded down to the second, it may be earlier
	// than the time above.
	if err == nil {
		var yet bool
		if yet, err = source.Admissible(v.State, v.Shards, d.At, c.settings.late); yet {
			return nil
		}
	}
	var plan checkpoint.Plan
	if err == nil {
		// This is not retried, because refused images stay refused until an operator requests
		// others.
		wanted := source.Wanted{Table: d, Mapping: c.mapping, Late: c.settings.late, Segments: c.settings.segments}
		plan, err = c.sources.Plan(ctx, v.State.Load, wanted, v.State.AdoptedAt, c.settings.imageAge/2)
	}
	plan.Generation, plan.Number, plan.TableID = v.State.Generation, v.State.Load.Number+1, d.ID
	plan.StartedAt = d.At // on the service's clock, like the times of the shards' first reads
	if err == nil {
		plan.CellTime, plan.Guarded, err = c.decide(life, v)
	}
	switch fast := !plan.CellTime.IsZero(); {
	case err != nil:
	case fast:
		err = c.call(life, func(ctx context.Context) (err error) { plan.Numbers, err = c.numbers(ctx); return err })
	default: // this call comes last, because every attempt uses up a number
		err = c.call(life, func(ctx context.Context) error {
			_, tables, err := c.former(ctx, v.State)
			if err != nil {
				return err
			}
			return c.fencing.RaiseAll(ctx, tables...)
		})
	}
	if err == nil {
		err = c.call(life, func(ctx context.Context) error { _, err := c.Ledger.SealLoad(ctx, c.Source, plan); return err })
	}
	if err != nil {
		return err
	}
	c.wakeLoader.Signal()
	return nil
}

// call makes one call of a step and retries only that call. If each failure restarted the whole
// step, the step might never end while both services throttle.
func (c *Conductor) call(life engine.Lifecycle, op func(ctx context.Context) error) error {
	var yet error
	err := c.Retry(life, "load the table", func(ctx context.Context) error {
		err := op(ctx)
		var refused *checkpoint.LoadError
		if errors.As(err, &refused) { // the next read of the ledger decides how to continue
			yet = err
			return nil
		}
		return err
	})
	return cmp.Or(err, yet)
}

// guard pauses the load while it endangers the stream or the target, and resumes it afterwards. It
// reports whether it paused or resumed the load. A load that is not planned yet is planned only
// after the pause. guard does not end an operator's pause.
func (c *Conductor) guard(life engine.Lifecycle, v engine.View) (changed bool, err error) {
	ctx, paused := life.Work, v.State.Load.Paused
	if paused == checkpoint.PausedByOperator {
		return false, nil
	}
	why := ""
	if left, known := standing.Headroom(standing.Open(v.State, v.Shards), c.Ledger.ServiceTime(ctx)); known > 0 && left < safeHeadroom {
		why = checkpoint.PausedForHeadroom
	}
	if why == "" {
		why = c.tooBusy(life, v.State)
	}
	if c.stuck != "" && (!v.State.Load.Fast || task.Mono(ctx)-c.stuckSince >= stuckFor) {
		c.stuck = "" // the next step tries again
	}
	why = cmp.Or(c.stuck, why)
	if stage := v.State.Stage(); stage == checkpoint.StageSweeping || stage == checkpoint.StageAsked && v.State.Base == 0 {
		other, err := c.stranger(life, v.State)
		if err != nil {
			return false, err
		}
		why = cmp.Or(other, why)
	}
	switch why {
	case paused:
		return false, nil
	case "":
		_, err = c.Ledger.ResumeLoad(ctx, c.Source, paused)
	default:
		_, err = c.Ledger.PauseLoad(ctx, c.Source, why)
	}
	c.wake.Signal() // so that the loop reads the changed record
	c.wakeLoader.Signal()
	return true, err
}

// tooBusy returns why the load must wait for the target's CPU; "" if it need not wait. It reads the
// target's CPU load at most once per busyEvery.
func (c *Conductor) tooBusy(life engine.Lifecycle, state checkpoint.TableState) string {
	share, watched := state.Limits.Over(c.settings.limits()).CPU()
	if c.busy == nil || !watched {
		return ""
	}
	if now := task.Mono(life.Work); c.asked == 0 || now-c.asked >= busyEvery {
		c.asked, c.why = max(now, 1), c.busy(life.Work, share)
	}
	return c.why
}

// stranger returns why the sweep or the first load must wait for another migration; "" if no other
// migration writes the target tables. It checks before each pass of the sweep, and otherwise once
// per busyEvery.
func (c *Conductor) stranger(life engine.Lifecycle, state checkpoint.TableState) (string, error) {
	now := task.Mono(life.Work)
	if _, due := state.NextPass(); !due && state.Stage() == checkpoint.StageSweeping && c.looked > 0 && now-c.looked < busyEvery {
		return c.other, nil
	}
	err := c.call(life, func(ctx context.Context) error {
		return c.witnesses.Stranger(ctx, slices.Concat(c.mapping.Tables(), state.FormerTables())...)
	})
	var other *engine.StrangerError
	if err != nil && !errors.As(err, &other) {
		return "", err
	}
	if c.looked, c.other = max(now, 1), ""; other != nil {
		c.other = checkpoint.PausedForStranger + other.Other.String()
	}
	return c.other, nil
}

// pace saves the progress of the load every paceEvery.
func (c *Conductor) pace(ctx context.Context, state checkpoint.TableState, sums checkpoint.Sums, paces paceStore) error {
	now := task.Mono(ctx)
	if c.metered != state.Load.Number {
		c.meter, c.metered, c.paced = backfill.Meter{}, state.Load.Number, 0
	}
	c.meter.Add(now, sums.Items)
	if c.paced > 0 && now-c.paced < paceEvery {
		return nil
	}
	c.paced = max(now, 1)
	at := task.Now(ctx)
	return paces.SavePace(ctx, checkpoint.Pace{At: at.UTC(), Rate: math.Round(max(0, c.meter.Rate())*10) / 10, Throttled: c.Waits.Report(at)})
}

// complete records that every part is durable. Before that, it checks the witness and the coverage
// again. If the target was lost meanwhile, the copied rows are missing, and the next regular check
// of the witness may be a minute away. If a root was listed and first read after the load began,
// changes between the images and that first read may be missing.
func (c *Conductor) complete(life engine.Lifecycle, state checkpoint.TableState, paces paceStore) error {
	ctx := life.Work
	rows, err := c.Ledger.Parts(ctx, state, checkpoint.PhaseCopy)
	if err != nil {
		return err
	}
	sums := checkpoint.PartsDone(rows, state.Load.Parts)
	if err := c.pace(ctx, state, sums, paces); err != nil || !sums.Complete() {
		return err
	}
	if err := c.unchanged(life, state); err != nil {
		return err
	}
	var v engine.View
	if err := c.call(life, func(ctx context.Context) (err error) { v, err = c.Look(ctx); return err }); err != nil {
		return err
	}
	if v.State.Generation != state.Generation {
		return errRaised
	}
	if err := c.mayEnd(life, v); err != nil {
		return err
	}
	var hole *checkpoint.NotAdmissible
	if err := checkpoint.Admissible(v.State, v.Shards, state.Load.ImagesAt(), c.settings.late); errors.As(err, &hole) {
		if hole.Yet {
			return hole // retried until the late root is read
		}
		return cmp.Or(c.Raise(life, state.Generation, checkpoint.DeclaredGap{
			Kind: checkpoint.KindStream, Reason: hole.Error(), LostFrom: state.Load.ImagesAt().Add(-checkpoint.Slack),
		}, nil), errRaised)
	}
	// Without a sweep, the fence's former number must be dropped here.
	if state.NeedsNoSweep() {
		err = c.call(life, c.fencing.ClearAll)
	}
	if err == nil {
		err = c.call(life, func(ctx context.Context) error { _, err := c.Ledger.CompleteCopy(ctx, state, sums); return err })
	}
	if err != nil {
		return err
	}
	c.Events.CopyDone(c.Source, sums.Items)
	c.wakeAssigner.Signal()
	c.wake.Signal()
	return nil
}

// unchanged fails if the source or the target was replaced since the load began. Then another
// generation has begun.
func (c *Conductor) unchanged(life engine.Lifecycle, state checkpoint.TableState) error {
	if err := c.call(life, func(ctx context.Context) error { return c.sameTable(life.Within(ctx), state) }); err != nil {
		return err
	}
	return c.call(life, func(ctx context.Context) error { return c.witnesses.Beat(life.Within(ctx)) })
}

// sameTable checks whether the source table was recreated since the load began. If so, it begins
// another generation and fails with errRaised.
func (c *Conductor) sameTable(life engine.Lifecycle, state checkpoint.TableState) error {
	d, err := c.database.Describe(life.Work, c.Source)
	if err != nil || d.ID == state.Load.TableID || state.Load.TableID == "" || d.ID == "" {
		return err
	}
	gap := checkpoint.DeclaredGap{Kind: checkpoint.KindCreatedAnew, Reason: "the source table was recreated during its load"}
	return cmp.Or(c.Raise(life, state.Generation, gap, nil), errRaised)
}

// errRaised is the error of a load that has read all items, but is not complete because another
// generation began.
var errRaised = fmt.Errorf("during the load of the table: %w", sink.ErrFenced)
