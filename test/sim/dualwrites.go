package sim

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/dualwrite"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// DualOptions configure a run with an application that writes both stores.
type DualOptions struct {
	Trace bool
	// Settle overrides the workers' settle time. 0 means the seed's, which exceeds the
	// application's deadline.
	Settle time.Duration
	// Exact removes the settle time: the workers do not know that the application writes the
	// target.
	Exact bool
	// Ranked makes the application rank its writes by a number, whatever the seed says.
	Ranked bool
	// Relayed makes the workers publish, and other processes apply the topic.
	Relayed bool
}

// SimulateDualWrites plays an application of several servers. They write DynamoDB first and
// Bigtable second, with their own clocks, in any order, up to their deadline late, and sometimes
// not at all. Meanwhile workers are killed, paused and stopped, shards roll and split, and requests
// are late. Once the application has been quiet for the settle time, every row must equal its item.
// Phantoms are excluded: they were written only to the target, so no record of the stream shows
// them.
func SimulateDualWrites(seed uint64, o DualOptions) Report {
	d := newDualRun(seed, o)
	return d.report(seed, d.play, &d.failures)
}

// dualRun is one run.
type dualRun struct {
	*Migration
	rng      *rand.Rand // of the plan; events draw from the world
	deadline time.Duration
	late     time.Duration
	moving   bool
	lossAt   time.Duration       // when the stream loses unread changes; 0: never
	ranked   bool                // the application ranks its writes by a number in the item
	servers  []*dualwrite.Writer // the servers of a ranked run
	relayed  *dualRelay          // nil if the readers write
	length   time.Duration
	every    time.Duration // between two changes
	skews    []time.Duration
	room     int64
	workers  *crew
	items    map[string]attribute.Item // as the application's servers know them
	written  int
	pending  int             // in-flight writes to the target
	phantoms map[string]bool // by primary key
	ahead    map[string]bool // items, by primary key, that had a number above the clock
	cured    bool            // parked items were written again
	lost     bool            // the stream lost changes
	failures []string
}

func newDualRun(seed uint64, o DualOptions) *dualRun {
	rng := stream(seed, "dual writes")
	w := virtual.NewWorld(seed, simEpoch, o.Trace)
	w.StepLimit = stepLimit
	d := &dualRun{rng: rng, items: map[string]attribute.Item{}, phantoms: map[string]bool{}, ahead: map[string]bool{}, moving: rng.IntN(2) == 0}
	d.deadline = []time.Duration{5 * time.Second, 25 * time.Second, 2 * time.Minute, 9 * time.Minute}[rng.IntN(4)]
	d.late = d.deadline + d.deadline/10
	if o.Settle > 0 {
		d.late = o.Settle
	}
	if o.Exact {
		d.late = 0
	}
	d.length = time.Duration(40+rng.IntN(120)) * time.Minute
	d.every = time.Duration(5+rng.IntN(40)) * time.Second
	for range 2 + rng.IntN(3) {
		skew := time.Duration(rng.Int64N(int64(10*time.Second))) - 5*time.Second
		switch rng.IntN(6) {
		case 0: // its cells hide all correctly dated ones (H42)
			skew = time.Duration(rng.Int64N(int64(48 * time.Hour)))
		case 1:
			skew = -time.Duration(rng.Int64N(int64(48 * time.Hour)))
		}
		d.skews = append(d.skews, skew)
	}
	if rng.IntN(3) == 0 {
		d.room = 1 + rng.Int64N(20_000)
	}
	if rng.IntN(4) == 0 {
		d.lossAt = time.Duration(10+rng.IntN(25)) * time.Minute
	}
	d.ranked = o.Ranked || o.Settle == 0 && !o.Exact && stream(seed, "ranked writes").IntN(3) == 0
	var rowKey []string
	if d.moving {
		rowKey = []string{"value", "pk", "sk"}
	}
	if shards := 1 + rng.IntN(4); d.ranked {
		d.late = 0
		d.Migration = NewMigrationBy(w, shards, ranked(d.moving), "d")
		for range d.skews {
			d.servers = append(d.servers, dualwrite.New(d.Mapping, dualSource{d}, dualTarget{model.Target{Bigtable: d.Target}, d}))
		}
	} else {
		d.Migration = NewMigration(w, shards, rowKey...)
	}
	d.workers = newCrew(w, "worker", d.work)
	d.Bared = map[string]bool{}
	d.Timing = engine.Timing{Poll: time.Duration(1+rng.IntN(4)) * time.Second}
	if o.Relayed {
		d.relayed = newDualRelay(seed, d)
	}
	d.Target.LoseReply, d.Target.Late, d.Target.Twice = 0.01*rng.Float64(), 0.01*rng.Float64(), 0.01*rng.Float64()
	d.Target.LateBy = 2 * time.Minute
	down := 0.02 * rng.Float64()
	d.Source.Fault = func(string, string) error {
		if w.Chance(down) {
			return model.Fail("GetRecords", cdc.Throttled)
		}
		return nil
	}
	return d
}

