package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// A row has the version of its message. Its cells have the time that the shard had reached, not
// that of the change, which may be earlier. The note has the message's position and time, and
// nothing else.
func TestWhatIsWrittenAndNotedIsOfTheMessage(t *testing.T) {
	playScene(t, func(s *scene) {
		at := task.Now(s.ctx)
		s.shard(func(row *checkpoint.Shard) { row.ID, row.Hop = "deep", cdc.RootHop+3 })
		s.send(1, func(c *relay.Change) {
			c.Shard, c.Hop, c.CellTime, c.Time = "deep", cdc.RootHop+3, at.Add(time.Minute), at
			c.New = enginetest.Keyed("i1")
		})
		var applied []string
		s.Events.Applied = func(table string, n engine.Tally, rows int) {
			applied = append(applied, fmt.Sprint(table, " ", n.Inserts, " ", rows))
		}
		s.applies(5 * time.Second)
		version := transform.NewVersion(7, cdc.RootHop+3, cdc.SequenceOf(1), transform.CountExact)
		if len(s.rows) != 1 || s.rows[0].Refuse.AtLeast != version {
			t.Fatalf("%+v, want version %s", s.rows, version)
		}
		for _, op := range s.rows[0].Ops {
			if op.Kind == sink.SetCell && op.Family == "d" && op.Timestamp != at.Add(time.Minute).UnixMicro() {
				t.Errorf("%s is dated %s", op.Qualifier, time.UnixMicro(op.Timestamp))
			}
		}
		s.must(s.Ledger.MergeApplied(s.ctx, "Orders"))
		all, err := s.Ledger.Merged(s.ctx, "Orders")
		s.must(err)
		if len(all) != 1 || all[0].Track != (checkpoint.Track{Generation: 7, Label: "L", Shard: "deep"}) || len(all[0].Runs) != 1 || all[0].Runs[0].From != 1 || all[0].Runs[0].To != 1 ||
			!all[0].Runs[0].At.Equal(at) {
			t.Errorf("%+v", all)
		}
		if !slices.Equal(s.pages, []string{"Orders"}) || !slices.Equal(applied, []string{"Orders 1 1"}) || len(s.failed) > 0 {
			t.Errorf("%q get on, %q are applied, %q failed", s.pages, applied, s.failed)
		}
	})
}

// A dropped message is neither written nor noted nor asserted later, and is acknowledged
// immediately. That also holds where the application writes the target.
func TestADroppedMessageIsOver(t *testing.T) {
	for _, late := range []time.Duration{0, time.Hour} {
		playScene(t, func(s *scene) {
			s.Tables[0].Late = late
			s.change(func(state *checkpoint.TableState) { state.Load.Generation = 7 })
			s.message(1, 6)
			s.send(2, func(c *relay.Change) { c.Omitted = relay.TooLarge })
			s.applies(10 * time.Second)
			want := []string{"ack d1", "note", "ack d2"}
			if slices.Contains(s.told, "ack d1 d2") {
				want = []string{"note", "ack d1 d2"}
			}
			if s.writes != 0 || !slices.Equal(s.told, want) || s.noted(1) || !s.noted(2) {
				t.Errorf("late by %s: %d writes, %q", late, s.writes, s.told)
			}
		})
	}
}

