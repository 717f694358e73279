package sim

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// cutoverScene is a short script. About one run of thirteen plays it beside everything else,
// because chance alone rarely leads there. The general checkers judge what comes of it.
type cutoverScene struct {
	name    string
	prepare func(d *cutoverRun)
	// begin is asked every minute until it returns true; nil is nothing to do.
	begin func(d *cutoverRun) bool
	// sees gets each write of the cutover's record, once begin has returned true and until sees does;
	// nil is nothing to do.
	sees func(d *cutoverRun, was, is checkpoint.Cutover) bool
}

var cutoverScenes = []*cutoverScene{
	{name: "answered", sees: (*cutoverRun).suspendBeforeTheSwitch},
	{name: "unwatched", sees: (*cutoverRun).sleepThroughTheWatch},
	{name: "parked", prepare: (*cutoverRun).allowParked, begin: (*cutoverRun).parkOne, sees: (*cutoverRun).parkAnother},
	{name: "differs", prepare: (*cutoverRun).writeAlone, begin: (*cutoverRun).sampleDifference},
	{name: "unapplied", begin: (*cutoverRun).pauseAppliers},
	{name: "late child", begin: (*cutoverRun).isolate, sees: (*cutoverRun).rollLate},
	{name: "split", sees: (*cutoverRun).splitBefore},
	{name: "hot split", sees: (*cutoverRun).splitHot},
	{name: "late tail", prepare: (*cutoverRun).writeLarge, sees: (*cutoverRun).hideTail},
	{name: "silent", prepare: (*cutoverRun).tryOften, sees: (*cutoverRun).silence},
	{name: "used up", prepare: (*cutoverRun).tryOften, sees: (*cutoverRun).useUp},
	{name: "misapplied", prepare: (*cutoverRun).followAlone, sees: (*cutoverRun).misapply},
}

// drawScene draws the scene of a run; most runs have one.
func drawScene(seed uint64) *cutoverScene {
	if i := stream(seed, "scene").IntN(len(cutoverScenes) + 1); i < len(cutoverScenes) {
		return cutoverScenes[i]
	}
	return nil
}

// plays reports whether the run plays a scene.
func (d *cutoverRun) plays(name string) bool { return d.scene != nil && d.scene.name == name }

// stage goes on with the scene, every minute.
func (d *cutoverRun) stage() {
	if d.scene == nil || d.begun || d.peaceful {
		return
	}
	if d.begun = d.scene.begin == nil || d.scene.begin(d); d.begun && d.scene.begin != nil {
		d.World.Inject("scene: " + d.scene.name)
	}
}

// sees shows the scene a write of the cutover's record.
func (d *cutoverRun) sees(was, is checkpoint.Cutover) {
	if d.scene == nil || d.scene.sees == nil || !d.begun || d.seen || d.peaceful && d.tail == nil {
		return // a shard that is already hidden must be listed some day
	}
	if d.seen = d.scene.sees(d, was, is); d.seen {
		d.World.Inject("scene: " + d.scene.name + " to its end")
	}
}

// enters reports whether the write of a record begins a step.
func enters(step checkpoint.CutoverStep, was, is checkpoint.Cutover) bool {
	return is.Step == step && (was.Step != step || was.Attempt != is.Attempt)
}

// canBegin reports whether the next attempt can begin: all tables are loaded and were verified.
func (d *cutoverRun) canBegin() bool {
	return d.record().Step.Over() && !d.app.frozen && !d.app.switched && !slices.ContainsFunc(d.tables, func(t *cutTable) bool {
		s := t.State()
		return !t.there() || !s.Loaded() || s.NeedsLoad || s.Verify.Running() || !s.Verify.Full.Clean()
	})
}

// onTheSide runs a task of a process of its own until it succeeds.
func (d *cutoverRun) onTheSide(name string, f func(ctx context.Context, ledger *checkpoint.Ledger) error) {
	p := d.World.NewProcess(name)
	p.Go(name, func() {
		for {
			ledger, err := d.ledger(p.Context(), name)
			if err == nil {
				err = f(p.Context(), ledger)
			}
			if err == nil || task.Sleep(p.Context(), time.Second) != nil {
				return
			}
		}
	})
}

// suspendBeforeTheSwitch: the application does not take the switch. The driver is suspended after it
// has counted a call, and an operator answers that nothing was switched.
func (d *cutoverRun) suspendBeforeTheSwitch(was, is checkpoint.Cutover) bool {
	if is.Step != checkpoint.CutoverSwitching {
		return false
	}
	d.app.deaf = is.Attempt
	if was.Step != is.Step || is.Calls == was.Calls {
		return false
	}
	for _, w := range d.drivers.all {
		d.drivers.pause(w, 20*time.Second+d.World.UpTo(20*time.Second))
	}
	d.onTheSide("operator who answers", func(ctx context.Context, ledger *checkpoint.Ledger) error {
		_, err := ledger.UpdateCutover(ctx, d.row, func(c *checkpoint.Cutover) error {
			if c.Attempt != is.Attempt || c.Step != is.Step || c.Answer != "" {
				return nil
			}
			return c.Resolve(false, d.World.Now())
		})
		return err
	})
	return true
}

