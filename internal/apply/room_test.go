package apply

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// An applied number counts only for its own shard, stream and generation.
func TestANumberIsAppliedOnItsOwnTrackOnly(t *testing.T) {
	track := checkpoint.Track{Generation: 7, Label: "L", Shard: "s"}
	for name, c := range map[string]struct {
		track checkpoint.Track
		want  Fate
	}{
		"its own":            {track, Applied},
		"another shard":      {checkpoint.Track{Generation: 7, Label: "L", Shard: "t"}, Missing},
		"another stream":     {checkpoint.Track{Generation: 7, Label: "K", Shard: "s"}, Missing},
		"another generation": {checkpoint.Track{Generation: 6, Label: "L", Shard: "s"}, Missing},
	} {
		of := Records{Merged: []checkpoint.Applied{{Track: c.track, Runs: checkpoint.Runs{{From: 1, To: 9}}}}}
		change := relay.Change{Origin: relay.Origin{Ledger: "l", Label: "L", Shard: "s", Generation: 7}, Number: 4}
		if got := of.appliedOr(Missing, change); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
	// A generation that not every shard has adopted is the table's all the same.
	of := Records{Table: checkpoint.TableState{Generation: 8, Adopted: 7}, Shards: []checkpoint.Shard{{Label: "L", ID: "s", Generation: 8, Applied: 9, Position: cdc.SequenceOf(9)}}}
	change := relay.Change{Origin: relay.Origin{Ledger: "l", Label: "L", Shard: "s", Generation: 8}, Number: 4, Change: cdc.Change{Sequence: cdc.SequenceOf(4)}}
	if got := FateOf(change, "l", of, time.Now()); got != Missing {
		t.Errorf("of a generation that is not adopted: %s", got)
	}
}

// The room of a message's data is free once the message is over, refused, or waits for its second
// application. Then it occupies the room of those that wait, until that is over too.
func TestTheRoomOfAMessageIsFreed(t *testing.T) {
	playScene(t, func(s *scene) {
		a, l := s.process()
		a.unsettled.room = task.NewLimit(1 << 20)
		full := func(limit *task.Limit, size int64) bool {
			ctx, cancel := task.WithTimeout(s.ctx, time.Second)
			defer cancel()
			if limit.Acquire(ctx, size) != nil {
				return true
			}
			limit.Release(size)
			return false
		}
		message := func() *message {
			m := &message{id: "m", bytes: 4096, exact: &transform.Batch{}, change: relay.Change{Change: cdc.Change{Keys: enginetest.Keyed("a"), New: enginetest.Keyed("a"), Old: enginetest.Keyed("a")}}}
			s.must(a.data.Acquire(s.ctx, m.bytes))
			return m
		}
		m := message()
		if !full(a.data, dataBytes) {
			t.Error("a message takes no room")
		}
		a.await(engine.Until(s.ctx), l, m)
		if full(a.data, dataBytes) || !full(a.unsettled.room, 1<<20) || m.held == 0 || m.exact == nil || m.bytes != 0 {
			t.Errorf("a message that waits: %+v", m)
		}
		a.over(m, true)
		if full(a.data, dataBytes) || full(a.unsettled.room, 1<<20) || m.held != 0 || m.exact != nil || m.change.Keys.Exists() || m.change.New.Exists() || m.change.Old.Exists() {
			t.Errorf("a message that is over: %+v", m)
		}
		if len(a.ready) != 1 || !a.ready[0].noted || a.ready[0].id != "m" {
			t.Errorf("%+v", a.ready)
		}
		drained, end := context.WithCancel(s.ctx)
		end()
		s.must(a.unsettled.room.Acquire(s.ctx, 1<<20))
		m = message()
		a.await(engine.Lifecycle{Drain: drained, Work: s.ctx}, l, m)
		if full(a.data, dataBytes) || m.held != 0 || len(a.unsettled.queue) != 1 {
			t.Errorf("a message that waits during a drain: %+v", m)
		}
	})
}

// A message that is set aside frees its data and its place, whether its id is kept or not, and
// whichever task sets it aside. Else the process would stop pulling in an outage.
func TestWhatIsSetAsideOccupiesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		full  bool // there is no room for another id
		aside func(s *scene, a *appliers, l *lane, m *message)
	}{
		"while the table fails":  {false, func(_ *scene, a *appliers, l *lane, m *message) { a.setAside(l, m) }},
		"without room for an id": {true, func(_ *scene, a *appliers, l *lane, m *message) { a.setAside(l, m) }},
		"in doubt for too long": {false, func(s *scene, _ *appliers, l *lane, m *message) {
			l.doubts, l.probe = []*message{m}, &message{} // else the id is given back at once
			s.must(l.judgeDoubts(engine.Until(s.ctx)))
		}},
		"of a table of others": {false, func(s *scene, a *appliers, _ *lane, m *message) {
			m.change.Table = "New"
			a.holdStranger(engine.Until(s.ctx), m)
		}},
	} {
		playScene(t, func(s *scene) {
			s.must(task.Sleep(s.ctx, time.Hour))
			a, l := s.process()
			if c.full {
				a.absent = maxAside
			}
			change := relay.Change{Origin: relay.Origin{Ledger: "l", Table: "Orders", Label: "L", Shard: "s", Generation: 7, MappingHash: "h"}, Number: 101}
			m := &message{id: "m", data: make([]byte, 9), bytes: dataBytes/4 + 1, change: change, since: task.Mono(s.ctx) - asideAfter}
			s.must(a.room.Acquire(s.ctx, 1))
			s.must(a.data.Acquire(s.ctx, m.bytes))
			c.aside(s, a, l, m)
			if !a.data.TryAcquire(dataBytes) || !a.room.TryAcquire(int64(a.Held)) {
				t.Errorf("%s: the message still occupies room", name)
			}
			if m.data != nil || m.bytes != 0 || m.change.New.Exists() || len(l.doubts) > 0 {
				t.Errorf("%s: the data is kept: %+v", name, m)
			}
			if last := a.held.due["m"]; a.absent != map[bool]int{false: 1, true: maxAside}[c.full] || last == (deadline{}) {
				t.Errorf("%s: %d ids are kept, deadline %+v", name, a.absent, last)
			}
		})
	}
}

