package follow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"
)

// others lets another worker hold shards for so long; it renews its leases and reads nothing.
func (s *scene) others(d time.Duration, ids ...string) {
	s.Helper()
	other := s.open("other")
	for _, id := range ids {
		lease, err := other.Take(s.ctx, s.row(id), nil)
		s.must(err)
		s.world.Go("other", func(ctx context.Context) {
			limited, cancel := task.WithTimeout(ctx, d)
			defer cancel()
			for task.Sleep(limited, time.Second) == nil && lease.Renew(limited) == nil {
			}
		})
	}
}

// mine is how many shards this worker holds.
func (s *scene) mine() (n int) {
	shards, err := s.Ledger.Shards(s.ctx, "Orders")
	s.must(err)
	for _, row := range shards {
		if row.Owner == "w" {
			n++
		}
	}
	return n
}

// A worker takes what is free at once, and waits for the leases of others for as long as they are
// renewed, and a lease longer; it says so at its first look alone. Before the stream was listed as
// a whole it takes nothing.
func TestWhatAnAssignerTakes(t *testing.T) {
	playScene(t, func(s *scene) {
		s.shard("s", "")
		s.shard("t", "")
		s.shard("u", "", func(row *checkpoint.Shard) { row.Label = "former" })
		s.others(20*time.Second, "t")
		var waits []int
		s.Events.Waits = func(_ string, of engine.Leases, leases int, wait time.Duration) {
			if waits = append(waits, leases); of != engine.OfShards || wait != s.Ledger.Lease() {
				t.Errorf("waits for %s of %s", wait, of)
			}
		}
		for at, want := range map[time.Duration]int{2 * time.Second: 1, 33 * time.Second: 1, 40 * time.Second: 2} {
			s.after(at, func() {
				if n := s.mine(); n != want {
					t.Errorf("after %s it holds %d", at, n)
				}
			})
		}
		s.follows(45 * time.Second)
		if !slices.Equal(waits, []int{1}) || s.row("u").Epoch != 0 || s.mine() != 0 {
			t.Errorf("it waits for %d, and holds %d", waits, s.mine())
		}
	})
	playScene(t, func(s *scene) {
		s.shard("s", "")
		s.Events.Waits = func(string, engine.Leases, int, time.Duration) { t.Error("it waits for no lease") }
		s.change(func(state *checkpoint.TableState) { state.Listed = 0 })
		s.after(20*time.Second, func() {
			if n := s.mine(); n > 0 {
				t.Errorf("it holds %d before the stream was listed", n)
			}
			s.change(func(state *checkpoint.TableState) { state.Listed = 7 })
		})
		s.follows(30 * time.Second)
		if s.row("s").Epoch != 1 {
			t.Error("it takes none when the stream was listed")
		}
	})
}

// Workers come to hold as many shards each, give or take one. With Once nothing is taken over, and
// nothing by a worker that the source does not answer.
func TestShardsAreEven(t *testing.T) {
	for name, c := range map[string]struct {
		once, denied bool
		want         int
	}{"it follows": {want: 3}, "it ends when all is drained": {once: true}, "the source does not answer it": {denied: true}} {
		playScene(t, func(s *scene) {
			var ids []string
			for i := range 6 {
				ids = append(ids, fmt.Sprint("s", i))
				s.shard(ids[i], "")
			}
			s.others(time.Hour, ids...)
			if s.Once = c.once; c.denied {
				s.stream.fails = func(string) error {
					return &cdc.Error{Op: "GetShardIterator", Reason: cdc.Denied, Err: errors.New("no")}
				}
			}
			s.after(2*time.Minute, func() {
				if n := s.mine(); n != c.want {
					t.Errorf("%s: it holds %d of 6", name, n)
				}
			})
			s.follows(2*time.Minute + time.Second)
			if (len(s.failed) > 0) != c.denied {
				t.Errorf("%s: failed %q", name, s.failed)
			}
		})
	}
}

// What is taken over is of the worker that holds the most, and of none that holds about as much.
func TestAShardIsTakenOverFromTheBusiest(t *testing.T) {
	playScene(t, func(s *scene) {
		held := map[string]int{"busy": 5, "other": 2}
		for name, n := range held {
			worker := s.open(name)
			for i := range n {
				s.shard(fmt.Sprint(name, i), "")
				lease, err := worker.Take(s.ctx, s.row(fmt.Sprint(name, i)), nil)
				s.must(err)
				s.world.Go(name, func(context.Context) { _ = lease.Keep() })
			}
		}
		s.after(3*time.Minute, func() {
			shards, err := s.Ledger.Shards(s.ctx, "Orders")
			s.must(err)
			now := map[string]int{}
			for _, row := range shards {
				now[row.Owner]++
			}
			if now["other"] != 2 || now["w"] < 2 || now["w"]+now["busy"] != 5 {
				t.Errorf("the workers hold %v", now)
			}
		})
		s.follows(3*time.Minute + time.Second)
	})
}

