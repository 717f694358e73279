package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/exports"
	"github.com/dynamodb-bigtable/replicator/exports/exportstest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
)

// exporting is an operator who has the table exported, now and then, and loaded from an export: in
// place of the first copy, after gaps, and because he wants it loaded again. Some of what he asks
// for is inadmissible.
type exporting struct {
	*loads
	service *exportService
	rng     *rand.Rand
	ready   []*offer
	under   int           // exports that are being made
	holds   bool          // what is asked for is paused until there is an export
	wanted  bool          // a load from an export is to come, in peace
	askedAt time.Duration // when a load was last asked for from one
	ended   int           // loads from exports
}

// offer is an export that is complete.
type offer struct {
	folder string
	at     time.Time
	fit    bool // it is one of the table
	used   bool // it was asked for, or refused
}

// byExports makes the plan one of a run in which the table is loaded from exports. In half of them
// nobody copies by himself.
func (p *plan) byExports() {
	p.unloaded = false
	p.byHand = stream(p.seed, "by hand").IntN(2) == 0
	if p.tombstoneAge > 0 { // a day of a copy and hours of its margin have to fit in
		p.tombstoneAge = 16*time.Hour + 4*p.tombstoneAge
	}
}

func newExporting(s *simulation) *exporting {
	rng := stream(s.plan.seed, "exports")
	x := &exporting{loads: s.loads, service: newExportService(s.World, rng, s.Source), rng: rng}
	record := s.Source.Written
	s.Source.Written = func(w model.Write) { record(w); x.service.written(w) }
	return x
}

// holding reports whether a load is paused because its export is still to come.
func (x *exporting) holding() bool { return x != nil && x.holds }

// span draws how long something lasts: most often a small part of the longest.
func (x *exporting) span(least, most time.Duration) time.Duration {
	u := x.rng.Float64()
	return least + x.limit(time.Duration(u*u*u*float64(most-least)))
}

// prelude lets some runs begin with an export that is asked for before anybody follows the table:
// for hours, or for longer than the stream keeps changes.
func (x *exporting) prelude() {
	if x.rng.IntN(3) > 0 {
		return
	}
	x.World.Inject("export before the first start")
	x.request(x.service.table, x.World.Now(), x.rng.IntN(2) == 0)
	lasts := x.limit(time.Duration(x.rng.Float64() * float64(5*time.Hour)))
	if x.TombstoneAge == 0 && x.rng.IntN(4) == 0 {
		lasts = 23*time.Hour + time.Duration(x.rng.Float64()*float64(3*time.Hour))
	}
	for until := x.World.Elapsed() + lasts; x.World.Elapsed() < until && x.pass(); {
		if x.rng.IntN(4) == 0 {
			x.write()
		}
	}
}

// begin lets the operator, and who spoils the bucket, do their work.
func (x *exporting) begin() {
	x.World.Go("operator of exports", func(ctx context.Context) {
		for task.Sleep(ctx, time.Duration((3+20*x.rng.Float64())*float64(time.Minute))) == nil {
			chance := x.rng.Float64()
			x.look(func(ctx context.Context, ledger *checkpoint.Ledger, state checkpoint.TableState) error {
				return x.decide(ctx, ledger, state, chance)
			})
		}
	})
	x.World.Go("bucket", func(ctx context.Context) {
		for task.Sleep(ctx, time.Minute+x.span(0, 6*time.Hour)) == nil && !x.peaceful {
			if n := len(x.ready); n > 0 {
				x.service.spoil(x.ready[n-1-x.rng.IntN(min(n, 2))].folder, x.World.Elapsed()+x.span(time.Minute, 6*time.Hour))
			}
		}
	})
}

// request has an export made, which is complete after minutes or most of a day.
func (x *exporting) request(of exportstest.Table, at time.Time, quick bool) {
	takes := x.span(3*time.Minute, 20*time.Hour)
	if quick || x.peaceful {
		takes = 3*time.Minute + x.World.UpTo(10*time.Minute)
	}
	x.under++
	x.World.Inject("export asked for")
	x.World.Tracef("an export of %s is asked for, and takes %s", at, takes)
	x.World.After(takes, func() {
		x.under--
		x.ready = append(x.ready, &offer{folder: x.service.full(of, at), at: at, fit: of == x.service.table})
	})
}

