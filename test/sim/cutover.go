package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// CutoverOptions change a run with cutovers.
type CutoverOptions struct {
	Trace bool
	// Step and Strike enumerate: whoever writes the record as it enters the step is struck, every
	// time the first and second; "" leaves it to the seed. Strikes are crash, pause, sleep (until
	// all is over), and hook, which makes the step's hooks fail in every way.
	Step   checkpoint.CutoverStep
	Strike string
	// Calm leaves out every fault but that.
	Calm bool
}

// CutoverSteps are the steps at which somebody can be struck, Strikes what can happen to him.
var (
	CutoverSteps = []checkpoint.CutoverStep{
		checkpoint.CutoverRequested, checkpoint.CutoverChecks, checkpoint.CutoverFreeze, checkpoint.CutoverDrain, checkpoint.CutoverVerify,
		checkpoint.CutoverFence, checkpoint.CutoverSwitching, checkpoint.CutoverWatching, checkpoint.CutoverDone, checkpoint.CutoverCancelling, checkpoint.CutoverCancelled,
	}
	CutoverStrikes = []string{"crash", "pause", "sleep", "hook"}
)

// SimulateCutover plays cutovers: an application that can be frozen and switched by hooks, which are
// late, lost, refuse and hang; two drivers; workers that are killed, paused and put to sleep while
// all goes on; an operator who verifies, starts, approves, postpones, cancels and resolves; and
// somebody who writes to the source after it was frozen.
//
// It checks that nothing of ours is written to the target once the fence was raised, that the
// application switches only in the step for it, with no gate open and with a target that equals the
// source, that it is never left frozen, that whoever still writes to the source is known in the end,
// and that after a cancelled cutover both are equal again, in the generation of before.
func SimulateCutover(seed uint64, o CutoverOptions) Report {
	d := newCutoverRun(seed, o)
	return d.report(seed, d.play, &d.failures)
}

// cutoverRun is one run.
type cutoverRun struct {
	*Migration
	o        CutoverOptions
	rng      *rand.Rand // of the plan
	app      *cutoverApp
	workers  []*Worker
	drivers  []*virtual.Process
	hired    int
	written  int
	every    time.Duration
	watchFor time.Duration
	struck   int
	strikes  float64 // how often whoever writes the record is struck
	peaceful bool
	strayed  map[string]uint32 // keys of items changed when it was too late to cancel, and the attempt
	forgets  bool              // somebody writes to the source after it was frozen
	began    uint32            // the generation in which the first attempt began
	failures []string
}

func newCutoverRun(seed uint64, o CutoverOptions) *cutoverRun {
	rng := stream(seed, "cutovers")
	w := virtual.NewWorld(seed, simEpoch, o.Trace)
	w.StepLimit = stepLimit
	d := &cutoverRun{o: o, rng: rng, strayed: map[string]uint32{}}
	d.Migration = NewMigration(w, 1+rng.IntN(4))
	d.app = &cutoverApp{run: d}
	d.every = time.Duration(5+rng.IntN(60)) * time.Second
	d.watchFor = time.Duration(10+rng.IntN(40)) * time.Minute
	d.Timing = engine.Timing{Poll: time.Duration(1+rng.IntN(4)) * time.Second}
	d.Target.LateBy = 10 * time.Minute
	if !o.Calm {
		d.Target.LoseReply, d.Target.Late, d.Target.Twice = 0.01*rng.Float64(), 0.1*rng.Float64(), 0.01*rng.Float64()
		d.app.refuses, d.app.loses, d.app.late, d.app.hangs = 0.2*rng.Float64(), 0.2*rng.Float64(), 0.2*rng.Float64(), 0.1*rng.Float64()
		d.strikes = 0.3 * rng.Float64()
		d.Source.ListLate = rng.Float64()
		d.forgets = rng.IntN(3) == 0
	}
	d.Watch = d.look
	return d
}

func (d *cutoverRun) fail(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	d.World.Tracef("VIOLATION %s", text)
	if !slices.Contains(d.failures, text) {
		d.failures = append(d.failures, text)
	}
}

// record is the cutover's, read at once.
func (d *cutoverRun) record() checkpoint.Cutover {
	if c, ok := decoded[checkpoint.Cutover](d.Target.Row(model.StateTable, "default/cutover")); ok {
		return *c
	}
	return checkpoint.Cutover{}
}

