package apply

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Each table has a lane, in which its messages wait and are applied. So a paused or failing table
// does not delay other tables. After a message of a table fails, only this message is retried, and
// the table's other messages wait. If only this table fails, and for longer than asideAfter, the
// process keeps only the ids of its messages. It extends their deadlines, which uses up no delivery
// attempts. Once the table recovers, it nacks the messages, so that Pub/Sub delivers them again. If
// the whole target is unavailable, messages stay in their lanes. Pulling stops when the lanes are
// full.

// asideAfter is how long a table may fail before the process keeps only the ids of its messages.
const asideAfter = 10 * time.Second

// message is a delivery that is being applied.
type message struct {
	id     string
	data   []byte // for the dead letter
	change relay.Change
	bytes  int64         // reserved from appliers.data
	since  time.Duration // time of the pull, on the monotonic clock
	noted  bool          // must be noted in the ledger as applied, once it is durable
	link   string        // traceparent of its publication; "" if unknown, or if spans are off

	item   string     // the item, if its messages are applied in order; otherwise empty
	queued []*message // messages of the item that arrived after this one

	batch *transform.Batch // the batch to write; nil if not built yet
	next  *transform.Batch // the batch of the second application; nil if there is none
	exact *transform.Batch // the second application, which is due now
	held  int64            // bytes reserved for the second application
}

// outcome is the outcome of one attempt to apply a message.
type outcome uint8

// The outcomes.
const (
	undone   outcome = iota
	applied          // durable
	dropped          // not applied, and not recorded
	doubtful         // the ledger does not know its change yet
	behind           // waits because another message of its table fails
)

func (o outcome) String() string {
	return [...]string{"not applied", "applied", "dropped", "waits for the ledger", "waits for another message"}[o]
}

// lane holds the messages of one table.
type lane struct {
	*topicTable
	a    *appliers
	wake task.Wakeup
	fed  atomic.Bool // sort has added messages, and must wake the lane

	mu      sync.Mutex
	waiting []*message
	first   map[string]*message // by item: of the messages that are applied in order, the one to apply now
	due     []*message          // messages with a second application that is due
	running int                 // number of running tasks for messages from waiting
	again   int                 // number of running tasks for messages from due
	probe   *message            // the failing message, which is retried; nil if none fails
	failing time.Duration       // since when that message fails
	own     bool                // only this table fails, because the ledger still answers
	doubts  []*message          // messages with changes that the ledger does not know yet
	looking bool                // a task is judging doubts
	looked  time.Duration       // when doubts were last judged
	absent  []string            // ids of messages that were set aside
}

func (a *appliers) newLane(spec engine.Spec) *lane {
	return &lane{topicTable: newTable(a.Options, spec), a: a, first: map[string]*message{}, looked: -time.Hour}
}

// put appends messages to the queues of the lane, and wakes it.
func (l *lane) put(all ...*message) {
	if l.add(all...) {
		l.wake.Signal()
	}
}

// add appends messages to the queues of the lane, and reports whether it must be woken. If all
// slots are taken, the running tasks take the messages (next).
func (l *lane) add(all ...*message) (wake bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	wake = l.probe != nil
	for _, m := range all {
		queue, running := &l.waiting, l.running
		if m.exact != nil {
			queue, running = &l.due, l.again
		} else if l.follows(m) {
			continue
		}
		*queue = append(*queue, m)
		wake = wake || running < l.slots()
	}
	return wake
}

// follows queues a message behind an earlier one of its item, and reports whether there is one. With
// a version attribute, a removal ranks above an image with the same number. So if an item is created
// again with that number, its image must be written after the removal (H87). Without a version
// attribute, an item's messages may be applied in any order.
func (l *lane) follows(m *message) bool {
	if l.mapping.VersionAttribute() == "" {
		return false
	}
	if m.item == "" {
		m.item, _ = relay.Subject(m.change.Table, m.change.Keys)
	}
	switch first := l.first[m.item]; first {
	case nil:
		l.first[m.item] = m
	case m: // it was put back
	default:
		first.queued = append(first.queued, m)
		return true
	}
	return false
}

// leave removes a message from the order of its item, and returns the item's later messages.
func (l *lane) leave(m *message) []*message {
	l.mu.Lock()
	defer l.mu.Unlock()
	queued := m.queued
	if l.first[m.item] == m {
		delete(l.first, m.item)
	}
	m.item, m.queued = "", nil
	return queued
}