// decide does what the operator finds necessary, by the table's record.
func (x *exporting) decide(ctx context.Context, ledger *checkpoint.Ledger, state checkpoint.TableState, chance float64) (err error) {
	stage, source := state.Stage(), x.Source.Name
	from := state.Load.Export.Address
	switch {
	case x.holds && (stage == checkpoint.StageCopying || stage == checkpoint.StageSweeping || stage == checkpoint.StageOver): // it was faster
		x.holds = false
		return x.resume(ctx, ledger, state)
	case stage == checkpoint.StageCopying && from != "" && x.hopeless(state):
		x.World.Inject("load of an export given up")
		return x.redo(ctx, ledger, state)
	case stage == checkpoint.StageCopying || stage == checkpoint.StageSweeping:
		return nil
	case stage == checkpoint.StageAsked && from == "" && !x.holds:
		return nil
	case stage == checkpoint.StageAsked && from != "":
		e, err := x.service.openExport(ctx, from)
		if err != nil { // it may be put right
			err = nil
		} else {
			err = x.refusal(ctx, ledger, state, e)
		}
		if err == nil && x.World.Elapsed()-x.askedAt < 6*time.Hour || !x.peaceful && chance < 0.5 {
			return err
		}
		x.World.Inject("export given up before its load")
	case stage == checkpoint.StageOver || state.Loaded() && !state.NeedsLoad:
		if again := !x.peaceful && chance < 0.04; !again && !x.wanted {
			return nil
		}
		x.holds = true
		if err := x.redo(ctx, ledger, state); err != nil {
			return err
		}
		_, err = ledger.PauseLoad(ctx, source, checkpoint.PausedByOperator)
		return err
	}
	if !x.wanted && chance > 0.93 {
		_, err = ledger.AskLoad(ctx, source, chance < 0.96)
		x.World.Inject("load asked for")
		if err == nil {
			x.holds = false
			err = x.resume(ctx, ledger, state)
		}
		return err
	}
	return x.load(ctx, ledger, state, chance)
}

// resume ends a pause of his own.
func (x *exporting) resume(ctx context.Context, ledger *checkpoint.Ledger, state checkpoint.TableState) error {
	if state.Load.Paused != checkpoint.PausedByOperator {
		return nil
	}
	_, err := ledger.ResumeLoad(ctx, x.Source.Name, checkpoint.PausedByOperator)
	return err
}

// hopeless tells of a load whose export has become too old while it was copied.
func (x *exporting) hopeless(state checkpoint.TableState) bool {
	const margin = 6 * time.Hour
	return x.MaxImageAge > 0 && x.World.Now().Sub(state.Load.Export.At) > x.MaxImageAge-margin
}

// load asks for the load from an export that is complete, or for an export.
func (x *exporting) load(ctx context.Context, ledger *checkpoint.Ledger, state checkpoint.TableState, chance float64) error {
	var chosen *offer
	for _, o := range x.ready {
		if !o.used {
			chosen = o
		}
	}
	switch n := len(x.ready); {
	case chosen == nil && x.under > 0 && !x.peaceful:
		return nil
	case chosen == nil && !x.peaceful && n > 0 && chance < 0.1:
		chosen = x.ready[x.rng.IntN(n)] // an old one
	case chosen == nil:
		return x.order(ctx, ledger, state, chance)
	}
	chosen.used = true
	e, err := x.service.openExport(ctx, chosen.folder)
	if err != nil {
		chosen.used = x.rng.IntN(2) == 0 && !x.peaceful
		return fmt.Errorf("the export cannot be read: %w", err)
	}
	refused := x.refusal(ctx, ledger, state, e)
	if refused != nil && !chosen.fit {
		x.World.Inject("export of another table refused")
	}
	if careless := !x.peaceful && x.rng.IntN(3) == 0; refused != nil && !careless {
		x.World.Inject("export refused")
		return refused
	} else if refused != nil {
		x.World.Inject("load asked for from an export that is none for it")
	}
	_, err = ledger.AskExport(ctx, x.Source.Name, x.rng.IntN(2) == 0, checkpoint.Export{Address: chosen.folder, ARN: e.ARN, At: e.At})
	if err != nil {
		return err
	}
	x.World.Inject("load asked for from an export")
	x.askedAt = x.World.Elapsed()
	x.holds = false
	return x.resume(ctx, ledger, state)
}

