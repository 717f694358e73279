package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// fleet is a process that applies many tables of one topic, and its subscription. The subscription
// counts the delivery attempts of each message like Pub/Sub does: a nack or a passed deadline uses
// up one.
type fleet struct {
	*testing.T
	Options
	ctx      context.Context
	messages []*counted
	answer   func(table string) error // the target's answer
	dead     []relay.Message
	store    *checkpointtest.Memory
	// pullTakes is how long a pull lasts after it has found something.
	pullTakes time.Duration
	later     []func() // each runs at a pull
}

type counted struct {
	table    string
	data     []byte
	until    time.Duration // not delivered again before
	attempts int
	first    time.Duration // the first attempt
	acked    time.Duration // 0: not
}

const fleetDeadline = 10 * time.Second

// playFleet runs the script with a process that applies several tables: T0, T1 and so on.
func playFleet(t *testing.T, tables int, script func(f *fleet)) {
	t.Helper()
	err := virtual.NewWorld(1, enginetest.ListingsBegin, false).Run(48*time.Hour, func(ctx context.Context) {
		f := &fleet{T: t, ctx: ctx, store: &checkpointtest.Memory{}}
		ledger, err := checkpoint.Open(ctx, f.store, "fleet", checkpoint.Options{Worker: "w", ID: "l"})
		f.must(err)
		f.Options = Options{Ledger: ledger, Subscription: f, Writer: sink.NewWriter(sink.Options{Table: f, InFlight: 64, Timeout: 30 * time.Second}), DeadTopic: f}
		var names []string
		for i := range tables {
			names = append(names, fmt.Sprint("T", i))
		}
		f.Tables = enginetest.Specs(t, names...)
		for _, name := range names {
			f.begin(name)
		}
		script(f)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (f *fleet) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// begin has the relay follow a table with one shard, whose first million changes are published.
func (f *fleet) begin(table string) {
	f.Helper()
	_, err := f.Ledger.UpdateTable(f.ctx, table, func(s *checkpoint.TableState) error {
		s.Generation, s.Apply, s.Label = 7, checkpoint.Topic, "L"
		return nil
	})
	f.must(err)
	f.must(f.Ledger.CreateShard(f.ctx, checkpoint.Shard{Source: table, Label: "L", ID: "s", State: checkpoint.Waiting, Hop: cdc.RootHop, Generation: 7,
		Position: cdc.SequenceOf(1_000_000), Applied: 1_000_000, FirstRead: task.Now(f.ctx)}))
	_, err = f.Ledger.UpdateTarget(f.ctx, strings.ToLower(table), func(t *checkpoint.Target) error { t.Fence = 7; return nil })
	f.must(err)
}

// publish adds n messages of a table to the subscription.
func (f *fleet) publish(table string, first, n int, change ...func(c *relay.Change)) {
	f.Helper()
	for i := first; i < first+n; i++ {
		keys := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String(fmt.Sprint(i))}})
		c := relay.Change{Origin: relay.Origin{Ledger: "l", Table: table, StreamARN: "arn", Label: "L", Shard: "s", Generation: 7, Hop: cdc.RootHop}, Number: uint64(i),
			Change: cdc.Change{Event: cdc.Insert, Sequence: cdc.SequenceOf(uint64(i)), Time: task.Now(f.ctx), Keys: keys, New: keys}, CellTime: task.Now(f.ctx)}
		for _, edit := range change {
			edit(&c)
		}
		m, _, err := relay.Encode(c)
		f.must(err)
		f.messages = append(f.messages, &counted{table: c.Table, data: m.Data})
	}
}

// applies runs the process for a time.
func (f *fleet) applies(d time.Duration) {
	f.Helper()
	ctx, cancel := task.WithTimeout(f.ctx, d)
	defer cancel()
	f.must(Run(ctx, f.Options))
}

func (f *fleet) Pull(ctx context.Context, most int) ([]relay.Delivery, error) {
	if err := task.Sleep(ctx, 50*time.Millisecond); err != nil {
		return nil, err
	}
	for _, do := range f.later {
		do()
	}
	out := f.given(ctx, most)
	if len(out) == 0 {
		return nil, task.Sleep(ctx, 5*time.Second)
	}
	return out, task.Sleep(ctx, f.pullTakes)
}

// after runs a function at the first pull after a time.
func (f *fleet) after(at time.Duration, do func()) {
	f.later = append(f.later, func() {
		if do != nil && task.Mono(f.ctx) >= at {
			do()
			do = nil
		}
	})
}

func (f *fleet) given(ctx context.Context, most int) (out []relay.Delivery) {
	for i, m := range f.messages {
		if m.acked == 0 && m.until <= task.Mono(ctx) && len(out) < most {
			if m.attempts == 0 {
				m.first = task.Mono(ctx)
			}
			m.until, m.attempts = task.Mono(ctx)+fleetDeadline, m.attempts+1
			out = append(out, relay.Delivery{ID: fmt.Sprint(i), Data: m.data})
		}
	}
	return out
}