// slots returns the maximum number of tasks for each queue. With shared slots, the two queues might
// block each other.
func (l *lane) slots() int { return l.a.Pulls * l.a.Pull }

// keepsIDsOnly reports whether only this table fails, and for so long that the process keeps only
// the ids of its messages.
func (l *lane) keepsIDsOnly(now time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shedding(now)
}

func (l *lane) shedding(now time.Duration) bool {
	return l.probe != nil && l.own && now-l.failing >= asideAfter
}

// run applies messages. It returns after a drain has begun and no message is left to apply.
func (l *lane) run(life engine.Lifecycle) error {
	crew := task.NewCrew(life.Work)
	writer, end := l.o.Writer.Within(crew.Context())
	defer end()
	l.writer = writer
	over := time.Duration(-1) // when run saw the drain
	for !l.a.pulled.Load() || !l.idle(life.Work, over) {
		now := task.Mono(life.Work)
		ready, look, shed := l.take(now)
		for _, m := range shed {
			l.a.setAside(l, m)
		}
		for _, m := range ready {
			crew.Go("apply", func(work context.Context) error {
				return l.a.end(l.applyAll(life.Within(work), m))
			})
		}
		if look {
			crew.Go("look", func(work context.Context) error { return l.a.end(l.judgeDoubts(life.Within(work))) })
		}
		if l.a.pulled.Load() && over < 0 {
			over = now
		}
		if l.wake.Wait(crew.Context(), l.rest()) != nil {
			break
		}
	}
	return crew.Wait()
}

// rest returns how long the lane may wait for a signal.
func (l *lane) rest() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.doubts) > 0 || l.probe != nil {
		return l.a.Timing.Commit
	}
	return time.Minute
}

// idle reports whether a lane has nothing left to do during a drain. Messages in doubt delay the
// end for a few seconds at most.
func (l *lane) idle(ctx context.Context, over time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	waits := len(l.waiting)+len(l.due) > 0 && l.probe == nil || len(l.doubts) > 0 && (over < 0 || task.Mono(ctx)-over < 3*l.a.Timing.Commit)
	return l.running+l.again == 0 && !waits
}

// take returns three results. `ready` are the messages to apply now. `look` reports whether the
// messages in doubt must be judged. `shed` are the messages to set aside, of which only the ids are
// kept.
func (l *lane) take(now time.Duration) (ready []*message, look bool, shed []*message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.shedding(now):
		shed = slices.Concat(l.waiting, l.due, l.doubts, l.probe.queued)
		l.waiting, l.due, l.doubts, l.probe.queued = nil, nil, nil, nil
	case l.probe == nil:
		first, second := front(&l.waiting, l.slots()-l.running), front(&l.due, l.slots()-l.again)
		l.running, l.again = l.running+len(first), l.again+len(second)
		ready = append(first, second...)
	}
	if len(l.doubts) > 0 && !l.looking && now-l.looked >= l.a.Timing.Commit {
		l.looking, look = true, true
	}
	return ready, look, shed
}

// front removes at most `most` messages from the front of a queue, and returns them.
func front(queue *[]*message, most int) []*message {
	n := min(len(*queue), most)
	out := slices.Clone((*queue)[:n])
	clear((*queue)[:n])
	*queue = (*queue)[n:]
	return out
}

// applyAll applies a message, and then other messages of the same queue while there are any. So a
// busy lane starts no task for each message.
func (l *lane) applyAll(life engine.Lifecycle, m *message) error {
	again := m.exact != nil
	for m != nil {
		if err := l.apply(life, m); err != nil {
			l.ended(again)
			return err
		}
		m = l.next(again)
	}
	return nil
}

// next removes a message from the front of a queue, for a task that has applied one of that queue.
// If there is none to apply now, the task has ended, and next returns nil.
func (l *lane) next(again bool) *message {
	l.mu.Lock()
	queue := &l.waiting
	if again {
		queue = &l.due
	}
	if l.probe == nil && len(*queue) > 0 {
		defer l.mu.Unlock()
		m := (*queue)[0]
		(*queue)[0], *queue = nil, (*queue)[1:]
		return m
	}
	l.mu.Unlock()
	l.ended(again)
	return nil
}

// ended records that a task for messages of a queue has ended.
func (l *lane) ended(again bool) {
	l.mu.Lock()
	if again {
		l.again--
	} else {
		l.running--
	}
	l.mu.Unlock()
	l.wake.Signal()
}

