package checkpoint_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// keep renews a lease as a task of its machine.
func keep(m *virtual.Process, held *checkpoint.Lease) {
	m.Go("keep", func() { _ = held.Keep() })
}

// takeWhenFree makes one pass a second until the shard is free, and takes it.
func (p *place) takeWhenFree(ctx context.Context, l *checkpoint.Ledger, id string) *checkpoint.Lease {
	p.Helper()
	watch := l.NewWatch()
	for {
		for _, found := range free(p.T, ctx, l, watch) {
			if found != id {
				continue
			}
			held, err := attempt(p.T, ctx, l, id)
			if err == nil {
				return held
			}
			if !errors.Is(err, checkpoint.ErrTaken) && !errors.Is(err, errNoAnswer) {
				p.Fatal(err)
			}
		}
		p.sleep(ctx, time.Second)
	}
}

func TestH03_PausedOwnerResumesAfterTakeOver(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		ma, a := p.worker("a")
		_, b := p.worker("b")
		create(t, ctx, a, shard("s", ""))
		first := take(t, ma.Context(), a, "s")
		keep(ma, first)
		var committed, late error
		ma.Go("work", func() {
			committed = first.Commit(ma.Context(), at(10))
			_ = task.Sleep(ma.Context(), time.Second)
			late = first.Commit(ma.Context(), at(11))
		})
		p.sleep(ctx, 500*time.Millisecond)
		ma.Pause(time.Minute)
		second := p.takeWhenFree(ctx, b, "s")
		if committed != nil || second.Shard().Position != at(10).Position.After {
			t.Fatalf("%v, taken over at %s", committed, second.Shard().Position)
		}
		check(t, second.Commit(ctx, at(20)))
		p.sleep(ctx, time.Minute)
		if !errors.Is(late, checkpoint.ErrLeaseLost) {
			t.Errorf("the commit of the paused owner: %v", late)
		}
		if cause := context.Cause(first.Context()); !errors.Is(cause, checkpoint.ErrLeaseLost) {
			t.Errorf("its lease: %v", cause)
		}
		if s := row(t, ctx, b, "s"); s.Position != at(20).Position.After || s.Owner != "b" {
			t.Errorf("%s of %s", s.Position, s.Owner)
		}
	})
}

// A take whose answer is lost: in the end there is exactly one owner, soon, and never two.
func TestH44_TakeWithoutAnswer(t *testing.T) {
	for _, test := range []struct {
		name     string
		executes time.Duration // after it was sent; -1: never
		readable bool          // the row can be read afterwards
		owner    string        // of the lease in the end
		within   time.Duration
	}{
		{"executed", 0, true, "a", 0},
		{"executed, and not to be read", 0, false, "b", lease + 3*time.Second},
		{"executes later", 5 * time.Second, true, "b", 2 * time.Second},
		{"executes later, and not to be read", 5 * time.Second, false, "b", 2 * time.Second},
		{"never executes", -1, true, "b", 2 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			virtually(t, func(ctx context.Context, p *place) {
				_, a := p.worker("a")
				mb, b := p.worker("b")
				create(t, ctx, a, shard("s", ""))
				seen := row(t, ctx, a, "s")
				p.store.OnSwap = func(_ context.Context, _ string, execute func() bool) (bool, error) {
					p.store.OnSwap = nil
					switch test.executes {
					case 0:
						execute()
					case -1:
					default:
						p.world.Go("late", func(ctx context.Context) { p.sleep(ctx, test.executes); execute() })
					}
					if !test.readable {
						p.store.OnRead = func(context.Context, string) error { p.store.OnRead = nil; return errNoAnswer }
					}
					return false, errNoAnswer
				}
				held, err := a.Take(ctx, seen, nil)
				if (err == nil) != (test.owner == "a") || err != nil && errors.Is(err, checkpoint.ErrTaken) {
					t.Fatalf("take: %v", err)
				}
				if held == nil {
					held = p.takeWhenFree(mb.Context(), b, "s")
				}
				if d := p.since(); d > test.within {
					t.Errorf("nobody's for %s", d)
				}
				keep(mb, held)
				p.sleep(ctx, time.Minute)
				check(t, held.Commit(ctx, at(1)))
				if s := row(t, ctx, a, "s"); s.Owner != test.owner || s.Epoch != held.Shard().Epoch {
					t.Errorf("epoch %d of %q in the ledger, epoch %d is held", s.Epoch, s.Owner, held.Shard().Epoch)
				}
			})
		})
	}
}

