package checkpoint_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// fleet is several workers on one ledger. Their network loses answers, and executes requests late
// and twice. Checks run at every write that takes place. Each shard has shardLength changes;
// applying one takes no time and never fails.
type fleet struct {
	t       *testing.T
	world   *virtual.World
	bt      *model.Bigtable
	workers []*hand
	applied map[string]int // durable changes by shard
	parents map[string]string
	done    map[string]bool
	takes   int
	// takenOver is how many of them were takeovers of held shards.
	takenOver int
	// robbed counts the workers that take or have taken a shard over from the holder of an epoch.
	robbed map[tenancy]int
}

// hand is one worker.
type hand struct {
	*virtual.Process
	paused time.Time // when its last pause began
	held   map[string]*holding
}

// tenancy is one holding of a shard.
type tenancy struct {
	shard string
	epoch uint64
}

// holding is a lease in use.
type holding struct {
	lease *checkpoint.Lease
	since time.Time // when it began to take the lease
	last  bool      // its last write is in flight: the work is over
}

const (
	fleetLease  = 6 * time.Second
	shardLength = 16
)

func newFleet(t *testing.T, seed uint64) *fleet {
	f := &fleet{
		t: t, world: virtual.NewWorld(seed, begin, false), applied: map[string]int{}, done: map[string]bool{}, robbed: map[tenancy]int{},
		parents: map[string]string{"a": "", "b": "", "c": "a", "d": "b", "e": "b", "f": "d"},
	}
	f.bt = model.NewBigtable(f.world)
	f.bt.Create("state", "l")
	f.bt.Executed = f.check
	return f
}

func (f *fleet) open(ctx context.Context, name string) *checkpoint.Ledger {
	return again(ctx, func() (*checkpoint.Ledger, error) {
		store := model.Store{Bigtable: f.bt, Table: "state", Family: "l"}
		return checkpoint.Open(ctx, store, "p", checkpoint.Options{Worker: name, ID: "l", Lease: fleetLease})
	})
}

// chance is true once in n calls.
func (f *fleet) chance(n int) bool { return f.world.Rand().IntN(n) == 0 }

func (f *fleet) upTo(d time.Duration) time.Duration {
	return time.Duration(f.world.Rand().Int64N(int64(d)))
}

func (f *fleet) start(name string) {
	h := &hand{Process: f.world.NewProcess(name), held: map[string]*holding{}}
	f.workers = append(f.workers, h)
	h.Go("main", func() {
		ctx := h.Context()
		l := f.open(ctx, name)
		watch := l.NewWatch()
		for {
			if shards, err := l.Shards(ctx, source); err == nil {
				free, held := watch.Look(shards, following, task.Mono(ctx))
				for _, free := range free {
					f.take(h, l, free)
				}
				if n := len(held); n > 0 && f.chance(20) { // as for balance
					f.takeOver(h, l, held[int(f.upTo(time.Hour))%n])
				}
			}
			_ = task.Sleep(ctx, 500*time.Millisecond+f.upTo(time.Second))
		}
	})
}

func (f *fleet) take(h *hand, l *checkpoint.Ledger, free checkpoint.Available) {
	id := free.Shard.ID
	if old := h.held[id]; old != nil && old.lease.Context().Err() == nil {
		return
	}
	since := f.world.Now()
	lease, err := l.Take(h.Context(), *free.Shard, free.Parent)
	if err != nil {
		return
	}
	f.takes++
	holding := &holding{lease: lease, since: since}
	h.held[id] = holding
	h.Go("keep "+id, func() { _ = lease.Keep() })
	h.Go("work "+id, func() { f.work(h.Context(), holding) })
}

// takeOver takes a shard from a worker whose lease has not ended, and which notices that only with
// its next write.
func (f *fleet) takeOver(h *hand, l *checkpoint.Ledger, held checkpoint.Available) {
	id := held.Shard.ID
	theirs, before := tenancy{id, held.Shard.Epoch}, h.held[id]
	f.robbed[theirs]++ // before the write: it may take place long before its answer arrives
	if f.take(h, l, held); h.held[id] == before {
		f.robbed[theirs]--
		return
	}
	f.takenOver++
}