// apply applies a message. If the message fails first in its table, it is retried until it
// succeeds. If another message of the table already fails, this message is put back.
func (l *lane) apply(life engine.Lifecycle, m *message) error {
	out := undone
	life, span := l.trace(life, m)
	err := l.Retry(life.Finishing(), "write", func(ctx context.Context) (err error) {
		if out, err = l.attempt(ctx, m); err != nil && engine.Repeatable(err) && !l.fails(ctx, m, err) {
			out, err = behind, nil
		}
		return err
	})
	span.End(engine.SpanFacts{Outcome: out.String()}, err)
	l.clearFailure(m)
	if engine.Fatal(err) {
		l.a.halt(err) // wakes the tasks that wait for room
	}
	if err != nil {
		return err
	}
	switch {
	case out == behind:
		m.batch, m.next = nil, nil
		l.put(m)
	case out == doubtful:
		l.doubt(m)
	case out == applied && m.exact != nil && m.held == 0:
		l.put(l.leave(m)...)
		l.a.await(life, l, m)
	default:
		l.put(l.leave(m)...)
		l.a.over(m, out == applied)
		l.giveBack(life.Work)
	}
	return nil
}

// trace begins the span of an attempt to apply a message for the first time.
func (l *lane) trace(life engine.Lifecycle, m *message) (engine.Lifecycle, engine.Span) {
	if l.o.Tracer == nil || m.exact != nil {
		return life, engine.Span{}
	}
	ctx, span := engine.Trace(life.Work, l.o.Tracer, engine.SpanApply, 0, engine.SpanFacts{Table: l.Source, Shard: m.change.Shard, Link: m.link})
	return life.Within(ctx), span
}

// fails records that a message failed, and reports whether this message must be retried.
func (l *lane) fails(ctx context.Context, m *message, err error) bool {
	var failed *writeError
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.probe == nil {
		l.probe, l.failing, l.own = m, task.Mono(ctx), false
	}
	switch {
	case engine.IsAny(err, errNotBegun, engine.ErrHalted):
		l.own = true
	case errors.As(err, &failed):
		l.own = l.own || failed.proved > l.failing
	default:
		l.own = false
	}
	return l.probe == m
}

// clearFailure records that the failing message no longer fails.
func (l *lane) clearFailure(m *message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.probe == m {
		l.probe = nil
		l.wake.Signal() // messages that waited for it can be applied
	}
}

// giveBack nacks the messages that were set aside. It is called when the table has recovered.
func (l *lane) giveBack(ctx context.Context) {
	l.mu.Lock()
	var ids []string
	if l.probe == nil && len(l.doubts) == 0 {
		ids, l.absent = l.absent, nil
	}
	l.mu.Unlock()
	l.a.giveBack(ctx, ids)
}

// doubt makes a message wait until the ledger knows its change.
func (l *lane) doubt(m *message) {
	m.batch, m.next = nil, nil
	l.mu.Lock()
	l.doubts = append(l.doubts, m)
	l.mu.Unlock()
	l.wake.Signal()
}

// judgeDoubts reads the ledger again and judges the messages in doubt by it.
func (l *lane) judgeDoubts(life engine.Lifecycle) error {
	c, err := l.look(life.Work)
	l.mu.Lock()
	all := l.doubts
	l.doubts, l.looking, l.looked = nil, false, task.Mono(life.Work)
	l.mu.Unlock()
	if err != nil {
		if life.Work.Err() != nil || !engine.Repeatable(err) {
			return err
		}
		l.put(all...) // these messages fail like the table's other messages
		return nil
	}
	now, bytes := task.Mono(life.Work), int64(0)
	var refused []refusal
	var still []*message
	for _, m := range all {
		v, d := l.judge(life.Work, c, m)
		if d.ofRecord {
			l.forget(c)
		}
		switch {
		case v != later:
			l.put(m)
		case d.sure && now-m.since >= doubtFor:
			refused = append(refused, refusal{m, d.why})
		case now-m.since >= asideAfter && (len(still) >= max(1, l.a.Held/4) || bytes+m.bytes > dataBytes/4):
			l.a.setAside(l, m) // messages in doubt must not take the memory that other messages need
		default:
			still, bytes = append(still, m), bytes+m.bytes
		}
	}
	l.mu.Lock()
	l.doubts = append(still, l.doubts...)
	l.mu.Unlock()
	for _, r := range refused {
		l.put(l.leave(r.message)...)
	}
	l.a.reject(life, refused)
	l.giveBack(life.Work)
	return nil
}