// While one message of a table fails, others wait behind it. But an error that no retry can fix
// ends the process, whichever message has it.
func TestOnlyARepeatableErrorWaitsBehindAnother(t *testing.T) {
	playScene(t, func(s *scene) {
		a, l := s.process()
		halted := error(nil)
		a.halt = func(err error) { halted = err }
		l.probe, l.failing = &message{}, task.Mono(s.ctx)
		away := errors.New("away")
		s.store.OnRead = func(context.Context, string) error { return away }
		if err := l.apply(engine.Until(s.ctx), &message{id: "m"}); err != nil || halted != nil || len(l.waiting) != 1 {
			t.Errorf("the ledger is away: %v, %d wait", err, len(l.waiting))
		}
		s.store.OnRead = func(context.Context, string) error { return checkpoint.ErrLedgerExchanged }
		if err := l.apply(engine.Until(s.ctx), &message{id: "n"}); !engine.Fatal(err) || halted == nil || len(l.waiting) != 1 {
			t.Errorf("the ledger was exchanged: %v, %d wait", err, len(l.waiting))
		}
		s.store.OnRead = nil
	})
}

// A write that a cutover rejects is retried as one of a halted table, under a new proof.
func TestAFencedWriteIsOfAHaltedTable(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want error
	}{"a cutover": {sink.ErrFenced, engine.ErrHalted}, "the target": {&sink.Error{Op: "CheckAndMutateRow", Reason: sink.Unknown, Code: "Unavailable"}, nil}} {
		playScene(t, func(s *scene) {
			_, l := s.process()
			s.message(1, 7)
			s.answer = func(context.Context, *sink.Request) error { return c.err }
			deliveries, err := s.Pull(s.ctx, 1)
			s.must(err)
			change, err := relay.Decode(deliveries[0].Data)
			s.must(err)
			_, err = l.look(s.ctx) // the shards by which messages are judged
			s.must(err)
			_, err = l.attempt(s.ctx, &message{id: deliveries[0].ID, data: deliveries[0].Data, change: change})
			if err == nil || errors.Is(err, engine.ErrHalted) != (c.want != nil) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// A message of a target that a cutover has halted waits as one of a halted table.
func TestAHaltedTargetIsOfAHaltedTable(t *testing.T) {
	playScene(t, func(s *scene) {
		_, l := s.process()
		for _, target := range s.Tables[0].Mapping.Tables() {
			_, err := s.Ledger.UpdateTarget(s.ctx, target, func(t *checkpoint.Target) error { return t.HaltFor(1) })
			s.must(err)
		}
		if _, err := l.proved(s.ctx); !errors.Is(err, engine.ErrHalted) {
			t.Error(err)
		}
	})
}

// A table that this process does not apply is not added where it cannot be applied: without a way
// to find tables, where the configuration does not name it, or where its check fails.
func TestATableThatCannotBeAppliedDoesNotJoin(t *testing.T) {
	found := func(mode checkpoint.Mode) func(s *scene) {
		return func(s *scene) {
			_, err := s.Ledger.UpdateTable(s.ctx, "New", func(t *checkpoint.TableState) error { t.Generation, t.Label, t.Apply = 7, "L", mode; return nil })
			s.must(err)
		}
	}
	specs := func(ctx context.Context, source string) (engine.Spec, bool, error) {
		return enginetest.Specs(t, source)[0], true, nil
	}
	away := errors.New("away")
	for name, c := range map[string]struct {
		known  func(s *scene)
		find   func(ctx context.Context, source string) (engine.Spec, bool, error)
		err    error
		joined bool
	}{
		"it joins":          {found(checkpoint.Topic), specs, nil, true},
		"no way to find it": {found(checkpoint.Topic), nil, errStranger, false},
		"not configured":    {found(checkpoint.Topic), func(context.Context, string) (engine.Spec, bool, error) { return engine.Spec{}, false, nil }, errStranger, false},
		"no answer":         {found(checkpoint.Topic), func(context.Context, string) (engine.Spec, bool, error) { return engine.Spec{}, false, away }, away, false},
		"of another mode":   {found(checkpoint.Direct), specs, checkpoint.ErrMode, false},
		"not known":         {func(*scene) {}, specs, nil, false},
	} {
		playScene(t, func(s *scene) {
			c.known(s)
			a, _ := s.process()
			a.working, a.Find = task.NewGroup(s.ctx, 0), c.find
			a.strangers["New"] = &stranger{ids: []string{"m"}}
			joined := 0
			a.Retrier.Events.Joined = func(string) { joined++ }
			drained, end := context.WithCancel(s.ctx)
			a.pulled.Store(true)
			err := a.meetTable(engine.Lifecycle{Drain: drained, Work: s.ctx}, "New")
			end()
			if (err != nil) != (c.err != nil) || c.err != nil && !errors.Is(err, c.err) || (a.lanes["New"] != nil) != c.joined || (joined == 1) != c.joined || (a.strangers["New"] == nil) != c.joined {
				t.Errorf("%s: %v, joined %d, %v", name, err, joined, a.strangers["New"])
			}
			s.must(a.working.Wait())
		})
	}
}

// During a drain, messages in doubt have a few seconds, from the drain on, until the relay notes
// them.
func TestADrainWaitsAMomentForMessagesInDoubt(t *testing.T) {
	for after, applied := range map[time.Duration]bool{time.Second: true, 10 * time.Second: false} {
		playFleet(t, 1, func(f *fleet) {
			f.publish("T0", 1_000_001, 1)
			g := task.NewGroup(f.ctx, 0)
			g.Go("relay", func(ctx context.Context) error {
				err := task.Sleep(ctx, time.Minute+after)
				f.publishedTo("T0", 1_000_001)
				return err
			})
			f.applies(time.Minute)
			if open, _ := f.of("T0"); (open == 0) != applied {
				t.Errorf("noted %s after the drain began: %d messages are open", after, open)
			}
			f.must(g.Wait())
		})
	}
}

// A fatal error of the search for new tables ends the process. Another error is retried.
func TestAFatalErrorOfASearchEndsTheProcess(t *testing.T) {
	for _, of := range []error{checkpoint.ErrForeignPipeline, errors.New("away")} {
		playScene(t, func(s *scene) {
			s.Find = func(context.Context, string) (engine.Spec, bool, error) { return engine.Spec{}, false, of }
			_, err := s.Ledger.UpdateTable(s.ctx, "New", func(t *checkpoint.TableState) error { t.Generation, t.Apply = 7, checkpoint.Topic; return nil })
			s.must(err)
			s.send(2, func(c *relay.Change) { c.Table = "New" })
			if err := s.ends(10 * time.Minute); errors.Is(err, of) != engine.Fatal(of) || engine.Fatal(of) != (s.took() < 2*time.Minute) {
				t.Errorf("%v: after %s %v", of, s.took(), err)
			}
		})
	}
}
