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

// Conductor takes a table's load through its stages. It requests the load if no operator needs to,
// seals its plan, completes the copy, and runs the sweep pass by pass. It works under the
// coordinator lease and moves no item itself: every worker's loader does that. All its state is in
// the ledger, so the next coordinator continues from there.
type Conductor struct {
	*engine.Common
	mapping      *transform.Mapping
	database     engine.Database
	target       sink.MarkReader
	witnesses    *engine.Witnesses
	fencing      *engine.Fencing
	busy         func(ctx context.Context, above float64) (why string) // of the target; nil: the load is not watched
	settings     loadSettings
	sources      *source.Opener
	exporter     engine.Exporter // nil: this worker requests no exports
	joined       bool            // by a pattern: the table is left when it is dropped
	wake         *task.Wakeup
	wakeLoader   *task.Wakeup // there are parts to acquire
	wakeAssigner *task.Wakeup // with Once it waits for the load

	cleaned uint32         // the number of the load whose parts were removed last
	asked   time.Duration  // when the target's CPU load was last read; 0: never
	why     string         // the result
	looked  time.Duration  // when other migrations were last searched for; 0: never
	other   string         // the result
	meter   backfill.Meter // of the running load
	metered uint32         // its number
	paced   time.Duration  // when its pace was last saved

	judged   time.Duration // when the configured export was last judged; 0: never
	lastCall exportCall    // the last call about an export
	nextCall time.Duration // the earliest time of the next one
}

// paceStore stores the progress of a load, for people; *checkpoint.Coordinator is one.
type paceStore interface {
	SavePace(ctx context.Context, pace checkpoint.Pace) error
}

const (
	// safeHeadroom is how much of the stream's retention every shard must have left while a load
	// runs. A load that starves the stream would cause the next gap (H106).
	safeHeadroom = 18 * time.Hour
	// busyEvery is how often the target's CPU load is read.
	busyEvery = time.Minute
	// paceEvery is how often a load's pace is saved.
	paceEvery = 5 * time.Second
	// mostSweepParts bounds the ranges that a sweep divides one target table into.
	mostSweepParts = 32
)

// Run takes one step after the other until a drain begins. A table that was dropped has nothing to
// load, but a named one is kept as long as its stream can be read.
func (c *Conductor) Run(life engine.Lifecycle, paces paceStore) error {
	for !life.Draining() && life.Work.Err() == nil {
		err := c.Retry(life, "load the table", func(ctx context.Context) error {
			err := c.step(life.Within(ctx), paces)
			var refused *checkpoint.LoadError
			if errors.As(err, &refused) && refused.Yet {
				return nil // the ledger has changed since it was read
			}
			return err
		})
		switch {
		case engine.Fatal(err): // regardless of other failures
			return err
		case life.Draining():
			return nil
		case engine.IsAny(err, sink.ErrFenced): // as if it was refused
		case !c.joined && cdc.Is(err, cdc.NotFound) && engine.Gone(c.database.Describe(life.Work, c.Source)):
			_ = life.Rest(c.Timing.List)
		case err != nil:
			return err
		}
		_ = c.wake.Wait(life.Drain, c.Timing.Pass)
	}
	return nil
}

