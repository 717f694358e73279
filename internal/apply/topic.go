package apply

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Options are everything a process needs that applies what a topic brings.
type Options struct {
	Ledger       *checkpoint.Ledger
	Writer       *sink.Writer
	Subscription relay.Subscription
	DeadLetter   relay.Subscription // of the dead-letter topic; nil: it is not watched
	// Cluster says which cluster the app profile routes to, as in engine.Options.
	Cluster func(ctx context.Context) (string, error)
	// Families lists the families of target tables, and Restore makes earlier mappings again, as
	// in Options.
	Families sink.Families
	Restore  func(text string) (*transform.Mapping, error)
	Tables   []engine.Spec // Mapping and MappingHash of them
	Events   engine.Events
	Timing   engine.Timing
	// Pulls is how many pulls run side by side, Pull how many messages each asks for, and Held how
	// many messages are not acknowledged at once; the defaults are 4, 100 and 10,000.
	// What is durable is held until it is noted, once a Timing.Commit, so that Held bounds the rate.
	// Where the application writes a target too (Table.Late), Held is 100,000: there SettleBytes
	// bounds what waits.
	Pulls, Pull, Held int
	// SettleBytes is how much the messages take at the most that wait for their second application;
	// 0: 128 MiB. While it is used up, nothing more is pulled.
	SettleBytes int64
}

// settles reports whether an application writes a target too.
func (o Options) settles() bool {
	return slices.ContainsFunc(o.Tables, func(t engine.Spec) bool { return t.Late > 0 })
}

// orDefault fills in the bounds that are not given.
func (o Options) orDefault(settles bool) Options {
	held := 10_000
	if settles {
		held = 100_000
	}
	o.Pulls, o.Pull, o.Held = cmp.Or(o.Pulls, 4), cmp.Or(o.Pull, 100), cmp.Or(o.Held, held)
	o.SettleBytes = cmp.Or(o.SettleBytes, engine.SettleBytes)
	return o
}

// Run writes what a subscription brings until ctx ends, which is a clean stop: what was pulled is
// written, noted and acknowledged within Timing.Grace. It holds no lease: any number of processes
// apply one topic. It never gives a message back because the target is away, and pulls no more than
// it may hold: so nothing comes into a dead letter for that.
func Run(ctx context.Context, o Options) error {
	o.Timing = o.Timing.OrDefault(o.Ledger.Lease())
	o.Events = o.Events.OrSilent()
	settles := o.settles()
	o = o.orDefault(settles)
	work, abandon := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abandon(context.Canceled)
	drain, halt := context.WithCancelCause(ctx)
	defer halt(context.Canceled)
	a := &appliers{Options: &o, Retrier: &engine.Retrier{Events: o.Events}, halt: halt, tables: map[string]*topicTable{}, room: task.NewLimit(int64(o.Held)), held: deadlines{due: map[string]time.Duration{}},
		settles: settles, unsettled: unsettled{room: task.NewLimit(o.SettleBytes)}}
	for _, t := range o.Tables {
		a.tables[t.Mapping.Source] = &topicTable{Retrier: &engine.Retrier{Source: t.Mapping.Source, Events: o.Events}, o: &o, mapping: t.Mapping, hash: t.MappingHash, late: t.Late,
			formers: &engine.Formers{Source: t.Mapping.Source, Ledger: o.Ledger, Mapping: t.Mapping, Families: o.Families, Restore: o.Restore}}
	}
	finished := task.NewEvent(ctx)
	all := task.NewGroup(work, 0)
	all.Go("apply", func(work context.Context) error {
		defer finished.Set()
		return a.run(engine.Lifecycle{Drain: drain, Work: work})
	})
	all.Go("grace", func(work context.Context) error {
		if finished.Wait(drain) == nil || work.Err() != nil {
			return nil
		}
		limited, cancel := task.WithTimeout(work, o.Timing.Grace)
		defer cancel()
		if finished.Wait(limited) != nil {
			abandon(context.Cause(drain))
		}
		return nil
	})
	err := all.Wait()
	if cause := context.Cause(drain); engine.Orderly(cause) {
		return cause
	}
	if ctx.Err() != nil && !engine.Fatal(err) {
		return nil
	}
	return err
}