// At every look a worker tells how the table stands, and how far behind it is with what it reads;
// also when the look fails. What it gave up, and another may have, does not count then.
func TestEveryLookIsTold(t *testing.T) {
	playScene(t, func(s *scene) {
		s.shard("s", "")
		s.shard("done", "", func(row *checkpoint.Shard) { row.State = checkpoint.Done })
		looks, lags := 0, 0
		s.Events.Ledger = func(state checkpoint.TableState, shards map[checkpoint.State]int) {
			if looks++; state.Generation != 7 || len(shards) != 4 || shards[checkpoint.Done] != 1 || shards[checkpoint.Waiting]+shards[checkpoint.Reading] != 1 {
				t.Errorf("told of generation %d, %v", state.Generation, shards)
			}
		}
		s.Events.Lag = func(string, time.Duration, time.Duration) { lags++ }
		s.after(20*time.Second, func() {
			if looks < 8 || lags < 8 {
				t.Errorf("%d looks and %d lags are told in 20 s", looks, lags)
			}
			looks, lags = 0, 0
			s.store.OnRead = func(context.Context, string) error { return errors.New("away") }
		})
		s.follows(40 * time.Second)
		if looks > 0 || lags < 4 || s.ticked < 20 {
			t.Errorf("%d looks and %d lags are told while the ledger is away, %d turns", looks, lags, s.ticked)
		}
	})
}

// A table that was dropped days ago is left, where it may not come back by itself: by the service's
// time, or by the worker's own if no answer has told it.
func TestATableThatIsLongGoneIsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		ago   time.Duration
		heard bool
		left  bool
	}{"heard": {3 * 24 * time.Hour, true, true}, "not heard": {3 * 24 * time.Hour, false, true}, "its stream may be read": {24 * time.Hour, true, false}} {
		playScene(t, func(s *scene) {
			if !c.heard {
				ledger, err := checkpoint.Open(s.ctx, s.store, "follows", checkpoint.Options{Worker: "w", ID: "l"})
				s.must(err)
				s.Ledger = ledger
			}
			s.change(func(state *checkpoint.TableState) {
				state.Suspended = checkpoint.Suspension{Since: s.world.Now().Add(-c.ago), Reason: engine.GoneReason}
			})
			s.prepares()
			s.table.Tracker.SetSuspended(true)
			s.follows(20 * time.Second)
			if left := slices.Contains(s.told, "finished"); left != c.left {
				t.Errorf("%s: left %t", name, left)
			}
		})
	}
}

// A shard whose lease cannot be taken is tried again at the next look. Only what ends the process
// ends the assigner.
func TestALeaseThatCannotBeTaken(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		told  bool // that a step failed
		ends  bool
		taken bool
	}{
		"another was faster":   {checkpoint.ErrTaken, false, false, true},
		"the ledger is away":   {errors.New("away"), true, false, true},
		"it is another ledger": {checkpoint.ErrLedgerExchanged, false, true, false},
	} {
		playScene(t, func(s *scene) {
			s.shard("s", "")
			failed := false
			s.store.OnSwap = func(_ context.Context, _ string, do func() bool) (bool, error) {
				if !failed {
					failed = true
					return false, c.err
				}
				return do(), nil
			}
			err := s.works(20 * time.Second)
			if errors.Is(err, c.err) != c.ends || slices.Contains(s.failed, "acquire a lease") != c.told || slices.Contains(s.told, "taken s") != c.taken {
				t.Errorf("%s: %v, told %q, failed %q", name, err, s.told, s.failed)
			}
		})
	}
}