func (f *fleet) named(id string) *counted {
	var i int
	_, err := fmt.Sscan(id, &i)
	f.must(err)
	return f.messages[i]
}

func (f *fleet) Ack(ctx context.Context, ids []string) error {
	for _, id := range ids {
		f.named(id).acked = task.Mono(ctx)
	}
	return nil
}

func (f *fleet) Extend(ctx context.Context, ids []string, by time.Duration) error {
	for _, id := range ids {
		f.named(id).until = task.Mono(ctx) + by
	}
	return nil
}

func (f *fleet) Publish(_ context.Context, messages []relay.Message) ([]error, int) {
	f.dead = append(f.dead, messages...)
	return make([]error, len(messages)), 0
}

func (f *fleet) Apply(ctx context.Context, r *sink.Request) (bool, error) {
	if f.answer != nil {
		if err := f.answer(r.Table); err != nil {
			return false, err
		}
	}
	return true, task.Sleep(ctx, 5*time.Millisecond)
}

// of returns how many messages of a table are not acknowledged, and the most attempts that one has
// used.
func (f *fleet) of(table string) (open, attempts int) {
	for _, m := range f.messages {
		if m.table != table {
			continue
		}
		if m.acked == 0 {
			open++
		}
		attempts = max(attempts, m.attempts)
	}
	return open, attempts
}

var errDenied = &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Denied, Code: "PermissionDenied"}

// A table that is paused for an hour, and one whose target denies writes, delay only their own
// messages. That holds even if these come first and are far more than a process may hold. Each uses
// up one attempt, and another one when it is given back, however long that takes. Then all are
// applied.
func TestAPausedTableHoldsNoOtherUp(t *testing.T) {
	playFleet(t, 100, func(f *fleet) {
		f.Held, f.Options.Pull = 200, 20
		_, err := f.Ledger.PauseTable(f.ctx, "T0", "its target is resized", task.Now(f.ctx))
		f.must(err)
		stuck := true
		f.answer = func(table string) error {
			if stuck && table == "t1" {
				return errDenied
			}
			return nil
		}
		f.publish("T0", 1, 300)
		f.publish("T1", 1, 300)
		for i := 2; i < 100; i++ {
			f.publish(fmt.Sprint("T", i), 1, 2)
		}
		f.applies(time.Hour)
		for i := 2; i < 100; i++ {
			if open, attempts := f.of(fmt.Sprint("T", i)); open > 0 || attempts != 1 {
				t.Fatalf("of table T%d %d messages wait, after %d attempts", i, open, attempts)
			}
		}
		last := slices.MaxFunc(f.messages, func(a, b *counted) int { return int(a.acked - b.acked) })
		if last.acked > time.Minute {
			t.Errorf("others waited for %s", last.acked)
		}
		for _, table := range []string{"T0", "T1"} {
			if open, attempts := f.of(table); open != 300 || attempts != 1 {
				t.Errorf("of table %s %d messages are open, after %d attempts", table, open, attempts)
			}
		}
		stuck = false
		_, err = f.Ledger.ResumeTable(f.ctx, "T0")
		f.must(err)
		f.applies(time.Hour)
		for _, table := range []string{"T0", "T1"} {
			// One is for the stop in between.
			if open, attempts := f.of(table); open != 0 || attempts > 3 {
				t.Errorf("afterwards of table %s %d messages are open, after %d attempts", table, open, attempts)
			}
		}
		if len(f.dead) > 0 {
			t.Errorf("%d messages are refused", len(f.dead))
		}
	})
}

// While the process runs, messages that were set aside come again as soon as their table recovers.
func TestWhatIsSetAsideComesAgain(t *testing.T) {
	playFleet(t, 2, func(f *fleet) {
		f.Held = 200
		until := 30 * time.Minute
		f.answer = func(table string) error {
			if table == "t0" && task.Mono(f.ctx) < until {
				return errDenied
			}
			return nil
		}
		f.publish("T0", 1, 500)
		f.applies(40 * time.Minute)
		if open, attempts := f.of("T0"); open > 0 || attempts != 2 {
			t.Errorf("%d messages are open, after %d attempts", open, attempts)
		}
	})
}

// While the whole target is unavailable, nothing is set aside or given back. Pulling stops, and
// every message is applied afterwards at its first attempt.
func TestATargetThatIsAwayUsesUpNoAttempts(t *testing.T) {
	playFleet(t, 3, func(f *fleet) {
		f.Held, f.Options.Pull = 100, 20
		away := func() error {
			if now := task.Mono(f.ctx); now > time.Second && now < 2*time.Hour {
				return &sink.Error{Op: "ReadRows", Reason: sink.Unknown, Code: "Unavailable"}
			}
			return nil
		}
		f.store.OnRead = func(context.Context, string) error { return away() }
		f.answer = func(string) error { return away() }
		f.after(time.Minute, func() { f.publish("T0", 1, 300); f.publish("T1", 1, 1) })
		f.applies(3 * time.Hour)
		pulled := 0
		for _, m := range f.messages {
			if m.attempts > 0 && m.first < 2*time.Hour {
				pulled++
			}
		}
		for _, table := range []string{"T0", "T1"} {
			if open, attempts := f.of(table); open > 0 || attempts != 1 {
				t.Errorf("of table %s %d messages are open, after %d attempts", table, open, attempts)
			}
		}
		if pulled == 0 || pulled > 100 {
			t.Errorf("%d messages were pulled meanwhile", pulled)
		}
	})
}