// work applies and commits until the shard is done or released, or the lease is lost.
func (f *fleet) work(ctx context.Context, h *holding) {
	id := h.lease.Shard().ID
	position := h.lease.Shard().Position
	n := 0
	for !position.IsZero() && cdc.SequenceOf(uint64(n)) != position {
		n++
	}
	for task.Sleep(h.lease.Context(), f.upTo(500*time.Millisecond)) == nil {
		if f.chance(20) {
			h.last = true
			f.insist(ctx, func() error { return h.lease.Release(ctx) })
			return
		}
		n++
		f.applied[id] = max(f.applied[id], n)
		if n == shardLength {
			h.last = true
			f.insist(ctx, func() error { return h.lease.Finish(ctx, at(n)) })
			return
		}
		_ = h.lease.Commit(ctx, at(n)) // if the outcome is unknown, the next commit settles it
	}
}

// insist repeats the last write of a lease until it took place or the lease is lost.
func (f *fleet) insist(ctx context.Context, write func() error) {
	for {
		if err := write(); err == nil || errors.Is(err, checkpoint.ErrLeaseLost) {
			return
		}
		_ = task.Sleep(ctx, f.upTo(time.Second))
	}
}

// check checks every write of a shard's row when it takes place.
func (f *fleet) check(_, key string, before, after *model.Row) {
	if !strings.Contains(key, "/shard/") {
		return
	}
	type record struct {
		checkpoint.Shard
		By string `json:"by"`
	}
	var was, is record
	if text, found := before.Value("l", "r"); found {
		if err := json.Unmarshal([]byte(text), &was); err != nil {
			f.t.Error(err)
		}
	}
	text, _ := after.Value("l", "r")
	if err := json.Unmarshal([]byte(text), &is); err != nil {
		f.t.Error(err)
	}
	text = strings.ReplaceAll(text, ",", ", ")
	fail := func(what string) {
		f.t.Errorf("%s: %s: of %q at %s in epoch %d, now %s", key, what, was.Owner, was.Position, was.Epoch, text)
	}
	switch {
	case was.ID == "": // created
	case is.Position.Compare(was.Position) < 0:
		fail("I6: the checkpoint moved back")
	case is.Position.Compare(cdc.SequenceOf(uint64(f.applied[is.ID]))) > 0:
		fail("I3: the checkpoint is beyond what is applied")
	case was.Finished():
		fail("I4: a finished shard is written")
	case is.Epoch < was.Epoch || is.Epoch > was.Epoch+1:
		fail("I6: the epoch makes a jump")
	case is.Epoch == was.Epoch && (was.Owner == "" || is.By != was.Owner):
		fail("I6: somebody writes who does not hold the newest epoch")
	case is.Epoch != was.Epoch && f.parents[is.ID] != "" && !f.done[f.parents[is.ID]]:
		fail("H12: started before its parent was done")
	}
	if is.State == checkpoint.Done {
		f.done[is.ID] = true
	}
	f.trusted(is.ID)
}

// trusted fails if two workers trust a lease of the shard. A worker that was paused since it took
// its lease may notice later.
func (f *fleet) trusted(id string) {
	var owners []string
	for _, w := range f.workers {
		h := w.held[id]
		if h != nil && !w.Dead() && !h.last && f.robbed[tenancy{id, h.lease.Shard().Epoch}] == 0 && h.lease.Context().Err() == nil && w.paused.Before(h.since) {
			owners = append(owners, fmt.Sprintf("%s (epoch %d)", w.Name(), h.lease.Shard().Epoch))
		}
	}
	if len(owners) > 1 {
		f.t.Errorf("after %s shard %s is trusted to %v", f.world.Now().Sub(begin), id, owners)
	}
}