// appliers are the tasks of one process.
type appliers struct {
	*Options
	*engine.Retrier
	halt   context.CancelCauseFunc
	tables map[string]*topicTable
	room   *task.Limit // for messages that are held
	held   deadlines

	settles   bool // an application writes a target too
	unsettled unsettled

	mu    sync.Mutex
	ready []done // of which all is durable
}

// done is a message that needs nothing but a note and an acknowledgement.
type done struct {
	id     string
	change relay.Change
	noted  bool // it is to be noted as applied
}

// run pulls until a drain begins, and returns when all that was pulled is acknowledged.
func (a *appliers) run(life engine.Lifecycle) error {
	for _, source := range slices.Sorted(maps.Keys(a.tables)) {
		if err := a.end(a.Retry(life, "check the mapping", a.tables[source].check)); err != nil || life.Draining() {
			return err
		}
	}
	pulling := task.NewGroup(life.Work, 0)
	beside, end := context.WithCancel(life.Work)
	defer end()
	for range a.Pulls {
		pulling.Go("pull", func(work context.Context) error { return a.pull(life.Within(work)) })
	}
	if a.settles {
		pulling.Go("settle", func(work context.Context) error { return a.end(a.assertDue(life.Within(work))) })
	}
	side := task.NewGroup(beside, 0)
	side.Go("watch the cluster", a.watchCluster)
	side.Go("watch the dead-letter topic", a.watchDeadLetter)
	side.Go("extend", func(ctx context.Context) error { return a.extend(ctx) })
	side.Go("acknowledge", func(ctx context.Context) error {
		for task.Sleep(ctx, a.Timing.Commit) == nil {
			if err := a.settle(life); err != nil { // begun, it is not broken off by a stop
				return a.end(err)
			}
		}
		return nil
	})
	err := pulling.Wait()
	end()
	if sideErr := side.Wait(); err == nil {
		err = sideErr
	}
	if err == nil {
		err = a.end(a.settle(life.Finishing()))
	}
	return err
}

// end ends the process by an error: cleanly if that is safe. Nobody takes over what a task leaves
// that ends alone, so every error ends all.
func (a *appliers) end(err error) error {
	if err == nil {
		return nil
	}
	a.halt(err) // what waits for room goes on
	if engine.Orderly(err) {
		return nil
	}
	return err
}

// pull pulls and writes until a drain begins. It has room for what it pulls before it does.
func (a *appliers) pull(life engine.Lifecycle) error {
	for !life.Draining() {
		a.Retrier.Events.Tick()
		if a.room.Acquire(life.Drain, int64(a.Pull)) != nil {
			return nil
		}
		var got []relay.Delivery
		err := a.Retry(life, "pull", func(context.Context) (err error) {
			got, err = a.Subscription.Pull(life.Drain, a.Pull)
			return err
		})
		if unused := a.Pull - len(got); unused > 0 {
			a.room.Release(int64(unused))
		}
		if err != nil && !life.Draining() {
			return a.end(err)
		}
		a.held.hold(got)
		if err := a.apply(life, got); err != nil {
			return a.end(err)
		}
		if len(got) == 0 && !life.Draining() {
			_ = task.Sleep(life.Drain, a.Timing.Poll)
		}
	}
	return nil
}

// apply writes messages side by side, and leaves those that are durable to settle. Those that are to
// be written once more wait for that first.
func (a *appliers) apply(life engine.Lifecycle, got []relay.Delivery) error {
	g := task.NewGroup(life.Work, 0)
	for _, d := range got {
		g.Go("apply", func(work context.Context) error {
			c, err := relay.Decode(d.Data)
			table := a.tables[c.Table]
			if err != nil || table == nil {
				return a.refuse(work, d, c.Table, err)
			}
			written, exact, err := table.apply(life.Within(work), c)
			if engine.Fatal(err) {
				a.halt(err) // the group waits for those that wait for room
			}
			if err != nil {
				return err
			}
			c.Keys, c.New, c.Old = attribute.Item{}, attribute.Item{}, attribute.Item{} // what waits for its note needs no memory
			if exact != nil {
				a.await(life, unsettledMessage{done: done{d.ID, c, written}, table: table, exact: exact, due: task.Mono(work) + table.late})
				return nil
			}
			a.durable(done{d.ID, c, written})
			return nil
		})
	}
	return g.Wait()
}