// sleepThroughTheWatch: no process is awake until the stream has dropped what was written after the
// switch.
func (d *cutoverRun) sleepThroughTheWatch(was, is checkpoint.Cutover) bool {
	if !enters(checkpoint.CutoverWatching, was, is) {
		return false
	}
	d.undisturbed = true
	d.World.After(d.World.UpTo(time.Minute), func() { d.sleep(26*time.Hour, 8*time.Hour) })
	return true
}

func (d *cutoverRun) allowParked() { d.allowed, d.parks, d.early = 2, false, false }

// parkOne: an item that cannot be mapped is left behind, which the gate allows, and a verify knows of
// it.
func (d *cutoverRun) parkOne() bool {
	t := d.tables[0]
	switch {
	case !d.canBegin():
		return false
	case !t.told["k0"].badly:
		d.spoilEarly()
		return false
	case len(d.checks.parkedOf(t)) == 0:
		return false
	case t.State().Verify.Full.Unmapped == 0:
		d.onTheSide("operator who verifies", func(ctx context.Context, ledger *checkpoint.Ledger) error {
			_, err := cutoverVerifier{d, ledger}.Begin(ctx, t.State())
			return err
		})
		return false
	}
	return true
}

// parkAnother: as the application is frozen, that item is put right and another one takes its place.
// So their number does not change.
func (d *cutoverRun) parkAnother(was, is checkpoint.Cutover) bool {
	if !enters(checkpoint.CutoverFreeze, was, is) || !d.tables[0].told["k0"].badly {
		return false
	}
	d.World.After(d.World.UpTo(time.Second), d.poison)
	return true
}

func (d *cutoverRun) writeAlone() { d.Late, d.hurtAt = 0, 0 }

// sampleDifference: a sample finds a row that differs, after a full verify that was clean. The
// operator overrides the gate of the verify (plan).
func (d *cutoverRun) sampleDifference() bool {
	if !d.canBegin() || !d.hurt() {
		return false
	}
	t := d.tables[len(d.tables)-1]
	finding := must(json.Marshal(verify.Finding{Kind: verify.Different, Source: t.Source.Name, Table: t.Mapping.Table, Row: "k1#s"}))
	d.onTheSide("sampler", func(ctx context.Context, ledger *checkpoint.Ledger) error {
		_, err := ledger.Sample(ctx, t.Source.Name, d.World.Now(), 1, func([]json.RawMessage) []json.RawMessage { return []json.RawMessage{finding} })
		return err
	})
	return true
}

// pauseAppliers: nothing of the topic is applied for an hour. The operator begins cutovers all the
// same.
func (d *cutoverRun) pauseAppliers() bool {
	if !d.canBegin() {
		return false
	}
	d.undisturbed = true
	for _, w := range d.appliers.all {
		d.appliers.pause(w, 50*time.Minute+d.World.UpTo(30*time.Minute))
	}
	return true
}

// hotKey is an item that the application writes often.
const hotKey = "hot"

// isolate: an item gets a shard of its own, which no canary reaches.
func (d *cutoverRun) isolate() bool {
	if !d.canBegin() {
		return false
	}
	d.tables[0].Source.Stream().Isolate(keysOf(hotKey))
	return true
}

// rollLate: just before the application is frozen, that shard ends. Its child takes a change, and is
// listed minutes later.
func (d *cutoverRun) rollLate(was, is checkpoint.Cutover) bool {
	if !enters(checkpoint.CutoverFreeze, was, is) {
		return false
	}
	d.World.After(d.World.UpTo(500*time.Millisecond), func() {
		if d.app.frozen || d.app.switched {
			return
		}
		t := d.tables[0]
		shards := t.Source.Stream()
		child := shards.Roll(shards.Taking(keysOf(hotKey)))
		if late := d.World.Now().Add(140*time.Second + d.World.UpTo(40*time.Second)); late.After(child.ListedFrom) {
			child.ListedFrom = late
		}
		d.tell(t, hotKey)
	})
	return true
}

// splitHot: just before the application is frozen, the service gives an item a shard of its own.
// Canaries reach the shard before that, and all its other children. The item's shard takes a change,
// and is listed minutes later.
func (d *cutoverRun) splitHot(was, is checkpoint.Cutover) bool {
	if !enters(checkpoint.CutoverFreeze, was, is) {
		return false
	}
	d.World.After(d.World.UpTo(500*time.Millisecond), func() {
		if d.app.frozen || d.app.switched {
			return
		}
		t := d.tables[0]
		shards := t.Source.Stream()
		shards.Isolate(keysOf(hotKey))
		shards.Taking(keysOf(hotKey)).ListedFrom = d.World.Now().Add(140*time.Second + d.World.UpTo(40*time.Second))
		d.tell(t, hotKey)
	})
	return true
}

