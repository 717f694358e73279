package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
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
	// Quiet makes the application write the target too, and its hooks promise that it is quiet.
	Quiet bool
}

// CutoverSteps are the steps at which somebody can be struck, Strikes what can happen to him.
var (
	CutoverSteps = []checkpoint.CutoverStep{
		checkpoint.CutoverRequested, checkpoint.CutoverChecks, checkpoint.CutoverFreeze, checkpoint.CutoverDrain, checkpoint.CutoverVerify,
		checkpoint.CutoverFence, checkpoint.CutoverSwitching, checkpoint.CutoverWatching, checkpoint.CutoverDone, checkpoint.CutoverCancelling, checkpoint.CutoverCancelled,
	}
	CutoverStrikes = []string{"crash", "pause", "sleep", "hook"}
)

// listedWithin is how late the model lists a child shard at the most.
const listedWithin = 3 * time.Minute

// SimulateCutover plays cutovers of one to four tables: an application that can be frozen and
// switched by hooks, which are late, lost, refuse, hang, and act and fail; two drivers; workers
// that are killed, paused and put to sleep while all goes on; an operator who verifies, starts,
// approves, postpones, cancels and resolves; and somebody who writes to the source after it was
// frozen. In some runs the application writes the target too, changes go through a topic, tables
// are found by a pattern, a stream loses changes, an item is parked after the freeze, a row of the
// target is hurt, or everybody sleeps for a day. Most runs also play a scene (cutoverscenes.go).
//
// The checkers (cutoverchecks.go) know what the application was told, and look at every write.
func SimulateCutover(seed uint64, o CutoverOptions) Report {
	d := newCutoverRun(seed, o)
	return d.report(seed, d.play, &d.failures)
}

// cutoverRun is one run.
type cutoverRun struct {
	*Migration // of the first table, and what all tables share
	o          CutoverOptions
	rng        *rand.Rand // of the plan
	tables     sources    // all of them; the last one is found late where patterns are played
	app        *cutoverApp
	workers    *crew
	drivers    *crew
	appliers   *crew // empty unless changes go through a topic

	topic        *model.Topic // nil: workers write what they read
	subscription *model.Subscription
	pattern      bool                   // tables are found by a pattern
	lossAt       time.Duration          // when a stream loses what was not read; 0: never
	hurtAt       time.Duration          // when somebody changes a row of the target; 0: never
	parks        bool                   // an item is written that cannot be stored, as the application is frozen
	early        bool                   // and one that cannot be mapped before, which may be left behind
	allowed      int                    // how many items may be parked
	small        int64                  // tables of fewer items are compared by the driver; 0: the default
	forgets      bool                   // somebody writes to a source after it was frozen
	tries        int                    // how often a request may freeze the application; 0: drawn for each
	dayAt        checkpoint.CutoverStep // everybody sleeps for a day as the cutover enters it

	written  int
	every    time.Duration
	watchFor time.Duration
	struck   int
	strikes  float64 // how often whoever writes the record is struck
	peaceful bool
	began    uint32   // the generation of the first table in which the last attempt began
	failures []string // of all groups, in the first group

	main    *cutoverRun   // the first group
	groups  []*cutoverRun // all groups, in the first group
	row     string        // the group's name; "" if it is the only one
	follows bool          // the group is cut over while no other group is
	checks  cutoverChecks

	scene       *cutoverScene // nil: none
	tail        *model.Shard  // what scene "late tail" hides; nil: nothing
	begun, seen bool          // the scene has begun, and it has seen what it waited for
	misapplies  bool          // the next write of an item is wrong
	undisturbed bool          // processes sleep, and no other fault wakes or replaces them
}