// look sees every write of ours.
func (d *cutoverRun) look(table, key string, before, after *model.Row) {
	c := d.record()
	if slices.Contains(d.Mapping.Tables(), table) && !strings.HasPrefix(key, transform.WitnessPrefix) {
		switch c.Step {
		case checkpoint.CutoverSwitching, checkpoint.CutoverWatching, checkpoint.CutoverDone:
			d.fail("H78: row %q is written while the cutover stands at %s", key, c.Step)
		}
	}
	if table != model.StateTable || key != "default/cutover" {
		return
	}
	was, _ := decoded[checkpoint.Cutover](before)
	is, ok := decoded[checkpoint.Cutover](after)
	if !ok || was != nil && was.Step == is.Step && was.Attempt == is.Attempt {
		return
	}
	d.World.Inject("step " + string(is.Step))
	d.World.Tracef("CUTOVER %d %s: %s %s", is.Attempt, is.Step, is.Reason, is.Trouble)
	d.entered(*is)
	d.strike(is.Step)
}

// entered checks what must hold as a step begins.
func (d *cutoverRun) entered(c checkpoint.Cutover) {
	switch {
	case c.Step == checkpoint.CutoverCancelled && d.app.frozen:
		d.fail("H92: attempt %d is cancelled, and the application is frozen", c.Attempt)
	case c.Step == checkpoint.CutoverVerify && !c.Rehearse:
		for _, line := range d.unlike(c.Attempt) {
			if !strings.Contains(line, "forgotten") { // who may have written a moment ago
				d.fail("H59: the drain is over while source and target differ: %s", line)
				return
			}
		}
	}
}

// strike does something to a driver as the cutover enters a step.
func (d *cutoverRun) strike(step checkpoint.CutoverStep) {
	how, by := "", d.World.Rand().IntN(3)
	switch {
	case d.peaceful:
		return
	case d.o.Step == "" && step == checkpoint.CutoverFreeze && by == 0 && d.strikes > 0:
		d.World.Inject("all workers stand still while the application is frozen")
		for _, w := range d.workers {
			w.Pause(d.World.UpTo(5 * time.Minute))
		}
		return
	case d.o.Step == step && d.o.Strike != "hook" && d.o.Strike != "" && d.struck < 2:
		d.struck++
		how = d.o.Strike
	case d.o.Step == "" && d.World.Chance(d.strikes):
		how = []string{"crash", "pause", "sleep"}[by]
	}
	if how == "" || len(d.drivers) == 0 {
		return
	}
	all := slices.Clone(d.drivers)
	for _, p := range all {
		if len(all) > 1 && d.World.Rand().IntN(4) == 0 {
			continue // one goes on, perhaps
		}
		p := p
		d.World.After(d.World.UpTo(2*time.Second), func() {
			d.World.Inject("driver: " + how + " at " + string(step))
			switch how {
			case "crash":
				p.Kill()
			case "pause":
				p.Pause(d.World.UpTo(5 * time.Minute))
			case "sleep":
				p.Pause(30*time.Minute + d.World.UpTo(2*time.Hour))
			}
		})
	}
}

// drive starts a process that drives.
func (d *cutoverRun) drive() {
	d.hired++
	name := fmt.Sprintf("driver%d", d.hired)
	p := d.World.NewProcess(name)
	d.drivers = append(d.drivers, p)
	p.Go("drive", func() {
		ctx := p.Context()
		var ledger *checkpoint.Ledger
		for err := error(checkpoint.ErrNoLedger); err != nil && ctx.Err() == nil; {
			if ledger, err = checkpoint.Open(ctx, d.Store(), "default", checkpoint.Options{Worker: name, Lease: d.Lease, ReadOnly: true}); err != nil {
				_ = task.Sleep(ctx, time.Second)
			}
		}
		if ctx.Err() != nil {
			return
		}
		_ = d.driver(ledger).Run(ctx, nil)
	})
}

func (d *cutoverRun) driver(ledger *checkpoint.Ledger) *cutover.Driver {
	target := model.Target{Bigtable: d.Target}
	return &cutover.Driver{
		Ledger: ledger, Fence: fence.Fence{Ledger: ledger, Families: target}, Hooks: d.app, Source: cutoverSource{d.Source, d.Mapping.PrimaryKey}, Open: d.open,
		Verifier: cutoverVerifier{d, ledger}, Parked: func(context.Context, string) ([]string, error) { return d.ParkedItems(), nil },
		Settings: cutover.Settings{Ready: d.ready(), Lists: time.Minute, Quiet: 15 * time.Second},
		Failed:   func(step string, err error) { d.World.Tracef("%s: %v", step, err) },
	}
}