// writeLarge: the tables count as large, so the driver compares only samples beside what changed
// since the last full verify. Only replicator writes the targets.
func (d *cutoverRun) writeLarge() { d.Late, d.hurtAt, d.small = 0, 0, 1 }

// hideTail: the service breaks its promise. As the checks begin, an item gets a shard of its own.
// The shard is listed only after the switch, or after the attempt has ended. It takes a change just
// before the application is frozen.
func (d *cutoverRun) hideTail(was, is checkpoint.Cutover) bool {
	t := d.tables[0]
	shards := t.Source.Stream()
	switch {
	case d.topic != nil || is.Rehearse:
	case enters(checkpoint.CutoverChecks, was, is) && d.tail == nil:
		shards.Isolate(keysOf(hotKey))
		d.tail = shards.Taking(keysOf(hotKey))
		d.tail.ListedFrom = d.World.Now().Add(1000 * time.Hour)
	case d.tail == nil:
	case enters(checkpoint.CutoverFreeze, was, is):
		d.World.After(d.World.UpTo(500*time.Millisecond), func() {
			if !d.app.frozen && !d.app.switched && !d.seen {
				d.tell(t, hotKey)
				d.checks.tail = t
			}
		})
	case enters(checkpoint.CutoverWatching, was, is):
		d.listTail(d.World.Now().Add(d.World.UpTo(d.watchFor / 2)))
		return true
	case enters(checkpoint.CutoverCancelling, was, is) || enters(checkpoint.CutoverCancelled, was, is):
		d.listTail(d.World.Now()) // the next try may begin before a worker lists it
		return true
	}
	return false
}

// listTail shows the hidden shard from a time on, and the shards that followed it.
func (d *cutoverRun) listTail(from time.Time) {
	for _, sh := range d.tables[0].Source.Stream().Shards {
		if sh.ListedFrom.After(from) {
			sh.ListedFrom = from
		}
	}
}

// splitBefore: a shard splits half a minute before the freeze would begin, so that its children may be
// listed late. The freeze waits until that is almost over.
func (d *cutoverRun) splitBefore(was, is checkpoint.Cutover) bool {
	if !enters(checkpoint.CutoverChecks, was, is) || is.Rehearse {
		return false
	}
	stream := d.tables[0].Source.Stream()
	stream.Split(stream.Open()[0])
	return true
}

// followAlone has no comparison but the follower's find what changed after the full verify.
func (d *cutoverRun) followAlone() {
	d.Late, d.hurtAt, d.small, d.parks, d.early = 0, 0, 1, false, false
}

// misapply: an item changes just before the freeze, after the full verify. Its row is damaged as soon
// as the change is applied.
func (d *cutoverRun) misapply(was, is checkpoint.Cutover) bool {
	if d.topic != nil || is.Rehearse || !enters(checkpoint.CutoverFreeze, was, is) {
		return false
	}
	d.World.After(d.World.UpTo(500*time.Millisecond), func() {
		if !d.app.frozen && !d.app.switched {
			d.misapplies = true
			d.tell(d.tables[0], "k1")
		}
	})
	return true
}

// misapplied damages the row of that item at its first write.
func (d *cutoverRun) misapplied(table, key string) {
	if t := d.tables[0]; d.misapplies && table == t.Mapping.Table && key == "k1#s" && d.checks.valueOf(t, "k1") == t.told["k1"].value {
		d.misapplies = false
		d.World.After(0, func() { d.damage(t, "k1") })
	}
}

func (d *cutoverRun) tryOften() { d.tries = 3 }

// silence: a process that writes stands still from the drain on, for longer than a freeze may last.
func (d *cutoverRun) silence(was, is checkpoint.Cutover) bool {
	if !enters(checkpoint.CutoverDrain, was, is) || is.Rehearse {
		return false
	}
	d.workers.pause(d.workers.one(), 3*time.Minute+d.World.UpTo(3*time.Minute))
	return true
}

// useUp: no worker reads while the application is frozen, in any try of a request.
func (d *cutoverRun) useUp(was, is checkpoint.Cutover) bool {
	if enters(checkpoint.CutoverDrain, was, is) && !is.Rehearse {
		for _, w := range d.workers.all {
			d.workers.pause(w, is.Limit()+time.Minute)
		}
	}
	return is.Step == checkpoint.CutoverCancelled && len(is.GivenUp) == is.Tries && is.Tries > 1
}
