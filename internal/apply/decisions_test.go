package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// process returns the process of a scene without its tasks, and the lane of table Orders.
func (s *scene) process() (*appliers, *lane) {
	o := s.Options
	o.Timing, o.Events = o.Timing.OrDefault(o.Ledger.Lease()), o.Events.OrSilent()
	o = o.orDefault(false)
	o.Register = fence.NewRegister(o.Ledger)
	a := &appliers{Options: &o, Retrier: &engine.Retrier{Events: o.Events}, halt: func(error) {}, room: task.NewLimit(int64(o.Held)), data: task.NewLimit(dataBytes),
		held: deadlines{due: map[string]deadline{}}, lanes: map[string]*lane{}, strangers: map[string]*stranger{}}
	l := a.newLane(o.Tables[0])
	a.lanes["Orders"] = l
	return a, l
}

// A process keeps a bounded number of message ids. Each id that it gives back makes room for
// another. A message without room is extended once.
func TestIdsThatAreKeptAreBounded(t *testing.T) {
	playScene(t, func(s *scene) {
		a, _ := s.process()
		kept := 0
		for i := range maxAside + 2 {
			if a.keepAside(fmt.Sprint("m", i)) {
				kept++
			}
		}
		if kept != maxAside {
			t.Errorf("%d ids are kept", kept)
		}
		a.giveBack(s.ctx, []string{"m0", "m1", "m2"})
		if len(s.failed) > 0 {
			t.Errorf("failures are reported: %q", s.failed)
		}
		if s.told[0] != "give back m0 m1 m2" || a.held.due["m1"] != (deadline{}) {
			t.Errorf("%q, still held are %+v", s.told, a.held.due["m1"])
		}
		for i, want := range []bool{true, true, true, false} {
			if got := a.keepAside(fmt.Sprint("n", i)); got != want {
				t.Errorf("id %d after three were given back is kept: %t", i, got)
			}
		}
		_, aside := a.held.take(0)
		if again, _ := a.held.take(asideEach); len(aside) != maxAside+3 || len(again) > 0 || len(a.held.due) != maxAside {
			t.Errorf("%d are extended, and %d kept", len(aside), len(a.held.due))
		}
		told := len(s.told)
		if a.giveBack(s.ctx, nil); len(s.told) != told {
			t.Errorf("of nothing, %q", s.told[told:])
		}
	})
}

// A failure is the table's own if the ledger has proved the right to write since it began, or says
// that the table waits. It begins with the first message that fails, and only this one is retried.
func TestWhoseTroubleItIs(t *testing.T) {
	away, denied := &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Unknown}, &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Denied}
	for name, c := range map[string]struct {
		proved time.Duration // before or after the failure began
		before bool          // the failure already counted as the table's own
		err    error
		own    bool
	}{
		"proved before it began":            {-time.Second, false, denied, false},
		"proved in the moment it began":     {0, false, denied, false},
		"proved afterwards":                 {time.Second, false, denied, true},
		"proved afterwards, and no answer":  {time.Second, false, away, true},
		"proved before, but its own":        {-time.Second, true, denied, true},
		"not begun":                         {-time.Second, false, errNotBegun, true},
		"halted":                            {-time.Second, false, fmt.Errorf("proof: %w", engine.ErrHalted), true},
		"the ledger does not answer by now": {time.Second, true, errors.New("away"), false},
	} {
		playScene(t, func(s *scene) {
			s.must(task.Sleep(s.ctx, time.Hour))
			_, l := s.process()
			first, second, began := &message{id: "first"}, &message{id: "second"}, task.Mono(s.ctx)
			if !l.fails(s.ctx, first, errors.New("away")) || l.own || l.failing != began {
				t.Errorf("the first failure: its own %t, since %s", l.own, l.failing)
			}
			s.must(task.Sleep(s.ctx, time.Minute))
			l.own = c.before
			err := c.err
			if _, target := errors.AsType[*sink.Error](err); target {
				err = &writeError{err, began + c.proved}
			}
			if l.fails(s.ctx, second, err) || !l.fails(s.ctx, first, err) || l.failing != began || l.own != c.own {
				t.Errorf("%s: its own %t, since %s", name, l.own, l.failing)
			}
			for after, want := range map[time.Duration]bool{asideAfter - 1: false, asideAfter: c.own} {
				if l.keepsIDsOnly(began+after) != want {
					t.Errorf("%s: after %s it keeps only ids: %t", name, after, !want)
				}
			}
			if l.clearFailure(second); l.probe != first {
				t.Errorf("%s: another message got on, and the table does", name)
			}
			if l.clearFailure(first); l.keepsIDsOnly(began + time.Hour) {
				t.Errorf("%s: it keeps only ids although it has recovered", name)
			}
		})
	}
}