// The right to write is proved once for all messages of a moment. Two cases get a new proof before
// that one expires. One is a message of a generation newer than the record, the other a write that
// the fence refused.
func TestTheRightToWriteIsKept(t *testing.T) {
	proofs := func(s *scene) *int {
		n := 0
		s.store.OnRead = func(_ context.Context, key string) error {
			if strings.HasSuffix(key, "/table/Orders") {
				n++
			}
			return nil
		}
		return &n
	}
	playScene(t, func(s *scene) {
		s.Timing.Pass = time.Hour
		_ = task.Sleep(s.ctx, 3*time.Hour) // the clock shows more than that
		n := proofs(s)
		for i := range uint64(20) {
			s.message(i+1, 7)
		}
		s.applies(10 * time.Second)
		if s.writes != 20 || *n == 0 || *n > 4 { // the mode and the mapping are read, too
			t.Errorf("%d writes by %d reads of the record", s.writes, *n)
		}
	})
	playScene(t, func(s *scene) {
		s.Timing.Pass = time.Hour
		s.shard(func(row *checkpoint.Shard) { row.ID, row.Generation = "next", 8 })
		s.message(1, 7)
		raised := false
		s.meanwhile = func(after time.Duration) {
			if s.writes == 1 && !raised {
				raised = true
				s.send(2, func(c *relay.Change) { c.Shard, c.Generation = "next", 8 })
				s.after(20*time.Second, func() { s.change(func(state *checkpoint.TableState) { state.Generation = 8 }) })
			}
		}
		s.applies(2 * time.Minute)
		if s.writes != 2 || !s.noted(2) {
			t.Errorf("a message of the next generation: %d writes, %q", s.writes, s.told)
		}
	})
	playScene(t, func(s *scene) {
		s.Timing.Pass = time.Hour
		refused := 0
		s.answer = func(ctx context.Context, _ *sink.Request) error {
			if s.writes == 1 && refused == 0 {
				refused++
				s.fence(8)
				return &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Permanent, Code: "NotFound"}
			}
			return nil
		}
		s.fence(7)
		s.message(1, 7)
		s.message(2, 7)
		s.applies(2 * time.Minute)
		if s.writes != 2 || refused != 1 || !s.noted(2) || s.rows[0].Ops[0].Family != sink.FenceFamily("l", 7) || s.rows[1].Ops[0].Family != sink.FenceFamily("l", 8) {
			t.Errorf("a write that the fence refuses: %d writes, %q, %+v", s.writes, s.told, s.rows)
		}
	})
}

// fence publishes a number for the target's fence.
func (s *scene) fence(number uint64) {
	_, err := s.Ledger.UpdateTarget(s.ctx, "orders", func(t *checkpoint.Target) error { t.Fence, t.Withheld = number, ""; return nil })
	s.must(err)
}

// after runs a function after a while.
func (s *scene) after(after time.Duration, do func()) {
	at := task.Mono(s.ctx) + after
	before := s.meanwhile
	s.meanwhile = func(since time.Duration) {
		if before != nil {
			before(since)
		}
		if do != nil && task.Mono(s.ctx) >= at {
			do()
			do = nil
		}
	}
}

// A message waits while no relay has begun its table, while the table is halted or paused, and
// while the record cannot be read. Then it is written. Nothing is given back meanwhile.
func TestAMessageWaitsForItsTable(t *testing.T) {
	for name, c := range map[string]struct {
		before, after func(s *checkpoint.TableState)
	}{
		"not begun": {func(s *checkpoint.TableState) { s.Generation = 0 }, func(s *checkpoint.TableState) { s.Generation = 7 }},
		"paused":    {func(s *checkpoint.TableState) { s.Pause = checkpoint.Pause{Since: s.Load.DoneAt.Add(1), Reason: "r"} }, func(s *checkpoint.TableState) { s.Pause = checkpoint.Pause{} }},
	} {
		playScene(t, func(s *scene) {
			s.change(c.before)
			s.message(1, 7)
			s.after(20*time.Second, func() {
				if s.writes > 0 {
					t.Errorf("%s: it is written", name)
				}
				s.change(c.after)
			})
			s.applies(2 * time.Minute)
			if s.writes != 1 || !slices.Equal(s.told, []string{"note", "ack d1"}) || !slices.Contains(s.failed, "write") {
				t.Errorf("%s: %d writes, %q, failed %q", name, s.writes, s.told, s.failed)
			}
		})
	}
}

// A fatal error ends the process whichever task meets it, also while messages of the same pull wait
// for room. The process returns the error's cause if a clean stop is safe, and the error if not,
// whether or not it was asked to stop.
func TestWhatEndsAnApplier(t *testing.T) {
	for name, of := range map[string]error{"orderly": checkpoint.ErrMappingChanged, "fatal": checkpoint.ErrLedgerExchanged} {
		playScene(t, func(s *scene) {
			s.message(1, 7)
			s.message(2, 7)
			// A generation that is not read yet: retried until the ledger was replaced.
			s.message(3, 8)
			s.store.OnRead = func(context.Context, string) error {
				if s.writes == 2 {
					return of
				}
				return nil
			}
			// One of the first two waits for room.
			s.Options.Pull, s.SettleBytes, s.Tables[0].Late = 3, 1, time.Hour
			if err := s.ends(10 * time.Minute); !errors.Is(err, of) || s.took() > time.Minute || len(s.told) > 0 {
				t.Errorf("%s: after %s %v, %q", name, s.took(), err, s.told)
			}
		})
	}
	playScene(t, func(s *scene) { // the process was asked to stop meanwhile
		s.message(1, 8)
		s.store.OnRead = func(context.Context, string) error {
			if s.took() > 11*time.Second {
				return checkpoint.ErrLedgerExchanged
			}
			return nil
		}
		if err := s.ends(10 * time.Second); !errors.Is(err, checkpoint.ErrLedgerExchanged) || s.took() > 20*time.Second {
			t.Errorf("asked to stop: after %s %v", s.took(), err)
		}
	})
	playScene(t, func(s *scene) {
		s.change(func(state *checkpoint.TableState) { state.MappingHash = "other" })
		s.message(1, 7)
		if err := s.ends(10 * time.Minute); !errors.Is(err, checkpoint.ErrMappingChanged) || s.took() > time.Minute || s.writes > 0 {
			t.Errorf("another mapping: after %s %v", s.took(), err)
		}
	})
	playScene(t, func(s *scene) { // it changes later
		s.message(1, 7)
		s.after(10*time.Second, func() {
			s.change(func(state *checkpoint.TableState) { state.MappingHash = "other" })
			s.message(2, 7)
		})
		if err := s.ends(10 * time.Minute); !errors.Is(err, checkpoint.ErrMappingChanged) || s.took() > time.Minute || s.writes != 1 || !s.noted(1) || s.noted(2) {
			t.Errorf("another mapping by now: after %s %v, %q", s.took(), err, s.told)
		}
	})
}

