package apply

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Options are everything that a process needs to apply a topic.
type Options struct {
	Ledger       *checkpoint.Ledger
	Register     *fence.Register // records what this process may write; if nil, Run makes one
	Writer       *sink.Writer
	Subscription relay.Subscription
	DeadLetter   relay.Subscription // of the dead-letter topic; if nil, it is not watched
	// Cluster returns the cluster to which the app profile routes, as in engine.Options.
	Cluster func(ctx context.Context) (string, error)
	// DeadTopic receives messages with changes that the ledger does not know. If it is nil, such
	// messages are nacked.
	DeadTopic relay.Topic
	// Find returns a table that was unknown at the start, or false if this process does not apply
	// the table. If Find is nil, this process applies only Tables.
	Find func(ctx context.Context, source string) (engine.Spec, bool, error)
	// Families lists the families of target tables. Restore restores earlier mappings, as in
	// engine.Options.
	Families sink.Families
	Restore  func(text string) (*transform.Mapping, error)
	Tables   []engine.Spec // with Mapping and MappingHash
	// ParkedPublished says that parked changes are published, with their old images.
	ParkedPublished bool
	Events          engine.Events
	Tracer          engine.Tracer // begins the spans of this process; nil for none
	Timing          engine.Timing
	// Pulls is the number of concurrent pulls. Pull is the number of messages that each of them
	// requests. Held is the maximum number of unacknowledged messages. The defaults are 4, 100 and
	// 10,000. A durable message stays unacknowledged until its note is in the ledger, which happens
	// once per Timing.Commit. So Held bounds the rate. If the application also writes a target
	// (Table.Late), the default of Held is 100,000, because SettleBytes then bounds the waiting
	// messages.
	Pulls, Pull, Held int
	// SettleBytes bounds the memory of messages that wait for their second application; 0: 128 MiB.
	// While waiting messages use all of this memory, no more messages are pulled.
	SettleBytes int64
}

// settles reports whether the application itself also writes any target table.
func (o Options) settles() bool {
	return slices.ContainsFunc(o.Tables, func(t engine.Spec) bool { return t.Late > 0 })
}

// orDefault returns the options with defaults for the bounds that are 0.
func (o Options) orDefault(settles bool) Options {
	held := 10_000
	if settles {
		held = 100_000
	}
	o.Pulls, o.Pull, o.Held = cmp.Or(o.Pulls, 4), cmp.Or(o.Pull, 100), cmp.Or(o.Held, held)
	o.SettleBytes = cmp.Or(o.SettleBytes, engine.SettleBytes)
	return o
}