// The remaining work of a draining process: all messages that wait for a write, unless the table
// fails, and for a few seconds the messages in doubt.
func TestWhenALaneIsIdle(t *testing.T) {
	playScene(t, func(s *scene) {
		s.must(task.Sleep(s.ctx, time.Hour))
		a, _ := s.process()
		now, one := task.Mono(s.ctx), []*message{{}}
		doubt := 3 * a.Timing.Commit
		for name, c := range map[string]struct {
			lane *lane
			over time.Duration
			idle bool
		}{
			"nothing":                         {&lane{}, -1, true},
			"one waits":                       {&lane{waiting: one}, now, false},
			"one is due":                      {&lane{due: one}, now, false},
			"one waits, and the table fails":  {&lane{waiting: one, due: one, probe: one[0]}, now, true},
			"one is written":                  {&lane{running: 1}, now - time.Hour, false},
			"one is written again":            {&lane{again: 1}, now - time.Hour, false},
			"one is tried again":              {&lane{running: 1, probe: one[0]}, now, false},
			"one is in doubt, before a drain": {&lane{doubts: one}, -1, false},
			"one is in doubt":                 {&lane{doubts: one}, now - doubt + 1, false},
			"one was in doubt for long":       {&lane{doubts: one}, now - doubt, true},
		} {
			c.lane.a = a
			if c.lane.idle(s.ctx, c.over) != c.idle {
				t.Errorf("%s: idle %t", name, !c.idle)
			}
		}
	})
}

// Messages that were set aside are given back once the table recovers: no message fails and none is
// in doubt. Otherwise the table would immediately set them aside again.
func TestWhenWhatIsSetAsideIsGivenBack(t *testing.T) {
	one := []*message{{}}
	for name, c := range map[string]struct {
		probe  *message
		doubts []*message
		back   bool
	}{"it gets on": {nil, nil, true}, "it fails": {one[0], nil, false}, "one is in doubt": {nil, one, false}} {
		playScene(t, func(s *scene) {
			_, l := s.process()
			l.absent, l.probe, l.doubts = []string{"a", "b"}, c.probe, c.doubts
			l.giveBack(s.ctx)
			if slices.Equal(s.told, []string{"give back a b"}) != c.back || (len(l.absent) == 0) != c.back {
				t.Errorf("%s: %q, %q are kept", name, s.told, l.absent)
			}
		})
	}
}

// A table of which only ids are kept keeps no message: neither those that wait, nor those that are due
// for the second time, nor those in doubt. One that merely fails starts no other message.
func TestWhatALaneTakes(t *testing.T) {
	for name, c := range map[string]struct {
		probe, own  bool
		ready, shed string
	}{"it gets on": {false, false, "w d", ""}, "it fails": {true, false, "", ""}, "it fails by itself for long": {true, true, "", "w d x"}} {
		playScene(t, func(s *scene) {
			s.must(task.Sleep(s.ctx, time.Hour))
			_, l := s.process()
			l.waiting, l.due, l.doubts, l.looking = []*message{{id: "w"}}, []*message{{id: "d"}}, []*message{{id: "x"}}, true
			if l.own = c.own; c.probe {
				l.probe, l.failing = &message{}, task.Mono(s.ctx)-time.Minute
			}
			ready, look, shed := l.take(task.Mono(s.ctx))
			if named(ready) != c.ready || named(shed) != c.shed || look {
				t.Errorf("%s: takes %q, sheds %q, looks %t", name, named(ready), named(shed), look)
			}
			if left := len(l.waiting) + len(l.due) + len(l.doubts); left != 3-len(shed)-len(ready) {
				t.Errorf("%s: %d are left", name, left)
			}
		})
	}
}