// durable leaves a message to settle.
func (a *appliers) durable(d ...done) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ready = append(a.ready, d...)
}

// errPoison is reported for a message that cannot be read, or is of a table that this process has
// no mapping for.
var errPoison = errors.New("this process cannot apply the message, so it is nacked")

// refuse gives a message back, so that the subscription's dead letter takes it in the end.
func (a *appliers) refuse(ctx context.Context, d relay.Delivery, table string, err error) error {
	a.Retrier.Events.Retry(table, "read a message", 0, errors.Join(errPoison, err))
	a.held.forget(d.ID)
	_ = a.Subscription.Extend(ctx, []string{d.ID}, 0) // else its deadline does the same
	a.room.Release(1)
	return nil
}

// settle notes what is durable, and then acknowledges it: never the other way round, or a message
// that nobody knows to be applied would be gone.
func (a *appliers) settle(life engine.Lifecycle) error {
	a.mu.Lock()
	ready := a.ready
	a.ready = nil
	a.mu.Unlock()
	if len(ready) == 0 {
		return nil
	}
	noted := map[string][]checkpoint.Applied{}
	ids := make([]string, len(ready))
	for i, d := range ready {
		ids[i] = d.id
		if d.noted {
			run := checkpoint.Run{From: d.change.Number, To: d.change.Number, At: d.change.Time}
			noted[d.change.Table] = append(noted[d.change.Table], checkpoint.Applied{
				Track: checkpoint.Track{Generation: d.change.Generation, Label: d.change.Label, Shard: d.change.Shard}, Runs: checkpoint.Runs{run}})
		}
	}
	for _, source := range slices.Sorted(maps.Keys(noted)) {
		err := a.tables[source].Retry(life.Finishing(), "record what is applied", func(ctx context.Context) error {
			return a.Ledger.NoteApplied(ctx, source, noted[source])
		})
		if err != nil {
			return err
		}
	}
	if err := a.Retry(life.Finishing(), "acknowledge", func(ctx context.Context) error { return a.Subscription.Ack(ctx, ids) }); err != nil {
		return err
	}
	a.held.forget(ids...)
	a.room.Release(int64(len(ids)))
	a.report(ready)
	return nil
}

// report tells which tables get on.
func (a *appliers) report(ready []done) {
	tables := map[string]bool{}
	for _, d := range ready {
		tables[d.change.Table] = true
	}
	for _, source := range slices.Sorted(maps.Keys(tables)) {
		a.Retrier.Events.PageDone(source)
	}
}

// topicTable is one table of an applying process.
type topicTable struct {
	*engine.Retrier
	o       *Options
	mapping *transform.Mapping
	hash    string
	late    time.Duration // how long after its change the application may write the target; 0: it does not
	formers *engine.Formers

	mu    sync.Mutex
	claim *claim // as it was proved last; nil: not, or no more
}

// claim is the right to write, with the table's record as it was when the right was proved.
type claim struct {
	stamps sink.Stamps
	state  checkpoint.TableState
	former []sink.Former // mappings that are not swept yet
	at     time.Duration
}

// errNotBegun: no relay has begun the table's first generation yet.
var errNotBegun = errors.New("no relay follows the table yet")

// check makes sure that the table is applied from a topic, and under this mapping.
func (t *topicTable) check(ctx context.Context) error {
	t.Events.Tick()
	if err := t.o.Ledger.CheckMode(ctx, t.Source, checkpoint.Topic, false); err != nil {
		return err
	}
	_, _, err := t.o.Ledger.CheckMapping(ctx, t.Source, engine.MappingOf(t.mapping, t.hash), false)
	return err
}

// proved is the claim, proved now or a moment ago.
func (t *topicTable) proved(ctx context.Context) (*claim, error) {
	t.mu.Lock()
	c := t.claim
	t.mu.Unlock()
	if c != nil && task.Mono(ctx)-c.at < t.o.Timing.Pass {
		return c, nil
	}
	c = &claim{at: task.Mono(ctx)}
	var err error
	c.stamps, err = fence.Prove(ctx, t.o.Ledger, t.mapping.Tables(), func(ctx context.Context) error {
		if err := t.o.Ledger.Check(ctx); err != nil {
			return err
		}
		var found bool
		var err error
		c.state, found, err = t.o.Ledger.Table(ctx, t.Source)
		switch {
		case err != nil:
			return err
		case !found || c.state.Generation == 0:
			return errNotBegun
		case c.state.MappingHash != t.hash:
			return checkpoint.ErrMappingChanged
		case c.state.Stopped():
			return engine.ErrHalted
		}
		return c.state.Admits(checkpoint.Topic, false)
	})
	if err == nil {
		c.former, err = t.formers.Of(ctx, c.state)
	}
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.claim = c
	return c, nil
}