// trouble lasts for a while: workers are killed and replaced, or pause, and for some seconds
// nothing answers.
func (f *fleet) trouble(ctx context.Context) {
	pauses := f.chance(2) // in the other runs no worker pauses, and all leases are checked
	started := len(f.workers)
	for f.world.Now().Sub(begin) < 30*time.Second {
		_ = task.Sleep(ctx, f.upTo(5*time.Second))
		w := f.workers[f.world.Rand().IntN(len(f.workers))]
		switch f.world.Rand().IntN(4) {
		case 0:
			if !w.Dead() {
				w.Kill()
				started++
				f.start(fmt.Sprint("w", started))
			}
		case 1:
			if pauses {
				w.paused = f.world.Now()
				w.Pause(f.upTo(3 * fleetLease))
			}
		case 2:
			f.bt.Fault = func(string, string, string) error { return errNoAnswer }
			_ = task.Sleep(ctx, f.upTo(2*fleetLease))
			f.bt.Fault = nil
		case 3:
			w.Skew(f.upTo(2*time.Hour) - time.Hour)
		}
	}
}

// run returns the time from the end of all trouble until every shard was done.
func (f *fleet) run() time.Duration {
	var calm time.Time
	err := f.world.Run(time.Hour, func(ctx context.Context) {
		l := f.open(ctx, "creator")
		create(f.t, ctx, l)
		for _, id := range []string{"f", "e", "d", "c", "b", "a"} {
			check(f.t, l.CreateShard(ctx, shard(id, f.parents[id])))
		}
		f.bt.LoseReply, f.bt.Late, f.bt.Drop, f.bt.Twice, f.bt.LateBy = 0.05, 0.05, 0.05, 0.1, 2*fleetLease
		for n := range 3 {
			f.start(fmt.Sprint("w", n))
		}
		f.world.Go("checker", func(ctx context.Context) {
			for task.Sleep(ctx, 250*time.Millisecond) == nil {
				for id := range f.parents {
					f.trusted(id)
				}
			}
		})
		f.trouble(ctx)
		f.bt.LoseReply, f.bt.Late, f.bt.Drop, f.bt.Twice = 0, 0, 0, 0
		calm = f.world.Now()
		for len(f.done) < len(f.parents) {
			_ = task.Sleep(ctx, 100*time.Millisecond)
		}
	})
	if err != nil {
		f.t.Error(err)
	}
	return f.world.Now().Sub(calm)
}

// TestFleet_H03_H12_H44_H45_H85 checks all rules together. Checkpoints are monotone and never ahead
// of applied changes. Only the holder of the newest epoch writes. No two workers trust a lease at
// the same time. Everything is done soon after the trouble. That time covers the longest pause, a
// late take, a lease, and one shard after the other down the lineage.
func TestFleet_H03_H12_H44_H45_H85(t *testing.T) {
	const bound = 3*fleetLease + 2*fleetLease + fleetLease + 3*(shardLength*500*time.Millisecond+2*time.Second)
	takes, takenOver := 0, 0
	for seed := range uint64(200) {
		f := newFleet(t, seed)
		if took := f.run(); took > bound {
			t.Errorf("every shard was done %s after the trouble", took)
		}
		takes += f.takes
		takenOver += f.takenOver
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if takes < 200*10 {
		t.Errorf("only %d leases were taken", takes)
	}
	if takenOver < 200 {
		t.Errorf("only %d shards were taken over", takenOver)
	}
}

func TestFleet_SameSeedSameRun(t *testing.T) {
	for seed := range uint64(3) {
		first, second := newFleet(t, seed), newFleet(t, seed)
		if a, b := first.run(), second.run(); a != b || first.world.Steps() != second.world.Steps() {
			t.Errorf("seed %d: %s in %d steps, then %s in %d", seed, a, first.world.Steps(), b, second.world.Steps())
		}
	}
}