// named returns the ids of messages.
func named(all []*message) string {
	var ids []string
	for _, m := range all {
		ids = append(ids, m.id)
	}
	return strings.Join(ids, " ")
}

// A publisher may make up names of tables, so a process keeps a bounded number of unknown tables. A
// message of one more is nacked.
func TestUnknownTablesAreBounded(t *testing.T) {
	playScene(t, func(s *scene) {
		a, _ := s.process()
		for i := range maxStrangers - 1 {
			a.strangers[fmt.Sprint("T", i)] = &stranger{}
		}
		for _, table := range []string{"last", "beyond", "last"} {
			s.must(a.room.Acquire(s.ctx, 1))
			a.holdStranger(engine.Until(s.ctx), &message{id: table, change: relay.Change{Origin: relay.Origin{Table: table}}})
		}
		if len(a.strangers) != maxStrangers || a.strangers["beyond"] != nil || len(a.strangers["last"].ids) != 2 || !slices.Equal(s.told, []string{"give back beyond"}) {
			t.Errorf("%d tables, %q", len(a.strangers), s.told)
		}
	})
}

// Messages in doubt keep their data for a while. After that they may occupy a quarter of the room for
// messages, and a quarter of the room for data. Of the others only the ids are kept.
func TestDoubtsFillNoRoom(t *testing.T) {
	for name, c := range map[string]struct {
		held  int
		bytes []int64
		since time.Duration // how long ago they arrived
		kept  string
		aside string
	}{
		"a moment ago":           {4, []int64{1, 1, dataBytes / 2}, asideAfter - time.Second, "0 1 2", ""},
		"more than the room":     {8, []int64{1, 1, 1, 1}, asideAfter, "0 1", "2 3"},
		"one in any case":        {2, []int64{1, 1}, asideAfter, "0", "1"},
		"more than their data":   {100, []int64{dataBytes / 8, dataBytes / 8, 1}, asideAfter, "0 1", "2"},
		"larger than their data": {100, []int64{dataBytes/4 + 1, dataBytes / 4}, asideAfter, "1", "0"},
	} {
		playScene(t, func(s *scene) {
			s.must(task.Sleep(s.ctx, time.Hour))
			s.Held = c.held
			a, l := s.process()
			for i, n := range c.bytes {
				change := relay.Change{Origin: relay.Origin{Ledger: "l", Table: "Orders", Label: "L", Shard: "s", Generation: 7, MappingHash: "h"}, Number: 101}
				s.must(a.room.Acquire(s.ctx, 1))
				s.must(a.data.Acquire(s.ctx, n))
				l.doubts = append(l.doubts, &message{id: fmt.Sprint(i), change: change, bytes: n, since: task.Mono(s.ctx) - c.since})
			}
			s.must(l.judgeDoubts(engine.Until(s.ctx)))
			var kept []string
			for _, m := range l.doubts {
				kept = append(kept, m.id)
			}
			if strings.Join(kept, " ") != c.kept || strings.Join(l.absent, " ") != c.aside || len(s.told) > 0 {
				t.Errorf("%s: kept %q, aside %q, %q", name, kept, l.absent, s.told)
			}
		})
	}
}

