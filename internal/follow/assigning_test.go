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
// renewed, and a lease longer; it says so at its first look alone. Before the stream was listed as a
// whole it takes nothing.
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

// A shard whose lease cannot be taken is tried again at the next look. Only what ends the process ends
// the assigner.
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

// A run with Once ends when all is read and nothing came for a while; not while another worker's shard
// goes on, a shard is not read yet, or messages are not applied.
func TestARunWithOnceEnds(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(s *scene)
		ends bool
	}{
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
			if ended := slices.Contains(s.told, "finished"); ended != c.ends || ended && s.took() > 40*time.Second || ended && s.took() < 10*time.Second && !s.table.Tracker.IsSuspended() {
				t.Errorf("%s: ended %t after %s, told %q", name, ended, s.took(), s.told)
			}
		})
	}
}

// streamOn lets changes come on and on.
func (s *scene) streamOn() {
	s.world.Go("application", func(ctx context.Context) {
		for task.Sleep(ctx, 3*time.Second) == nil {
			s.put("a")
		}
	})
}