// A take executes late, between two looks of the other worker, which then waits for a lease without
// a holder, but no longer than one lease.
func TestH44_LateTakeIsWaitedFor(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		_, b := p.worker("b")
		create(t, ctx, a, shard("s", ""))
		var late func() bool
		p.store.OnSwap = func(_ context.Context, _ string, execute func() bool) (bool, error) {
			p.store.OnSwap, late = nil, execute
			return false, errNoAnswer
		}
		seen := row(t, ctx, b, "s")
		if _, err := attempt(t, ctx, a, "s"); !errors.Is(err, errNoAnswer) {
			t.Fatal(err)
		}
		if !late() {
			t.Fatal("the late take did not execute")
		}
		if _, err := b.Take(ctx, seen, nil); !errors.Is(err, checkpoint.ErrTaken) {
			t.Fatalf("two took it: %v", err)
		}
		held := p.takeWhenFree(ctx, b, "s")
		if d := p.since(); d < lease || d > lease+2*time.Second {
			t.Errorf("taken over after %s", d)
		}
		if held.Shard().Epoch != 2 {
			t.Errorf("epoch %d", held.Shard().Epoch)
		}
	})
}

func TestH45_OldLeaseOfTheSameWorkerNeverWrites(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		create(t, ctx, a, shard("s", ""))
		old := take(t, ctx, a, "s")
		check(t, old.Commit(ctx, at(10)))
		// The old task has a commit in flight without an answer.
		var late func() bool
		p.store.OnSwap = func(_ context.Context, _ string, execute func() bool) (bool, error) {
			p.store.OnSwap, late = nil, execute
			return false, errNoAnswer
		}
		if err := old.Commit(ctx, at(11)); !errors.Is(err, errNoAnswer) {
			t.Fatal(err)
		}
		again := p.takeWhenFree(ctx, a, "s")
		check(t, again.Commit(ctx, at(20)))
		before := row(t, ctx, a, "s")
		if late() {
			t.Error("the late commit of the old lease executed")
		}
		for name, write := range map[string]func() error{
			"commit":  func() error { return old.Commit(ctx, at(30)) },
			"finish":  func() error { return old.Finish(ctx, at(30)) },
			"declare": func() error { return old.Declare(ctx, checkpoint.Trimmed, "") },
			"release": func() error { return old.Release(ctx) },
			"renew":   old.Keep,
		} {
			if err := write(); !errors.Is(err, checkpoint.ErrLeaseLost) && (name != "renew" || err != nil) {
				t.Errorf("%s under the old lease: %v", name, err)
			}
		}
		if after := row(t, ctx, a, "s"); after.Counter != before.Counter || after.Epoch != again.Shard().Epoch {
			t.Errorf("the old lease wrote: %+v", after)
		}
		if old.Context().Err() == nil || again.Context().Err() != nil {
			t.Error("the wrong lease ended")
		}
	})
}

// Wall clocks that jump, run back or stop neither end a lease nor extend it.
func TestH64_WallClocksDoNotMatter(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		ma, a := p.worker("a")
		mb, b := p.worker("b")
		create(t, ctx, a, shard("s", ""))
		held := take(t, ma.Context(), a, "s")
		keep(ma, held)
		watch := b.NewWatch()
		jumps := []time.Duration{time.Hour, -time.Hour, 0, 25 * time.Hour, -time.Minute}
		for n := range 120 {
			ma.Skew(jumps[n%len(jumps)])
			mb.Skew(jumps[(n/3)%len(jumps)])
			if ids := free(t, mb.Context(), b, watch); len(ids) > 0 || held.Context().Err() != nil {
				t.Fatalf("after %s: free %v, lease %v", p.since(), ids, context.Cause(held.Context()))
			}
			p.sleep(mb.Context(), time.Second)
		}
		ma.Kill()
		killed := p.since()
		for len(free(t, mb.Context(), b, watch)) == 0 {
			mb.Skew(-p.since()) // its clock is stopped
			p.sleep(mb.Context(), time.Second)
		}
		if waited := p.since() - killed; waited < lease-5*time.Second || waited > lease+2*time.Second {
			t.Errorf("free %s after the owner was gone", waited)
		}
	})
}