// A proof of the right to write counts for a moment, whatever other requests follow. A proof that
// is as old as that moment is renewed.
func TestHowLongAProofCounts(t *testing.T) {
	playScene(t, func(s *scene) {
		s.must(task.Sleep(s.ctx, time.Hour))
		s.Timing.Pass = time.Minute
		_, l := s.process()
		first, err := l.proved(s.ctx)
		s.must(err)
		s.must(task.Sleep(s.ctx, time.Minute-1))
		same, err := l.proved(s.ctx)
		s.must(err)
		s.must(task.Sleep(s.ctx, 1))
		next, err := l.proved(s.ctx)
		s.must(err)
		if same != first || next == first {
			t.Errorf("proved anew: within the moment %t, after it %t", same != first, next != first)
		}
		if l.forget(first); l.claim != next {
			t.Error("the new proof is forgotten for the former one")
		}
		if l.forget(next); l.claim != nil {
			t.Error("a proof is kept that was to be forgotten")
		}
	})
}

// A message that was applied once is applied again on the same judgement. The shard's row no longer
// bounds it, because that row may be removed by then. But a load that has begun drops it.
func TestASecondApplicationIsNotBoundedAnew(t *testing.T) {
	playScene(t, func(s *scene) {
		_, l := s.process()
		c := relay.Change{Origin: relay.Origin{Ledger: "l", Table: "Orders", Label: "L", Shard: "gone", Generation: 7, MappingHash: "h"}, Number: 1}
		claims := map[string]*claim{"as before": {state: checkpoint.TableState{Generation: 7}}, "loaded": {state: checkpoint.TableState{Generation: 8, Load: checkpoint.Load{Generation: 8}}}}
		batch := l.batchOf(&message{change: c})
		got := map[string]verdict{}
		for name, claim := range claims {
			first, _ := l.judge(s.ctx, claim, &message{change: c})
			second, _ := l.judge(s.ctx, claim, &message{change: c, exact: batch})
			got[name], got[name+" again"] = first, second
		}
		if want := map[string]verdict{"as before": later, "as before again": write, "loaded": drop, "loaded again": drop}; !maps.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

// A table that joins refuses all of its waiting messages for the reason of the first. A table that
// the ledger has only named, without a generation, is as unknown as a missing one.
func TestWhyATablesMessagesAreRefused(t *testing.T) {
	playScene(t, func(s *scene) {
		var told []string
		s.Events.Refused = func(table, reason string, n int) { told = append(told, fmt.Sprint(table, " ", n, " ", reason)) }
		s.DeadTopic = takes{}
		a, _ := s.process()
		var all []refusal
		for _, r := range []string{"Orders first", "Orders second", "Other third"} {
			table, why, _ := strings.Cut(r, " ")
			all = append(all, refusal{&message{change: relay.Change{Origin: relay.Origin{Table: table}}}, why})
		}
		a.reject(engine.Until(s.ctx), all)
		if !slices.Equal(told, []string{"Orders 2 first", "Other 1 third"}) || len(a.ready) != 3 {
			t.Errorf("%q, ready are %+v", told, a.ready)
		}
	})
	playScene(t, func(s *scene) {
		s.must(task.Sleep(s.ctx, time.Hour))
		a, _ := s.process()
		_, err := s.Ledger.UpdateTable(s.ctx, "Named", func(t *checkpoint.TableState) error { t.Pause.Reason = "r"; return nil })
		s.must(err)
		for name, c := range map[string]struct {
			table   string
			since   time.Duration
			unknown bool
		}{"named, for long": {"Named", doubtFor, true}, "named, a moment ago": {"Named", doubtFor - 1, false}, "never had": {"Nowhere", doubtFor, true}, "begun": {"Orders", time.Hour, false}} {
			str := &stranger{since: task.Mono(s.ctx) - c.since, ids: []string{name}}
			a.strangers[c.table], s.told = str, nil
			err := a.meetTable(engine.Until(s.ctx), c.table)
			if str.unknown != c.unknown || (len(s.told) == 1) != c.unknown || err != nil && (!errors.Is(err, errStranger) || c.unknown) {
				t.Errorf("%s: unknown %t, %q, %v", name, str.unknown, s.told, err)
			}
		}
	})
}

// takes is a topic that accepts every message.
type takes struct{}

func (takes) Publish(_ context.Context, messages []relay.Message) ([]error, int) {
	return make([]error, len(messages)), 0
}