// A process that is asked to stop waits for a running pull. It applies the pulled messages, so that
// they do not wait for their deadline and use up an attempt.
func TestAStopUsesUpNoAttempts(t *testing.T) {
	playFleet(t, 1, func(f *fleet) {
		f.pullTakes = 3 * time.Second
		f.publish("T0", 1, 50)
		f.applies(2 * time.Second)
		if open, attempts := f.of("T0"); open > 0 || attempts != 1 {
			t.Errorf("%d messages are open, after %d attempts", open, attempts)
		}
	})
}

// H132: a table that joins while appliers run loses no message. Its messages use up one attempt,
// when they are given back. They are held from their arrival until the table is found, which the
// ledger knows before its first message is published.
func TestH132_ATableThatJoinsLosesNoMessage(t *testing.T) {
	playFleet(t, 1, func(f *fleet) {
		f.Held = 200
		joins := 10 * time.Minute
		joined := ""
		f.Events.Joined = func(table string) { joined += table }
		f.Find = func(ctx context.Context, source string) (engine.Spec, bool, error) {
			if task.Mono(ctx) < joins {
				return engine.Spec{}, false, nil
			}
			return enginetest.Specs(t, source)[0], true, nil
		}
		f.after(time.Minute, func() { f.begin("New"); f.publish("New", 1, 500); f.publish("T0", 1, 5) })
		f.applies(20 * time.Minute)
		for table, want := range map[string]int{"New": 2, "T0": 1} {
			if open, attempts := f.of(table); open > 0 || attempts != want {
				t.Errorf("of table %s %d messages are open, after %d attempts", table, open, attempts)
			}
		}
		if joined != "New" || len(f.dead) > 0 {
			t.Errorf("%q joined, %d messages are refused", joined, len(f.dead))
		}
	})
}

// Messages of a table that the ledger knows and this process does not apply are held. Messages of a
// table that the ledger never gets to know are refused.
func TestMessagesOfTablesThatNobodyKnows(t *testing.T) {
	playFleet(t, 1, func(f *fleet) {
		f.begin("Elsewhere")
		f.publish("Elsewhere", 1, 5)
		f.publish("Nowhere", 1, 5)
		f.applies(20 * time.Minute)
		if open, attempts := f.of("Elsewhere"); open != 5 || attempts != 1 {
			t.Errorf("of a table of another process %d messages are open, after %d attempts", open, attempts)
		}
		if open, attempts := f.of("Nowhere"); open > 0 || attempts > 2 || len(f.dead) != 5 || f.dead[0].Attributes[relay.ReasonAttribute] != "the ledger has no such table" {
			t.Errorf("of an unknown table %d messages are open, after %d attempts; %d are refused", open, attempts, len(f.dead))
		}
	})
}

// A task that has applied a message applies others of the same queue, and ends when there is none
// or when a message of the table fails. A full lane is not woken for a message, and a lane is woken
// when its failing message no longer fails.
func TestTasksTakeTheNextMessages(t *testing.T) {
	playScene(t, func(s *scene) {
		_, l := s.process() // one slot for each queue
		woken := func() bool { return l.wake.Wait(s.ctx, time.Millisecond) == nil && task.Mono(s.ctx) == s.began }
		check := func(step string, wakes bool) {
			s.Helper()
			s.began = task.Mono(s.ctx)
			if woken() != wakes {
				t.Errorf("%s: woken is %t", step, !wakes)
			}
		}
		first, second, again := &message{id: "1"}, &message{id: "2"}, &message{id: "3", exact: &transform.Batch{}}
		l.put(first)
		check("a slot is free", true)
		if ready, _, _ := l.take(task.Mono(s.ctx)); named(ready) != "1" {
			t.Fatalf("takes %q", named(ready))
		}
		l.put(second)
		check("all slots are taken", false)
		l.put(again)
		check("the other queue has a slot", true)
		l.probe = first
		if m := l.next(false); m != nil || l.running != 0 {
			t.Errorf("while a message fails, a task goes on with %v", m)
		}
		check("a task has ended", true)
		l.clearFailure(first)
		check("no message fails", true)
		ready, _, _ := l.take(task.Mono(s.ctx))
		if named(ready) != "2 3" || l.next(false) != nil || l.next(true) != nil || l.running+l.again != 0 {
			t.Errorf("takes %q, %d and %d tasks run", named(ready), l.running, l.again)
		}
		l.running, l.waiting = 1, []*message{first, second}
		if m := l.next(false); m != first || l.running != 1 || named(l.waiting) != "2" {
			t.Errorf("the next is %v, %q wait", m, named(l.waiting))
		}
	})
}