// A note also discovers that the ledger was replaced. Then nothing is acknowledged, and the pulling
// tasks end.
func TestANoteThatFailsEndsAnApplier(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Pulls = 2
		s.message(1, 7)
		s.store.OnSwap = func(context.Context, string, func() bool) (bool, error) { return false, checkpoint.ErrLedgerExchanged }
		if err := s.ends(10 * time.Minute); !errors.Is(err, checkpoint.ErrLedgerExchanged) || s.took() > time.Minute || len(s.told) > 0 {
			t.Errorf("after %s %v, %q", s.took(), err, s.told)
		}
	})
}

// A message is judged again at each attempt. If a load of a newer generation has begun since a
// failed write, the message is dropped, without a note or a second application.
func TestAMessageIsJudgedAnewAtEachAttempt(t *testing.T) {
	for _, late := range []time.Duration{0, time.Hour} {
		playScene(t, func(s *scene) {
			s.Tables[0].Late, s.Timing.Pass = late, time.Millisecond
			failed := 0
			s.answer = func(context.Context, *sink.Request) error {
				if failed++; failed == 3 {
					s.change(func(state *checkpoint.TableState) { state.Generation, state.Load.Generation = 8, 8 })
				}
				return &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Unknown, Code: "Unavailable"}
			}
			s.message(1, 7)
			s.applies(20 * time.Second)
			if failed != 3 || !slices.Equal(s.told, []string{"ack d1"}) || s.noted(1) {
				t.Errorf("late by %s: %d attempts, %q", late, failed, s.told)
			}
		})
	}
}

// The default bounds of a process. If the application writes a target, far more messages may wait,
// and their bytes bound them.
func TestDefaultsOfAnApplier(t *testing.T) {
	given := Options{Pulls: 1, Pull: 2, Held: 3, SettleBytes: 4}
	if got := given.orDefault(true); got.Pulls != 1 || got.Pull != 2 || got.Held != 3 || got.SettleBytes != 4 {
		t.Errorf("given: %+v", got)
	}
	for late, held := range map[time.Duration]int{0: 10_000, time.Second: 100_000} {
		o := Options{Tables: []engine.Spec{{}, {Late: late}}}
		if got := o.orDefault(o.settles()); got.Pulls != 4 || got.Pull != 100 || got.Held != held || got.SettleBytes != engine.SettleBytes {
			t.Errorf("late by %s: %+v", late, got)
		}
	}
}

// Without messages it pulls only once in a while.
func TestAnIdleApplierRests(t *testing.T) {
	playScene(t, func(s *scene) {
		pulls := 0
		s.meanwhile = func(time.Duration) { pulls++ }
		if s.applies(20 * time.Second); pulls < 15 || pulls > 20 {
			t.Errorf("%d pulls in 20 s", pulls)
		}
	})
}