// A commit without an answer is executed late, under the same epoch, after newer ones: it changes
// nothing.
func TestH85_LateCommitUnderTheSameEpoch(t *testing.T) {
	for name, newer := range map[string]func(ctx context.Context, held *checkpoint.Lease) error{
		"position back": func(ctx context.Context, held *checkpoint.Lease) error { return held.Commit(ctx, at(20)) },
		"done undone":   func(ctx context.Context, held *checkpoint.Lease) error { return held.Finish(ctx, at(20)) },
		"renewed":       func(ctx context.Context, held *checkpoint.Lease) error { return held.Commit(ctx, at(10)) },
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(ctx context.Context, p *place) {
				_, a := p.worker("a")
				create(t, ctx, a, shard("s", ""))
				held := take(t, ctx, a, "s")
				var late []func() bool
				p.store.OnSwap = func(_ context.Context, _ string, execute func() bool) (bool, error) {
					if late = append(late, execute); len(late) == 2 {
						p.store.OnSwap = nil
					}
					return false, errNoAnswer
				}
				for range 2 { // the second attempt is identical
					if err := held.Commit(ctx, at(10)); !errors.Is(err, errNoAnswer) {
						t.Fatal(err)
					}
				}
				check(t, newer(ctx, held))
				before := row(t, ctx, a, "s")
				for _, execute := range late {
					if execute() {
						t.Error("a late commit executed")
					}
				}
				if after := row(t, ctx, a, "s"); after.Counter != before.Counter || after.Position != before.Position || after.State != before.State {
					t.Errorf("%+v became %+v", before, after)
				}
			})
		})
	}
}

// A write in doubt is settled before any other write: first the earlier commit, identically, then
// the newer one.
func TestH85_DoubtIsSettledFirst(t *testing.T) {
	for _, executed := range []bool{false, true} {
		virtually(t, func(ctx context.Context, p *place) {
			_, a := p.worker("a")
			create(t, ctx, a, shard("s", ""))
			held := take(t, ctx, a, "s")
			counter := row(t, ctx, a, "s").Counter
			p.store.OnSwap = func(_ context.Context, _ string, execute func() bool) (bool, error) {
				p.store.OnSwap = nil
				if executed {
					execute()
				}
				p.store.OnRead = func(context.Context, string) error { p.store.OnRead = nil; return errNoAnswer }
				return false, errNoAnswer
			}
			if err := held.Commit(ctx, at(10)); !errors.Is(err, errNoAnswer) {
				t.Fatal(err)
			}
			check(t, held.Commit(ctx, at(20)))
			if s := row(t, ctx, a, "s"); s.Counter != counter+2 || s.Position != at(20).Position.After || held.Context().Err() != nil {
				t.Errorf("counter %d after %d, position %s, lease %v", s.Counter, counter, s.Position, context.Cause(held.Context()))
			}
		})
	}
}

func TestI6_PositionNeverMovesBack(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		create(t, ctx, a, shard("s", ""))
		held := take(t, ctx, a, "s")
		check(t, held.Commit(ctx, at(100)))
		counter := row(t, ctx, a, "s").Counter
		for _, n := range []int{99, 11, 2} { // as text the last two are greater
			if err := held.Commit(ctx, at(n)); !errors.Is(err, checkpoint.ErrPositionBack) {
				t.Errorf("commit of %d: %v", n, err)
			}
			if err := held.Finish(ctx, at(n)); !errors.Is(err, checkpoint.ErrPositionBack) {
				t.Errorf("finish at %d: %v", n, err)
			}
		}
		if err := held.Commit(ctx, checkpoint.Progress{}); !errors.Is(err, checkpoint.ErrPositionBack) {
			t.Errorf("commit of no position: %v", err)
		}
		if s := row(t, ctx, a, "s"); s.Counter != counter || held.Shard().Position != at(100).Position.After {
			t.Errorf("a refused commit wrote: %+v", s)
		}
		check(t, held.Commit(ctx, at(100)))
		check(t, held.Finish(ctx, at(100)))
	})
}