// Run applies the messages of a subscription until ctx ends. Then it stops cleanly: pulled messages
// are written, noted in the ledger and acknowledged within Timing.Grace. It holds no lease, so any
// number of processes may apply one topic. An unavailable target moves no message to the dead
// letter, because Run does not nack for it. Run pulls no more messages than it may hold.
func Run(ctx context.Context, o Options) error {
	o.Timing = o.Timing.OrDefault(o.Ledger.Lease())
	o.Events = o.Events.OrSilent()
	o = o.orDefault(o.settles())
	if o.Register == nil {
		o.Register = fence.NewRegister(o.Ledger)
	}
	ctx, calls := task.WithCrew(ctx)
	defer calls()
	work, abandon := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abandon(context.Canceled)
	drain, halt := context.WithCancelCause(ctx)
	defer halt(context.Canceled)
	a := &appliers{Options: &o, Retrier: &engine.Retrier{Events: o.Events}, halt: halt, room: task.NewLimit(int64(o.Held)), data: task.NewLimit(dataBytes),
		held: deadlines{due: map[string]deadline{}}, unsettled: unsettled{room: task.NewLimit(o.SettleBytes)}, lanes: map[string]*lane{}, strangers: map[string]*stranger{}}
	for _, t := range o.Tables {
		a.lanes[t.Mapping.Source] = a.newLane(t)
	}
	finished := task.NewEvent(ctx)
	all := task.NewGroup(work, 0)
	heeding, unheeded := context.WithCancel(work)
	all.Go("heed cutovers", func(context.Context) error { o.Register.Heed(heeding, o.Timing.Pass, o.Timing.Heed); return nil })
	all.Go("apply", func(work context.Context) error {
		defer unheeded()
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
	_ = o.Register.Leave(ctx) // if it fails, the record stays, which is safe
	if cause := context.Cause(drain); engine.Orderly(cause) {
		return cause
	}
	if ctx.Err() != nil && !engine.Fatal(err) {
		return nil
	}
	return err
}

// dataBytes is the maximum memory of messages that are not applied yet.
const dataBytes = 64 << 20

// appliers are the tasks of one process.
type appliers struct {
	*Options
	*engine.Retrier
	halt   context.CancelCauseFunc
	room   *task.Limit // number of unacknowledged messages
	data   *task.Limit // bytes of messages that are not applied yet
	held   deadlines
	pulled atomic.Bool // set when pulling has ended

	unsettled unsettled
	working   *task.Group // the lanes' tasks
	meet      task.Wakeup // a stranger has arrived

	mu        sync.Mutex
	lanes     map[string]*lane // by source table
	strangers map[string]*stranger
	absent    int        // number of messages that are set aside
	ready     []*message // durable messages, which wait for their notes and acknowledgements
}

// run pulls until a drain begins, and returns when all pulled messages are acknowledged.
func (a *appliers) run(life engine.Lifecycle) error {
	for _, source := range slices.Sorted(maps.Keys(a.lanes)) {
		l := a.lanes[source]
		if err := a.end(l.Retry(life, "check the mapping", l.check)); err != nil || life.Draining() {
			return err
		}
	}
	pulling := task.NewGroup(life.Work, 0)
	a.working = task.NewGroup(life.Work, 0)
	beside, end := context.WithCancel(life.Work)
	defer end()
	for range a.Pulls {
		pulling.Go("pull", func(work context.Context) error { return a.pull(life.Within(work)) })
	}
	pulling.Go("settle", func(work context.Context) error { return a.assertDue(life.Within(work)) })
	pulling.Go("look for promises", func(work context.Context) error { return a.heedPromises(life.Within(work)) })
	pulling.Go("look for new tables", func(work context.Context) error { return a.end(a.meetStrangers(life.Within(work))) })
	for _, source := range slices.Sorted(maps.Keys(a.lanes)) {
		a.begin(life, a.lanes[source])
	}
	side := task.NewGroup(beside, 0)
	side.Go("watch the cluster", a.watchCluster)
	side.Go("watch the dead-letter topic", a.watchDeadLetter)
	side.Go("extend", func(ctx context.Context) error { return a.extend(ctx) })
	side.Go("acknowledge", func(ctx context.Context) error {
		for task.Sleep(ctx, a.Timing.Commit) == nil {
			// A stop does not interrupt a settle that has begun.
			if err := a.settle(life); err != nil {
				return a.end(err)
			}
		}
		return nil
	})
	err := pulling.Wait()
	a.pulled.Store(true)
	a.wakeAll()
	err = cmp.Or(err, a.working.Wait())
	end()
	err = cmp.Or(err, side.Wait())
	if err == nil {
		err = a.end(a.settle(life.Finishing()))
	}
	return err
}

// begin starts the tasks of a table's lane.
func (a *appliers) begin(life engine.Lifecycle, l *lane) {
	a.working.Go("apply "+l.Source, func(work context.Context) error {
		err := l.run(life.Within(work))
		if err != nil {
			a.halt(err) // no other task would apply the table's messages
		}
		return err
	})
}

// lane returns the lane of a table; nil if this process does not apply it.
func (a *appliers) lane(source string) *lane {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lanes[source]
}

func (a *appliers) wakeAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range a.lanes {
		l.wake.Signal()
	}
}

// wakeFed wakes the lanes to which sort has added messages.
func (a *appliers) wakeFed() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, source := range slices.Sorted(maps.Keys(a.lanes)) { // in order, so that simulations repeat
		if l := a.lanes[source]; l.fed.Swap(false) {
			l.wake.Signal()
		}
	}
}

// end ends the process after an error, cleanly if that is safe. No task takes over the messages of
// a task that failed, so every error must end all tasks.
func (a *appliers) end(err error) error {
	if err == nil {
		return nil
	}
	a.halt(err) // wakes the tasks that wait for room
	if engine.Orderly(err) {
		return nil
	}
	return err
}