// step does the next step of the load's stage, if there is one. A suspended table has nothing to
// load until the reconciler finds that it can be followed again.
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
	v, err := c.Look(life.Work) // including the shards
	if err != nil || v.State.Suspended.Reason != "" || v.State.Stage() != stage {
		return err // later changes are left to the next step
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

// ask requests a load that needs no operator. That is the first load, from the export that the
// configuration names if there is one. With on_gap: load it is also a load after a gap.
func (c *Conductor) ask(life engine.Lifecycle, state checkpoint.TableState) error {
	if !c.settings.wanted || state.StreamEnded {
		return nil
	}
	asks, _ := state.AsksItself(true, c.settings.again)
	if !asks {
		return nil
	}
	if c.settings.named.Given() && state.Base == 0 { // a later load repairs a later loss, which no earlier export shows
		return c.askNamed(life)
	}
	_, err := c.Ledger.AskLoad(life.Work, c.Source, false)
	if err == nil {
		c.wake.Signal()
	}
	return err
}

// seal plans the load as soon as it is admissible. It raises the fence first, so that in-flight
// writes of earlier generations can be rejected before the sweep.
func (c *Conductor) seal(life engine.Lifecycle, v engine.View) error {
	ctx := life.Work
	// Without a stream, no later changes would follow the images.
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
	// The load begins at that time, which is rounded down to the second: it may be earlier than the
	// time above.
	if err == nil {
		var yet bool
		if yet, err = source.Admissible(v.State, v.Shards, d.At, c.settings.late); yet {
			return nil
		}
	}
	var plan checkpoint.Plan
	if err == nil {
		// Not retried here: refused images stay refused until an operator requests others.
		wanted := source.Wanted{Table: d, Mapping: c.mapping, Late: c.settings.late, Segments: c.settings.segments}
		plan, err = c.sources.Plan(ctx, v.State.Load, wanted, v.State.AdoptedAt, c.settings.imageAge/2)
	}
	plan.Generation, plan.Number, plan.TableID = v.State.Generation, v.State.Load.Number+1, d.ID
	plan.StartedAt = d.At // by the service's clock, like the time of the first reads
	if err == nil {       // last, because every attempt uses up a number
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

// call makes one call of a step, with its own retries. If a failed call restarted the whole step,
// the step would never end while both services throttle.
func (c *Conductor) call(life engine.Lifecycle, op func(ctx context.Context) error) error {
	var yet error
	err := c.Retry(life, "load the table", func(ctx context.Context) error {
		err := op(ctx)
		var refused *checkpoint.LoadError
		if errors.As(err, &refused) { // the next read of the ledger decides what follows
			yet = err
			return nil
		}
		return err
	})
	return cmp.Or(err, yet)
}

// guard pauses the load while it is a danger to the stream or the target, resumes it afterwards,
// and reports whether it did either. A pause outlasts its load: the next load is not sealed before
// the pause ends. An operator's pause stays.
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
	c.wake.Signal() // to read the changed record
	c.wakeLoader.Signal()
	return true, err
}

// tooBusy returns why the load must wait for the target; "" if it need not. It reads the target's
// CPU load once in busyEvery.
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

// stranger returns why the sweep, or the first load, must wait for another migration; "" if none
// writes the target tables. It checks them before each pass, and otherwise once in busyEvery.
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

// complete records that every part is durable, if the target is still the one that was written and
// the images still join the stream. It checks the witness again, because a lost target lacks the
// copied rows, and the next regular check may be a minute away. It checks coverage again, because a
// root may have been listed and first read since the load began.
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
	var hole *checkpoint.NotAdmissible
	if err := checkpoint.Admissible(v.State, v.Shards, state.Load.ImagesAt(), c.settings.late); errors.As(err, &hole) {
		if hole.Yet {
			return hole // retried until the root that was listed late is read
		}
		return cmp.Or(c.Raise(life, state.Generation, checkpoint.DeclaredGap{
			Kind: checkpoint.KindStream, Reason: hole.Error(), LostFrom: state.Load.ImagesAt().Add(-checkpoint.Slack),
		}, nil), errRaised)
	}
	if state.NeedsNoSweep() { // a sweep would drop the fence's number from before the load
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

// unchanged fails if source or target have changed since the load began: then another generation
// was begun.
func (c *Conductor) unchanged(life engine.Lifecycle, state checkpoint.TableState) error {
	if err := c.call(life, func(ctx context.Context) error { return c.sameTable(life.Within(ctx), state) }); err != nil {
		return err
	}
	return c.call(life, func(ctx context.Context) error { return c.witnesses.Beat(life.Within(ctx)) })
}

// sameTable fails with errRaised, after it began another generation, if the source table was
// recreated since the load began.
func (c *Conductor) sameTable(life engine.Lifecycle, state checkpoint.TableState) error {
	d, err := c.database.Describe(life.Work, c.Source)
	if err != nil || d.ID == state.Load.TableID || state.Load.TableID == "" || d.ID == "" {
		return err
	}
	gap := checkpoint.DeclaredGap{Kind: checkpoint.KindCreatedAnew, Reason: "the source table was recreated during its load"}
	return cmp.Or(c.Raise(life, state.Generation, gap, nil), errRaised)
}

// errRaised says that a load which has read everything is still not complete.
var errRaised = fmt.Errorf("during the load of the table: %w", sink.ErrFenced)