// I11: the numbers that a shard without a position may publish are in its row, after one write.
func TestI11_AnAnnouncementOutlivesTheLease(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		create(t, ctx, a, shard("s", ""))
		for _, step := range []struct {
			first, changes int
			follow         uint64 // the number that precedes the page's first
			writes         bool
		}{
			{10, 3, 0, true}, {10, 2, 0, false}, {10, 4, 0, true},
			{12, 1, 8, true}, // the first record is trimmed
		} {
			held := take(t, ctx, a, "s")
			was := row(t, ctx, a, "s")
			counter, from := was.Counter, was.Progress()
			follow, err := held.Announce(ctx, from, cdc.SequenceOf(uint64(step.first)), step.changes)
			check(t, err)
			if writes := row(t, ctx, a, "s").Counter != counter; follow != step.follow || writes != step.writes {
				t.Errorf("%+v follows %d, written: %v", step, follow, writes)
			}
			check(t, held.Release(ctx))
		}
		held := take(t, ctx, a, "s")
		from := at(12)
		from.Applied = 9
		check(t, held.Commit(ctx, from))
		counter := row(t, ctx, a, "s").Counter
		follow, err := held.Announce(ctx, from, cdc.SequenceOf(20), 1)
		check(t, err)
		if s := row(t, ctx, a, "s"); follow != 9 || s.Counter != counter || s.NumberedFrom != 8 || s.Announced != (checkpoint.Announced{}) {
			t.Errorf("after a checkpoint: follows %d, %+v", follow, s)
		}
	})
}

func TestCleanReleaseIsTakenAtOnce(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		_, b := p.worker("b")
		create(t, ctx, a, shard("s", ""))
		held := take(t, ctx, a, "s")
		watch := b.NewWatch()
		if ids := free(t, ctx, b, watch); len(ids) > 0 {
			t.Fatalf("free while held: %v", ids)
		}
		check(t, held.Release(ctx))
		if ids := free(t, ctx, b, watch); len(ids) != 1 {
			t.Fatalf("free after the release: %v", ids)
		}
		next := take(t, ctx, b, "s")
		if p.since() != 0 || next.Shard().Epoch != held.Shard().Epoch+1 || next.Shard().Owner != "b" {
			t.Errorf("after %s: %+v", p.since(), next.Shard())
		}
		if !errors.Is(context.Cause(held.Context()), checkpoint.ErrLeaseLost) {
			t.Error("the released lease lives")
		}
	})
}

// The next renewal settles a release or finish with an unknown outcome. From then on any worker may
// take the row, and the renewal must not hold it. Repeating the call is harmless.
func TestLastWriteIsSettledByARenewal(t *testing.T) {
	for name, last := range map[string]func(ctx context.Context, held *checkpoint.Lease) error{
		"release": func(ctx context.Context, held *checkpoint.Lease) error { return held.Release(ctx) },
		"finish":  func(ctx context.Context, held *checkpoint.Lease) error { return held.Finish(ctx, at(5)) },
		"declare": func(ctx context.Context, held *checkpoint.Lease) error {
			return held.Declare(ctx, checkpoint.Trimmed, "trimmed")
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(ctx context.Context, p *place) {
				ma, a := p.worker("a")
				create(t, ctx, a, shard("s", ""))
				held := take(t, ma.Context(), a, "s")
				keep(ma, held)
				p.store.OnSwap = func(context.Context, string, func() bool) (bool, error) {
					p.store.OnSwap = nil
					return false, errNoAnswer
				}
				if err := last(ctx, held); !errors.Is(err, errNoAnswer) {
					t.Fatal(err)
				}
				counter := row(t, ctx, a, "s").Counter
				p.sleep(ctx, 2*lease)
				if s := row(t, ctx, a, "s"); s.Owner != "" || s.Counter != counter+1 {
					t.Errorf("owner %q, %d writes since", s.Owner, s.Counter-counter)
				}
				if held.Context().Err() == nil {
					t.Error("the lease lives")
				}
				check(t, last(ctx, held))
				if s := row(t, ctx, a, "s"); s.Counter != counter+1 {
					t.Error("the repetition wrote again")
				}
			})
		})
	}
}