// pull pulls until a drain begins. It reserves room before each pull. A drain waits for a running
// pull. If a pull were interrupted, its messages would wait for their deadline, which uses up a
// delivery attempt.
func (a *appliers) pull(life engine.Lifecycle) error {
	decoder := &relay.Decoder{SkipOld: func(table string) bool {
		l := a.lane(table)
		return l != nil && l.newOnly
	}}
	for !life.Draining() {
		a.Retrier.Events.Tick()
		if a.room.Acquire(life.Drain, int64(a.Pull)) != nil {
			return nil
		}
		var got []relay.Delivery
		err := a.Retry(life, "pull", func(ctx context.Context) (err error) {
			got, err = a.Subscription.Pull(ctx, a.Pull)
			return err
		})
		if unused := a.Pull - len(got); unused > 0 {
			a.room.Release(int64(unused))
		}
		if err != nil && !life.Draining() {
			return a.end(err)
		}
		a.held.hold(got, task.Mono(life.Work))
		for _, d := range got {
			if err := a.sort(life, decoder, d); err != nil {
				return err
			}
		}
		a.wakeFed() // not for each message, because a lane sets a timer each time
		if len(got) == 0 && !life.Draining() {
			_ = task.Sleep(life.Drain, a.Timing.Poll)
		}
	}
	return nil
}

// sort waits for room for a message's data, and then adds the message to the lane of its table,
// which the caller must wake (wakeFed).
func (a *appliers) sort(life engine.Lifecycle, decoder *relay.Decoder, d relay.Delivery) error {
	c, err := decoder.Decode(d.Data)
	if err != nil {
		a.refuse(life.Work, d.ID, c.Table, err)
		return nil
	}
	m := &message{id: d.ID, data: d.Data, change: c, since: task.Mono(life.Work)}
	if a.Tracer != nil {
		m.link = d.Attributes[relay.TraceparentAttribute]
	}
	l := a.lane(c.Table)
	if l == nil {
		a.holdStranger(life, m)
		return nil
	}
	if l.keepsIDsOnly(m.since) {
		a.setAside(l, m)
		return nil
	}
	// This counts the data as received, and the images that are parsed from it.
	bytes := int64(2*len(d.Data) + 1024)
	if !a.data.TryAcquire(bytes) {
		a.wakeFed() // so that the messages that were sorted are applied, and their room becomes free
		if err := a.data.Acquire(life.Work, bytes); err != nil {
			return err
		}
	}
	m.bytes = bytes
	if l.add(m) {
		l.fed.Store(true)
	}
	return nil
}

// over passes a message to settle. It releases the message's data, because settle needs only the
// change's position.
func (a *appliers) over(m *message, noted bool) {
	a.free(m)
	m.noted = noted
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ready = append(a.ready, m)
}

// free releases the room that a message's data occupied.
func (a *appliers) free(m *message) {
	m.data, m.batch, m.next, m.exact = nil, nil, nil, nil
	m.change.Keys, m.change.New, m.change.Old = attribute.Item{}, attribute.Item{}, attribute.Item{}
	if m.bytes > 0 {
		a.data.Release(m.bytes)
	}
	if m.held > 0 {
		a.unsettled.room.Release(m.held)
	}
	m.bytes, m.held = 0, 0
}

// settle notes durable messages in the ledger, and acknowledges them only afterwards. In the other
// order, a crash could leave an acknowledged message that the ledger never counts as applied.
func (a *appliers) settle(life engine.Lifecycle) error {
	a.mu.Lock()
	ready := a.ready
	a.ready = nil
	a.mu.Unlock()
	if len(ready) == 0 {
		return nil
	}
	noted := map[string]map[checkpoint.Track]checkpoint.Runs{}
	ids := make([]string, len(ready))
	for i, m := range ready {
		ids[i] = m.id
		if !m.noted {
			continue
		}
		c := &m.change
		if noted[c.Table] == nil {
			noted[c.Table] = map[checkpoint.Track]checkpoint.Runs{}
		}
		track := checkpoint.Track{Generation: c.Generation, Label: c.Label, Shard: c.Shard}
		noted[c.Table][track] = append(noted[c.Table][track], checkpoint.Run{From: c.Number, To: c.Number, At: c.Time})
	}
	for _, source := range slices.Sorted(maps.Keys(noted)) {
		var applied []checkpoint.Applied
		for track, runs := range noted[source] { // NoteApplied sorts them
			applied = append(applied, checkpoint.Applied{Track: track, Runs: runs})
		}
		err := a.lane(source).Retry(life.Finishing(), "record what is applied", func(ctx context.Context) error {
			return a.Ledger.NoteApplied(ctx, source, applied)
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

// report reports which tables have made progress.
func (a *appliers) report(ready []*message) {
	tables := map[string]bool{}
	for _, d := range ready {
		tables[d.change.Table] = true
	}
	for _, source := range slices.Sorted(maps.Keys(tables)) {
		a.Retrier.Events.PageDone(source)
	}
}
