package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/exports"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
)

// exporting is an operator who sometimes requests exports of the table and loads it from one:
// instead of the first copy, after gaps, and to load it again. Some requests are inadmissible.
type exporting struct {
	*loads
	service *exportService
	rng     *rand.Rand
	ready   []*offer
	under   int           // exports in progress
	holds   bool          // a requested load is paused until its export exists
	wanted  bool          // a load from an export is due, after the faults
	askedAt time.Duration // when a load from an export was last requested
	ended   int           // loads from exports
}

// byExports turns the plan into a run in which the table is loaded from exports. In half of these
// runs nothing is copied without an export.
func (p *plan) byExports() {
	p.unloaded = false
	p.byHand = stream(p.seed, "by hand").IntN(2) == 0
	if p.tombstoneAge > 0 { // a day of copying and hours of margin must fit
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

// holding reports whether a load is paused because its export does not exist yet.
func (x *exporting) holding() bool { return x != nil && x.holds }

// span draws a duration, usually a small part of the longest.
func (x *exporting) span(least, most time.Duration) time.Duration {
	u := x.rng.Float64()
	return least + x.limit(time.Duration(u*u*u*float64(most-least)))
}

// prelude lets some runs begin with an export that is requested before any worker follows the
// table, by hours or by more than the stream's retention.
func (x *exporting) prelude() {
	if x.rng.IntN(3) > 0 {
		return
	}
	x.World.Inject("export before the first start")
	x.request(order{of: x.service.table, full: true, edges: []time.Time{x.World.Now()}, quick: x.rng.IntN(2) == 0})
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

// begin starts the operator, and the process that damages the bucket.
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
			if x.rng.IntN(12) == 0 {
				x.World.Inject("backups were off")
				x.service.begun = x.World.Now()
			}
			if n := len(x.ready); n > 0 {
				folders := x.ready[n-1-x.rng.IntN(min(n, 2))].folders
				x.service.spoil(folders[x.rng.IntN(len(folders))], x.World.Elapsed()+x.span(time.Minute, 6*time.Hour))
			}
		}
	})
}