// A run with Once ends when all is read and nothing came for a while; not while another worker's
// shard goes on, a shard is not read yet, or messages are not applied.
func TestARunWithOnceEnds(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(s *scene)
		ends bool
	}{
		"there are no shards, as far as it is known": {func(s *scene) {
			s.bare()
			s.change(func(state *checkpoint.TableState) { state.Listed = 0 })
		}, false},
		"another worker reads, and finds nothing": {func(s *scene) { s.shard("t", ""); s.idles("t") }, true},
		"messages are not applied": {func(s *scene) {
			s.Mode, s.Topic = checkpoint.Topic, &published{}
			s.change(func(state *checkpoint.TableState) { state.Apply = checkpoint.Topic })
		}, false},
		"messages are applied": {func(s *scene) {
			s.Mode, s.Topic = checkpoint.Topic, &published{}
			s.change(func(state *checkpoint.TableState) { state.Apply = checkpoint.Topic })
			s.after(5*time.Second, func() {
				applied := checkpoint.Applied{Track: checkpoint.Track{Generation: 7, Label: "L", Shard: "s"}, Runs: checkpoint.Runs{{From: 1, To: 2, At: s.world.Now()}}}
				s.must(s.Ledger.NoteApplied(s.ctx, "Orders", []checkpoint.Applied{applied}))
				s.must(s.Ledger.MergeApplied(s.ctx, "Orders"))
			})
		}, true},
		"it was dropped, and not all is known": {func(s *scene) {
			s.Copy = true
			s.change(func(state *checkpoint.TableState) {
				state.Base, state.Load.AskedAt, state.Suspended = 0, enginetest.ListingsBegin, checkpoint.Suspension{Since: enginetest.ListingsBegin, Reason: engine.GoneReason}
			})
		}, false},
		"it was dropped, and is there again": {func(s *scene) {
			s.Copy = true
			s.change(func(state *checkpoint.TableState) { state.Base, state.Load.AskedAt = 0, enginetest.ListingsBegin })
			s.prepares()
			s.table.Tracker.SetOver(true)
		}, false},
		"all is read":                       {func(*scene) {}, true},
		"changes come":                      {func(s *scene) { s.streamOn() }, false},
		"another worker reads, and is busy": {func(s *scene) { s.shard("t", ""); s.others(time.Hour, "t") }, false},
		"a child waits for its parent":      {func(s *scene) { s.shard("t", "s") }, false},
		"a shard of a former stream":        {func(s *scene) { s.shard("t", "", func(row *checkpoint.Shard) { row.Label = "former" }) }, true},
		"it was not listed": {func(s *scene) {
			s.change(func(state *checkpoint.TableState) { state.Listed = 0 })
		}, false},
		"a load is to come": {func(s *scene) {
			s.Copy = true
			s.change(func(state *checkpoint.TableState) { state.Base, state.Load.AskedAt = 0, enginetest.ListingsBegin })
		}, false},
		"the table cannot be followed": {func(s *scene) { s.prepares(); s.streamOn(); s.table.Tracker.SetSuspended(true) }, true},
		"it was dropped, and all is read": {func(s *scene) {
			s.Copy = true
			s.change(func(state *checkpoint.TableState) {
				state.Base, state.Load.AskedAt, state.Suspended = 0, enginetest.ListingsBegin, checkpoint.Suspension{Since: enginetest.ListingsBegin, Reason: engine.GoneReason}
			})
			s.prepares()
			s.table.Tracker.SetOver(true)
		}, true},
	} {
		playScene(t, func(s *scene) {
			s.Once = true
			s.shard("s", "")
			s.put("a", "b")
			c.edit(s)
			s.follows(2 * time.Minute)
			if ended := slices.Contains(s.told, "finished"); ended != c.ends || ended && s.took() > 45*time.Second || ended && s.took() < 10*time.Second && !s.table.Tracker.IsSuspended() {
				t.Errorf("%s: ended %t after %s, told %q", name, ended, s.took(), s.told)
			}
		})
	}
}

// bare removes shard s.
func (s *scene) bare() {
	s.store.Clear()
	s.Ledger = s.open("w")
	s.change(func(state *checkpoint.TableState) {
		state.StreamARN, state.Label, state.Generation, state.Adopted, state.Base, state.MappingHash = "arn", "L", 7, 7, 7, "h"
	})
}

// idles lets another worker read a shard in which nothing comes.
func (s *scene) idles(id string) {
	lease, err := s.open("other").Take(s.ctx, s.row(id), nil)
	s.must(err)
	s.world.Go("other", func(ctx context.Context) {
		for task.Sleep(ctx, time.Second) == nil {
			now := s.world.Now()
			_ = lease.Commit(ctx, checkpoint.Progress{FirstRead: enginetest.ListingsBegin, ReadAt: now, CaughtUp: true})
		}
	})
}

// streamOn lets changes come on and on.
func (s *scene) streamOn() {
	s.world.Go("application", func(ctx context.Context) {
		for task.Sleep(ctx, 3*time.Second) == nil {
			s.put("a")
		}
	})
}