func newCutoverRun(seed uint64, o CutoverOptions) *cutoverRun {
	rng := stream(seed, "cutovers")
	w := virtual.NewWorld(seed, simEpoch, o.Trace)
	w.StepLimit = stepLimit
	d := &cutoverRun{o: o, rng: rng}
	if !o.Calm {
		d.scene = drawScene(seed)
	}
	d.main, d.groups = d, []*cutoverRun{d}
	d.pattern = rng.IntN(4) == 0 && !d.plays("unapplied")
	if stream(seed, "final").IntN(2) == 0 {
		d.small = 1 // the workers compare
	}
	tables := []int{1, 1, 1, 1, 1, 2, 2, 2, 3, 4}[rng.IntN(10)]
	for range tables {
		d.addTable(w, 1+rng.IntN(max(1, 4/tables)))
	}
	if d.pattern {
		d.addTable(w, 1)
		d.tables[tables].comes = time.Duration(rng.Int64N(int64(2 * time.Hour)))
	}
	d.app = newCutoverApp(d)
	d.every = time.Duration(10+rng.IntN(60)) * time.Second
	d.watchFor = time.Duration(10+rng.IntN(40)) * time.Minute
	d.Lease = 90 * time.Second
	d.Timing = engine.Timing{Soon: 3 * time.Second, Poll: time.Duration(10+rng.IntN(15)) * time.Second, Pass: 25 * time.Second, Commit: 10 * time.Second, List: 3 * time.Minute, Listed: listedWithin, Heed: 5 * time.Second}
	d.Target.LateBy = 10 * time.Minute
	if rng.IntN(3) == 0 || o.Quiet {
		d.Late = time.Duration(30+rng.IntN(90)) * time.Second
	}
	d.workers, d.drivers = newCrew(w, "worker", d.work), newCrew(w, "driver", d.drive)
	d.appliers = newCrew(w, "applier", d.apply)
	if !d.pattern && rng.IntN(3) == 0 || d.plays("unapplied") {
		d.publish()
	}
	if !o.Calm {
		d.faults()
	}
	if d.scene != nil && d.scene.prepare != nil {
		d.scene.prepare(d)
	}
	if more := stream(seed, "groups"); more.IntN(4) == 0 {
		d.addGroup(w, 1+more.IntN(2))
	}
	d.drawQuiet(seed)
	for _, g := range d.groups {
		g.checks = newCutoverChecks(g)
	}
	d.Target.Executed = d.executedAnywhere
	return d
}

// faults draws what goes wrong.
func (d *cutoverRun) faults() {
	rng := d.rng
	d.Target.LoseReply, d.Target.Late, d.Target.Twice = 0.01*rng.Float64(), 0.05*rng.Float64(), 0.01*rng.Float64()
	d.app.draw(rng)
	d.strikes = 0.3 * rng.Float64()
	for _, t := range d.tables {
		t.Source.ListLate = rng.Float64()
	}
	d.forgets = rng.IntN(3) == 0
	d.parks = rng.IntN(4) == 0
	if rng.IntN(3) == 0 {
		d.allowed, d.early = 2, d.parks
	}
	if rng.IntN(6) == 0 {
		d.lossAt = time.Duration(10+rng.IntN(90)) * time.Minute
	}
	if d.Late == 0 && rng.IntN(3) == 0 {
		d.hurtAt = time.Duration(5+rng.IntN(40)) * time.Minute
		d.small = 0 // no recheck finds a foreign write after the full verify; a comparison of all rows does
	}
	if rng.IntN(6) == 0 {
		d.dayAt = CutoverSteps[2+rng.IntN(len(CutoverSteps)-2)]
	}
	if d.topic != nil {
		d.topic.Fail, d.topic.LoseReply, d.topic.Late = 0.1*rng.Float64(), 0.1*rng.Float64(), 0.05*rng.Float64()
		d.subscription.Twice, d.subscription.Forget, d.subscription.Fail = 0.1*rng.Float64(), 0.1*rng.Float64(), 0.1*rng.Float64()
	}
	if d.dayAt != "" && rng.IntN(2) == 0 {
		d.dayAt = checkpoint.CutoverWatching
	}
}

// addTable adds a source table with a target table of its own. The first one brings the target.
func (d *cutoverRun) addTable(w *virtual.World, shards int) {
	n := len(d.tables)
	if d != d.main { // the groups' tables are numbered together
		n += len(d.main.tables)
	}
	name := fmt.Sprint("Orders", n)
	mapping := must(transform.NewMapping(name, strings.ToLower(name), "d", []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}, {Name: "sk", Type: attribute.KindS}}))
	t := &cutTable{Migration: NewMigrationBy(w, shards, mapping, "d"), told: map[string]told{}}
	t.Bared = map[string]bool{}
	if n == 0 {
		d.Migration = t.Migration
	} else {
		t.Target, t.fences = d.Target, d.fences
		t.emptyTarget()
	}
	d.tables = append(d.tables, t)
}

func (d *cutoverRun) fail(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	d.World.Tracef("VIOLATION %s", text)
	if d.row != "" {
		text += " (group " + d.row + ")"
	}
	if !slices.Contains(d.main.failures, text) {
		d.main.failures = append(d.main.failures, text)
	}
}

// record is the group's record of its cutover, read at once.
func (d *cutoverRun) record() checkpoint.Cutover {
	if c, ok := decoded[checkpoint.Cutover](d.Target.Row(model.StateTable, d.recordKey())); ok {
		return *c
	}
	return checkpoint.Cutover{}
}