// refusal is why the command refuses an export.
func (x *exporting) refusal(ctx context.Context, ledger *checkpoint.Ledger, state checkpoint.TableState, e *exports.Export) error {
	d, err := x.Source.Describe(ctx, x.Source.Name)
	if err != nil {
		return err
	}
	if _, err := exports.Chain([]*exports.Export{e}, exports.Wanted{TableARN: d.ARN, TableID: d.ID}); err != nil {
		return err
	}
	shards, err := ledger.Shards(ctx, x.Source.Name)
	if err != nil {
		return err
	}
	var hole *checkpoint.NotAdmissible
	if err := checkpoint.AdmissibleExport(state, shards, e.At, d.At, 0); errors.As(err, &hole) && !hole.Yet {
		return err
	}
	if age := d.At.Sub(e.At); x.MaxImageAge > 0 && age > x.MaxImageAge/2 {
		return fmt.Errorf("the export is %s old", age)
	}
	return nil
}

// order has an export made: of now or, one that is of no use perhaps, of some time before, or of the
// table of this name that was there before.
func (x *exporting) order(ctx context.Context, ledger *checkpoint.Ledger, state checkpoint.TableState, chance float64) error {
	of, at := x.service.table, x.World.Now()
	switch {
	case chance < 0.08 && !x.peaceful:
		of.ID = "the table before"
	case chance < 0.25 && !x.peaceful:
		at = at.Add(-time.Duration(x.rng.Float64() * float64(min(36*time.Hour, x.World.Elapsed()))))
	case x.peaceful || chance < 0.6: // when it is of use
		shards, err := ledger.Shards(ctx, x.Source.Name)
		if err == nil {
			err = checkpoint.AdmissibleExport(state, shards, at, at, 0)
		}
		if err != nil {
			return err
		}
	}
	x.request(of, at.Truncate([]time.Duration{time.Second, time.Millisecond}[x.rng.IntN(2)]), x.rng.IntN(2) == 0)
	return nil
}

// noted sees every write of the table's record.
func (x *exporting) noted(before, after *model.Row) {
	was, is := recordOf[checkpoint.TableState](before), recordOf[checkpoint.TableState](after)
	if is.Load.Source != "export" {
		return
	}
	if is.Load.Number != was.Load.Number {
		x.World.Inject("load of an export begun")
		for _, o := range x.ready {
			if o.folder == is.Load.Export.Address && !o.fit {
				x.fail("I1", "a load begins from %s, which is an export of another table", o.folder)
			}
		}
		x.noteKind(was, is)
	}
	if was.Load.DoneAt.IsZero() && !is.Load.DoneAt.IsZero() {
		x.World.Inject("export copied")
	}
	if was.Stage() != checkpoint.StageOver && is.Stage() == checkpoint.StageOver {
		x.World.Inject("load of an export ended")
		x.ended++
	}
}

// noteKind counts what loads from exports are for.
func (x *exporting) noteKind(was, is *checkpoint.TableState) {
	switch {
	case is.GapCount == 0:
		x.World.Inject("first copy from an export")
	case is.Gaps[len(is.Gaps)-1].Kind == checkpoint.KindAskedFor:
		x.World.Inject("table loaded again from an export")
	default:
		x.World.Inject("gap mended from an export")
	}
}

// last sees to it, when the faults are over, that a load from an export has begun and ended in each
// run in which the table can be loaded at all.
func (x *exporting) last() {
	x.service.heal()
	if x.bad() || x.Source.Stream().Ended || x.ended > 0 && x.rng.IntN(4) > 0 {
		return
	}
	before, limit := x.ended, x.World.Elapsed()+x.patience()+6*time.Hour+x.expiry()
	for x.wanted = true; x.ended == before && !x.bad() && x.World.Elapsed() < limit; {
		x.tick()
	}
	if x.wanted = false; x.ended == before && !x.bad() {
		x.fail("I10", "no load from an export ends: it is %s, and asked for from %q", x.State().Stage(), x.State().Load.Export.Address)
	}
}