// work starts a worker.
func (d *dualRun) work(name string) *Worker {
	return d.Start(name, func(o *engine.Options) {
		o.Tables[0].Late, o.Tables[0].AdoptRows, o.SettleBytes = d.late, true, d.room
		// After a loss, rows that the application wrote for lost changes have no version.
		o.Tables[0].LoadAgain, o.Tables[0].Owned = true, true
		if d.relayed != nil {
			o.Mode, o.Topic, o.Kept = checkpoint.Topic, d.relayed.topic, d.relayed.subscription.Kept
		}
	})
}

// play is the script.
func (d *dualRun) play(ctx context.Context) {
	for range d.rng.IntN(10) {
		d.change(ctx)
	}
	d.workers.hire(1 + d.rng.IntN(2))
	d.World.Go("faults", d.trouble)
	if d.relayed != nil {
		d.World.Go("appliers", d.relayed.play)
	}
	rests := 0
	for d.World.Elapsed() < d.length {
		n := 1
		if d.rng.IntN(5) == 0 {
			n = 1 + d.rng.IntN(8) // a race on one item, or on a few
		}
		for range n {
			d.change(ctx)
		}
		if task.Sleep(ctx, d.World.UpTo(2*d.every)) != nil {
			return
		}
		if d.ranked && len(d.failures) == 0 && d.World.Elapsed() > time.Duration(rests+1)*d.length/3 {
			rests++ // the application rests while the faults continue
			d.World.Inject("application at rest")
			d.await(ctx, d.World.Elapsed()+time.Hour)
		}
	}
	limit := d.World.Elapsed() + d.late + 40*time.Minute
	if d.relayed != nil {
		limit += 4 * time.Hour // for changes without room
	}
	d.await(ctx, limit)
	if d.ranked && len(d.failures) == 0 {
		d.cure(ctx)
		d.cured = true
		d.await(ctx, d.World.Elapsed()+40*time.Minute)
	}
}

// await waits until no write of the application is in flight and everything is equal. It records a
// failure if that takes too long.
func (d *dualRun) await(ctx context.Context, limit time.Duration) {
	for d.pending > 0 && task.Sleep(ctx, time.Second) == nil {
		limit += time.Second
	}
	err := d.quiet(ctx)
	for ; err != nil && d.World.Elapsed() < limit; err = d.quiet(ctx) {
		if d.State().Load.Sweep.Waiting { // it would remove a large share of the few items
			d.World.Inject("sweep approved")
			if ledger, err := d.Ledger(ctx); err == nil {
				_, _ = ledger.ApproveSweep(ctx, d.Mapping.Source)
			}
		}
		_ = task.Sleep(ctx, 20*time.Second)
	}
	if err != nil {
		d.failures = append(d.failures, "I1: "+err.Error())
	}
}