// decide acts as the operator would, given the table's record.
func (x *exporting) decide(ctx context.Context, ledger *checkpoint.Ledger, state checkpoint.TableState, chance float64) (err error) {
	stage, source := state.Stage(), x.Source.Name
	from := state.Load.Export.Address
	switch {
	case x.holds && (stage == checkpoint.StageCopying || stage == checkpoint.StageSweeping || stage == checkpoint.StageOver): // the load was faster
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
		var folders []string
		for _, e := range state.Load.Exports() {
			folders = append(folders, e.Address)
		}
		all, err := x.open(ctx, folders)
		if err != nil { // the fault may be healed
			err = nil
		} else {
			_, err = x.refusal(ctx, ledger, state, all, state.Load.MendsGap())
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

// resume ends the operator's own pause.
func (x *exporting) resume(ctx context.Context, ledger *checkpoint.Ledger, state checkpoint.TableState) error {
	if state.Load.Paused != checkpoint.PausedByOperator {
		return nil
	}
	_, err := ledger.ResumeLoad(ctx, x.Source.Name, checkpoint.PausedByOperator)
	return err
}

// hopeless reports whether the load's export became too old during the copy.
func (x *exporting) hopeless(state checkpoint.TableState) bool {
	const margin = 6 * time.Hour
	return x.MaxImageAge > 0 && x.World.Now().Sub(checkpoint.Aged(state.Load.Export.At, state.AdoptedAt)) > x.MaxImageAge-margin
}

// load requests the load from a complete export, or requests an export.
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
	all, err := x.open(ctx, chosen.folders)
	if err != nil {
		chosen.used = x.rng.IntN(2) == 0 && !x.peaceful
		return fmt.Errorf("the export cannot be read: %w", err)
	}
	alone := !slices.ContainsFunc(all, func(e *exports.Export) bool { return !e.Incremental })
	steps, refused := x.refusal(ctx, ledger, state, all, alone)
	if refused != nil && !chosen.fit {
		x.World.Inject("exports refused that do not belong together, or to the table")
	}
	if careless := !x.peaceful && x.rng.IntN(3) == 0; refused != nil && !careless {
		x.World.Inject("export refused")
		return refused
	} else if refused != nil {
		x.World.Inject("load asked for from an export that is none for it")
	}
	_, err = ledger.AskExport(ctx, x.Source.Name, x.rng.IntN(2) == 0, x.named(all, steps, chosen.folders)...)
	if err != nil {
		return err
	}
	x.World.Inject("load asked for from an export")
	x.askedAt = x.World.Elapsed()
	x.holds = false
	return x.resume(ctx, ledger, state)
}

// open opens the exports in some folders.
func (x *exporting) open(ctx context.Context, folders []string) (all []*exports.Export, err error) {
	for _, folder := range folders {
		e, err := x.service.openExport(ctx, folder)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// named returns exports as the ledger stores them, in the order in which they form a load, if they
// do.
func (x *exporting) named(all []*exports.Export, steps []exports.Step, folders []string) (out []checkpoint.Export) {
	for i, e := range all {
		out = append(out, checkpoint.Export{Address: folders[i], ARN: e.ARN, From: e.From, At: e.At})
	}
	for i, s := range steps {
		out[i] = checkpoint.Export{Address: folders[slices.Index(all, s.Export)], ARN: s.ARN, From: s.From, At: s.At}
	}
	return out
}

// refusal returns the reason why the command refuses exports.
func (x *exporting) refusal(ctx context.Context, ledger *checkpoint.Ledger, state checkpoint.TableState, all []*exports.Export, alone bool) ([]exports.Step, error) {
	d, err := x.Source.Describe(ctx, x.Source.Name)
	if err != nil {
		return nil, err
	}
	steps, err := backfill.Chain(all, d, x.Mapping, 0, alone)
	if err != nil {
		return nil, err
	}
	if alone {
		if err := checkpoint.MendsFrom(state, steps[0].From); err != nil {
			return steps, err
		}
		if err := checkpoint.Unbroken(x.service.begun, steps[0].From); err != nil {
			return steps, err
		}
	}
	shards, err := ledger.Shards(ctx, x.Source.Name)
	if err != nil {
		return steps, err
	}
	var hole *checkpoint.NotAdmissible
	if err := checkpoint.AdmissibleExport(state, shards, steps[len(steps)-1].At, d.At, 0); errors.As(err, &hole) && !hole.Yet {
		return steps, err
	}
	if age := d.At.Sub(checkpoint.Aged(steps[0].At, state.AdoptedAt)); x.MaxImageAge > 0 && age > x.MaxImageAge/2 {
		return steps, fmt.Errorf("the export is %s old", age)
	}
	return steps, nil
}

// noted observes every write of the table's record.
func (x *exporting) noted(before, after *model.Row) {
	was, is := recordOf[checkpoint.TableState](before), recordOf[checkpoint.TableState](after)
	if is.Load.Source != "export" {
		return
	}
	if is.Load.Number != was.Load.Number {
		x.World.Inject("load of an export begun")
		for _, o := range x.ready {
			if o.folders[0] == is.Load.Export.Address && !o.fit {
				x.fail("I1", "a load begins from %s, which are not whole, or of another table", o.folders)
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

// noteKind counts the purposes of loads from exports.
func (x *exporting) noteKind(was, is *checkpoint.TableState) {
	switch n := len(is.Load.Exports()); {
	case is.Load.MendsGap():
		x.World.Inject("gap mended by windows")
	case n > 1:
		x.World.Inject("load of a full export and windows")
	}
	switch {
	case is.GapCount == 0:
		x.World.Inject("first copy from an export")
	case is.Gaps[len(is.Gaps)-1].Kind == checkpoint.KindAskedFor:
		x.World.Inject("table loaded again from an export")
	default:
		x.World.Inject("gap mended from an export")
	}
}

// last ensures, after the faults, that a load from an export begins and ends in each run in which
// the table can be loaded.
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