// A stop finishes what was pulled, and ends as soon as that is done, or after its grace if the
// target does not answer. In the latter case the message is neither noted nor acknowledged.
func TestAStopHasItsGrace(t *testing.T) {
	for name, c := range map[string]struct {
		answers time.Duration
		within  time.Duration
		told    []string
	}{
		"idle":              {0, 11 * time.Second, []string{"note", "ack d1"}},
		"a write of 20 s":   {20 * time.Second, 22 * time.Second, []string{"note", "ack d1"}},
		"a write of a hour": {time.Hour, 41 * time.Second, nil},
	} {
		playScene(t, func(s *scene) {
			s.Timing.Grace = 30 * time.Second
			s.answer = func(ctx context.Context, _ *sink.Request) error { return task.Sleep(ctx, c.answers) }
			s.message(1, 7)
			s.Options.Writer = sink.NewWriter(sink.Options{Table: s, Timeout: 2 * time.Hour})
			if s.applies(10 * time.Second); s.took() < 10*time.Second || s.took() > c.within || !slices.Equal(s.told, c.told) {
				t.Errorf("%s: over after %s, %q", name, s.took(), s.told)
			}
		})
	}
}

// An unreadable message is reported and given back immediately. Its deadline is no longer extended,
// so that it gets into the dead letter.
func TestWhatCannotBeReadIsGivenBack(t *testing.T) {
	playScene(t, func(s *scene) {
		s.waiting = append(s.waiting, relay.Delivery{ID: "poison", Data: []byte("none")})
		extended := &extending{scene: s}
		s.Subscription = extended
		s.applies(time.Minute)
		if !slices.Equal(s.told, []string{"give back poison"}) || len(s.failed) != 1 || s.writes > 0 || len(extended.ids) > 0 {
			t.Errorf("%q, failed %q, extended %q", s.told, s.failed, extended.ids)
		}
	})
}

// extending records what is extended.
type extending struct {
	*scene
	ids   []string
	fails int // how often it fails at first
}

func (e *extending) Extend(ctx context.Context, ids []string, by time.Duration) error {
	if len(ids) == 0 {
		e.Error("nothing is extended")
	}
	if e.fails--; by > 0 && e.fails >= 0 {
		return errors.New("away")
	} else if by > 0 {
		e.ids = append(e.ids, ids...)
	}
	return e.scene.Extend(ctx, ids, by)
}

// The deadline of a message is extended while it is held, and no longer once it is acknowledged.
func TestOnlyWhatIsHeldIsExtended(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Tables[0].Late = time.Minute
		s.message(1, 7)
		extended := &extending{scene: s, fails: 2}
		s.Subscription = extended
		s.applies(5 * time.Minute)
		if n := len(extended.ids); n < 3 || n > 4 || !s.noted(1) || !slices.Equal(s.failed, []string{"extend deadlines (ModifyAckDeadline)", "extend deadlines (ModifyAckDeadline)"}) {
			t.Errorf("extended %d times, %q, failed %q", n, s.told, s.failed)
		}
	})
}

// A second application happens when it is due, whatever else waits. While the waiting ones use up
// their bytes nothing is lost: the next message follows when one is done.
func TestSecondApplicationsHaveTheirTimeAndRoom(t *testing.T) {
	const two = 3 * engine.PageBytes // messages of little more than that each
	for bytes, last := range map[int64]time.Duration{0: 25 * time.Second, 1: 40 * time.Second, two: 40 * time.Second} {
		playScene(t, func(s *scene) {
			s.SettleBytes, s.Tables[0].Late = bytes, 15*time.Second
			var exact []time.Duration
			s.answer = func(_ context.Context, r *sink.Request) error {
				if r.Refuse.AtLeast.Count() == transform.CountExact {
					exact = append(exact, s.took())
				}
				return nil
			}
			s.after(10*time.Second, func() {
				for i := range uint64(3) {
					s.message(i+1, 7)
				}
			})
			s.applies(3 * time.Minute)
			if len(exact) != 3 || exact[0] < 25*time.Second || exact[0] > 28*time.Second || exact[2] < last || exact[2] > last+3*time.Second || !s.noted(3) {
				t.Errorf("room of %d: at %s, %q", bytes, exact, s.told)
			}
		})
	}
	u := unsettled{queue: []unsettledMessage{{due: 5}, {due: 5}, {due: 6}, {due: 9}}}
	for _, c := range []struct {
		now  time.Duration
		most int
		n    int
		wait time.Duration
	}{{4, 9, 0, 1}, {5, 1, 1, time.Minute}, {6, 9, 2, time.Minute}, {7, 9, 0, 2}, {9, 9, 1, time.Minute}, {10, 9, 0, time.Minute}} {
		if due, wait := u.due(c.now, c.most); len(due) != c.n || wait != c.wait {
			t.Errorf("at %d: %d are due, the next in %d", c.now, len(due), wait)
		}
	}
}