func (t *topicTable) forget(c *claim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.claim == c {
		t.claim = nil
	}
}

// apply makes a change durable, however long that takes. It returns false for one that is dropped
// and must not count as applied. Where the application writes the target too, the change is applied
// timestamped, and exact is what is to be asserted later; else nil.
func (t *topicTable) apply(life engine.Lifecycle, c relay.Change) (noted bool, exact *transform.Batch, err error) {
	var batch *transform.Batch
	noted, err = t.write(life, c, func() *transform.Batch {
		if batch == nil {
			b := transform.Fold(t.mapping, []cdc.Change{c.Change}, transform.Stamp{Generation: c.Generation, Hop: c.Hop, NotBefore: c.CellTime, DualWrites: t.late > 0})
			sink.OwnAll(t.mapping, &b) // the change before, whose image another rule put there, may be refused later
			batch = &b
			if t.late > 0 {
				first := b.Timestamped()
				batch, exact = &first, &b
			}
		}
		return batch
	}, func(rows int) {
		t.Events.Applied(t.Source, engine.Count([]cdc.Change{c.Change}), rows)
		for _, rule := range slices.Sorted(maps.Keys(batch.Ignored)) {
			t.Events.Ignored(t.Source, rule, batch.Ignored[rule])
		}
	})
	if !noted {
		exact = nil
	}
	return noted, exact, err
}

// write writes the batch of a change, if the change is still to be written, however long that takes.
func (t *topicTable) write(life engine.Lifecycle, c relay.Change, batchOf func() *transform.Batch, written func(rows int)) (noted bool, err error) {
	err = t.Retry(life.Finishing(), "write", func(ctx context.Context) error {
		claim, err := t.proved(ctx)
		if err != nil {
			return err
		}
		switch admit(claim.state, c, t.o.Ledger.ID(), t.hash) {
		case drop:
			noted = false
			return nil
		case later:
			t.forget(claim)
			return errNotBegun
		case settled:
			noted = true
			return nil
		}
		batch := batchOf()
		rows := len(batch.Rows)
		if err := t.formers.Inherit(ctx, claim.former, claim.state.Generation, batch); err != nil {
			return err
		}
		if err := t.o.Writer.Write(ctx, claim.stamps, batch); err != nil {
			if errors.Is(err, sink.ErrRefenced) {
				t.forget(claim)
			}
			if sink.Is(err, sink.Permanent) {
				t.formers.Lighten(ctx, claim.former, batch)
			}
			return err
		}
		noted = true
		written(rows)
		return nil
	})
	return noted, err
}

// verdict is what becomes of a message.
type verdict uint8

// The verdicts.
const (
	write   verdict = iota // to be written
	settled                // nothing to write, and applied
	drop                   // a load has asserted what it says, or will: to be forgotten
	later                  // the table's record is older than the message
)

// admit judges a message by the table's record, as it was read with the proof of the right to
// write, and by the ledger and the mapping of this process (H114). A message of an older generation
// is written for as long as no load of a newer one has begun: until then it is what keeps the
// target fresh. Afterwards it might bring back what the load's sweep removes, or what a target that
// was created anew and loaded never held; and a further generation does not change that.
func admit(s checkpoint.TableState, c relay.Change, ledger, hash string) verdict {
	switch {
	case c.Loaded:
		return drop // the relay has written it itself
	case c.Ledger != ledger:
		return drop // of a ledger that was lost; what follows in this one is of higher generations
	case c.Generation > s.Generation:
		return later
	case c.Generation < s.Load.Begun() || c.Generation < s.Generation && c.MappingHash != hash:
		return drop
	case c.MappingHash != hash:
		return later
	case c.Omitted != "":
		return settled
	}
	return write
}