// quiet returns an error while changes must still settle, and then while rows differ.
func (d *dualRun) quiet(ctx context.Context) error {
	if state := d.State(); !state.Loaded() {
		return fmt.Errorf("the table is not loaded: %v, paused %q", checkpoint.Admissible(state, d.Shards(), d.World.Now(), d.late), state.Load.Paused)
	}
	for _, s := range d.Shards() {
		if !s.Finished() && (s.Settling.Changes > 0 || !s.CaughtUp || !s.EndedAt.IsZero()) {
			return fmt.Errorf("shard %s is %s, with %d changes to settle", s.ID, s.State, s.Settling.Changes)
		}
	}
	if d.relayed != nil {
		if err := d.relayed.quiet(ctx); err != nil {
			return err
		}
	}
	parked := d.parkedKeys(ctx)
	if d.ranked && len(parked) > 0 && !d.lost {
		return fmt.Errorf("parked: %s", parked)
	}
	if d.cured {
		if len(parked) > 0 && !d.moving {
			return fmt.Errorf("parked: %s", parked)
		}
		parked = nil // an operator retries where the item has another row
	}
	diff := slices.DeleteFunc(d.Unequal(), func(line string) bool {
		if d.ranked && d.lost && (!d.cured || d.moving) && d.recreated(line) {
			// If an item was recreated during the loss, its row has the number of the application's
			// last write, and no record follows it. A comparison finds it as a phantom. If the item
			// has left the row, no later write repairs it.
			return true
		}
		for _, key := range parked {
			if strings.HasPrefix(key, "r") && strings.Contains(line, key) {
				return true
			}
		}
		for key := range d.phantoms {
			if strings.Contains(line, key) {
				return true
			}
		}
		return false
	})
	if len(diff) > 0 {
		return fmt.Errorf("%s", strings.Join(diff, "\n"))
	}
	return nil
}

// recreated reports whether a difference is of an item that may have a lower number than a removed
// item had.
func (d *dualRun) recreated(line string) bool {
	for key := range d.ahead {
		if strings.Contains(line, "/"+key+"#") || strings.Contains(line, "#"+key+"#") {
			return true
		}
	}
	return strings.Contains(line, "/r") || strings.Contains(line, "#r")
}

// trouble injects the faults of workers and shards.
func (d *dualRun) trouble(ctx context.Context) {
	rng := d.World.Rand()
	for d.World.Elapsed() < d.length {
		if task.Sleep(ctx, d.World.UpTo(20*time.Minute)) != nil {
			return
		}
		if d.lossAt > 0 && d.World.Elapsed() > d.lossAt {
			d.lose(ctx)
		}
		switch w := d.workers.one(); rng.IntN(5) {
		case 0:
			d.workers.kill(w)
		case 1:
			d.workers.pause(w, d.World.UpTo(15*time.Minute))
		case 2:
			d.workers.stop(w)
		case 3:
			d.World.Inject("shard rolled")
			open := d.Source.Stream().Open()
			d.Source.Stream().Roll(open[rng.IntN(len(open))])
		case 4:
			if open := d.Source.Stream().Open(); len(open) < 6 {
				d.World.Inject("shard split")
				d.Source.Stream().Split(open[rng.IntN(len(open))])
			}
		}
	}
}

// lose stops all readers for some time, and then makes the stream lose its records. The table is
// loaded again while the application's earlier writes to the target are still in flight.
func (d *dualRun) lose(ctx context.Context) {
	d.lossAt = 0
	d.workers.gone()
	_ = task.Sleep(ctx, d.World.UpTo(10*time.Minute))
	if d.placed() {
		d.World.Inject("stream trimmed unread")
		d.lost = true
		d.Source.Stream().Trim(d.World.Now())
	}
	d.workers.hire(1)
}