func (d *cutoverRun) ready() cutover.Ready {
	return cutover.Ready{LagBelow: 30 * time.Second, LagHeldFor: time.Minute, VerifyWithin: time.Hour, HeadroomAbove: 12 * time.Hour, Lease: 40 * time.Second}
}

// cutoverSource is the source as a driver writes canaries to it.
type cutoverSource struct {
	*model.Table
	key []transform.KeyAttribute
}

func (s cutoverSource) Describe(ctx context.Context, table string) (backfill.Description, error) {
	d, err := s.Table.Describe(ctx, table)
	d.PrimaryKey = s.key
	return d, err
}

func (s cutoverSource) Put(_ context.Context, _ string, item attribute.Item) error {
	s.Table.Put(item)
	return nil
}

func (s cutoverSource) Delete(_ context.Context, _ string, key attribute.Item) error {
	s.Table.Delete(key)
	return nil
}

// cutoverVerifier begins comparisons of all.
type cutoverVerifier struct {
	d      *cutoverRun
	ledger *checkpoint.Ledger
}

func (v cutoverVerifier) Begin(ctx context.Context, state checkpoint.TableState) (uint32, error) {
	c := &verify.Comparison{Mapping: v.d.Mapping, Source: database{v.d.Source}, Target: model.Target{Bigtable: v.d.Target}}
	plan, err := c.NewPlan(ctx, verify.Quiet, "", 1<<10, []byte{1})
	if err != nil {
		return 0, err
	}
	data, err := json.Marshal(plan)
	if err == nil {
		err = v.ledger.RemoveVerify(ctx, state.Source)
	}
	if err != nil {
		return 0, err
	}
	state, err = v.ledger.BeginVerify(ctx, state, checkpoint.VerifyPlan{Plan: data, Phase: 1, Parts: plan.Parts(1, 0), MappingHash: "h1", BegunAt: v.d.World.Now()})
	return state.Verify.Number, err
}

func (d *cutoverRun) hire() {
	d.hired++
	d.workers = append(d.workers, d.Start(fmt.Sprintf("worker%d", d.hired), func(o *engine.Options) {
		o.Rows = model.Target{Bigtable: d.Target}
		o.Tables[0].AdoptRows, o.Tables[0].LagBound = true, 30*time.Second
	}))
}

// isCanary tells whether keys are of an item that a cutover writes.
func isCanary(keys attribute.Item) bool {
	v, _ := keys.Get("pk")
	return strings.HasPrefix(v.Text(), "replicator-canary-")
}

// unlike is what differs between source and target, canaries aside, and, in an attempt that
// switches, what those wrote who had been forgotten, when it was too late to cancel.
func (d *cutoverRun) unlike(attempt uint32) []string {
	return slices.DeleteFunc(d.Unequal(), func(line string) bool {
		if strings.Contains(line, "replicator-canary-") {
			return true
		}
		for key, of := range d.strayed {
			if of == attempt && strings.Contains(line, key) {
				return true
			}
		}
		return false
	})
}

// write is one change of the application's, where it writes now.
func (d *cutoverRun) write() {
	d.written++
	pk := fmt.Sprintf("k%d", d.World.Rand().IntN(12))
	switch {
	case d.app.switched:
		d.own(pk)
	case d.app.frozen:
	default:
		d.put(pk, d.World.Rand().IntN(4) == 0)
	}
}

// put changes an item of the source, or removes it.
func (d *cutoverRun) put(pk string, remove bool) {
	keys := []attribute.Attribute{{Name: "pk", Value: attribute.String(pk)}, {Name: "sk", Value: attribute.String("s")}}
	if remove {
		d.Source.Delete(attribute.NewItem(keys))
		return
	}
	d.Source.Put(attribute.NewItem(append(keys, attribute.Attribute{Name: "value", Value: attribute.String(fmt.Sprint("v", d.written))})))
}

// own writes the target, as the application does once it has switched.
func (d *cutoverRun) own(pk string) {
	op := sink.Op{Kind: sink.SetCell, Family: "d", Qualifier: "value", Timestamp: d.World.Now().UnixMilli() * 1000, Value: []byte(fmt.Sprint("v", d.written))}
	whole := d.World.Rand().IntN(3) == 0 // DeleteRow takes our versions with it
	if err := (model.Target{Bigtable: d.Target}).Write("orders", pk+"#s", whole, op); err != nil {
		panic(err)
	}
}