// change is one change by a server: DynamoDB first, the target later.
func (d *dualRun) change(ctx context.Context) {
	if d.ranked {
		d.changeRanked()
		return
	}
	rng := d.World.Rand()
	skew := d.skews[rng.IntN(len(d.skews))]
	number := rng.IntN(6)
	phantom := rng.IntN(40) == 0
	if phantom {
		number += 100
	}
	pk := fmt.Sprintf("k%d", number)
	keys := []attribute.Attribute{{Name: "pk", Value: attribute.String(pk)}, {Name: "sk", Value: attribute.String("s")}}
	old := d.items[pk]
	var image attribute.Item
	if rng.IntN(4) > 0 {
		d.written++
		value := fmt.Sprintf("v%d", d.written)
		if d.moving && rng.IntN(2) == 0 {
			value = fmt.Sprintf("place%d", rng.IntN(3))
		}
		list := append(slices.Clone(keys), attribute.Attribute{Name: "value", Value: attribute.String(value)}, attribute.Attribute{Name: "n", Value: attribute.String(fmt.Sprint(d.written))})
		if rng.IntN(2) == 0 {
			list = append(list, attribute.Attribute{Name: fmt.Sprintf("extra%d", rng.IntN(3)), Value: attribute.String(value)})
		}
		image = attribute.NewItem(list)
	}
	switch {
	case phantom: // the target was written, but DynamoDB refused the condition (H41)
		d.World.Inject("phantom write")
		d.phantoms[pk] = true
		old = attribute.Item{}
	case rng.IntN(8) == 0:
		d.World.Inject("condition failed")
		return // no store is written
	default:
		d.items[pk] = image
		if image.Exists() {
			d.Source.Put(image)
		} else {
			d.Source.Delete(attribute.NewItem(keys))
		}
	}
	if rng.IntN(12) == 0 {
		d.World.Inject("application gone between its two writes")
		return
	}
	d.pending++
	delay := d.World.UpTo(d.deadline)
	if rng.IntN(2) == 0 {
		delay = d.World.UpTo(50 * time.Millisecond)
	}
	how := rng.IntN(4)
	d.World.After(delay, func() {
		defer func() { d.pending-- }()
		d.writeTarget(old, image, d.World.Now().Add(skew), how)
	})
}

// writeTarget is the application's second write. It sets cells by its own clock, and may or may not
// delete old columns and rows as it knows them.
func (d *dualRun) writeTarget(old, image attribute.Item, now time.Time, how int) {
	cells := map[string][]sink.Op{}
	remove := map[string]bool{}
	if old.Exists() {
		if p, err := d.Mapping.Map(old, now); err == nil {
			for _, row := range p.Rows {
				for _, c := range row.Cells {
					cells[row.Row] = append(cells[row.Row], sink.Op{Kind: sink.DeleteColumn, Family: c.Family, Qualifier: c.Qualifier})
				}
				remove[row.Row] = true
			}
		}
	}
	if image.Exists() {
		p, err := d.Mapping.Map(image, now)
		if err != nil {
			panic(err)
		}
		for _, row := range p.Rows {
			remove[row.Row] = false
			if how == 0 { // it ignores former columns
				cells[row.Row] = nil
			}
			for _, c := range row.Cells {
				cells[row.Row] = append(cells[row.Row], sink.Op{Kind: sink.SetCell, Family: c.Family, Qualifier: c.Qualifier, Timestamp: max(0, now.UnixMilli()) * 1000, Value: c.Value})
			}
		}
	}
	for _, row := range slices.Sorted(maps.Keys(cells)) {
		whole := remove[row] && how < 3 // DeleteRow also deletes replicator's versions (H79)
		ops := cells[row]
		if whole {
			d.World.Inject("row deleted by the application")
			d.Bared[row] = true
			ops = nil
		}
		if err := (model.Target{Bigtable: d.Target}).Write(d.Mapping.Table, row, whole, ops...); err != nil {
			panic(err)
		}
	}
}
