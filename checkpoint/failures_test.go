package checkpoint_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
)

// failing is a ledger whose store fails the call with the given number, counted from arm; 0: none.
type failing struct {
	*testing.T
	store  *checkpointtest.Memory
	ledger *checkpoint.Ledger
	calls  int
	fails  int
}

// newFailing returns a ledger of a table with a finished shard, its waiting child, and a shard that
// was trimmed in an earlier generation.
func newFailing(t *testing.T) *failing {
	f := &failing{T: t, store: &checkpointtest.Memory{}}
	f.ledger = openOn(t, t.Context(), f.store, "w", lease)
	trimmed, done := lostBy(checkpoint.Trimmed, "t"), shard("p", "")
	trimmed.Generation, done.State, done.FirstRead = 0, checkpoint.Done, begin
	create(t, t.Context(), f.ledger, done, shard("c", "p"), trimmed)
	return f
}

// arm makes the call with the given number fail. A failed write is not executed.
func (f *failing) arm(n int) {
	f.fails = n
	next := func() error {
		if f.calls++; f.calls == f.fails {
			return errNoAnswer
		}
		return nil
	}
	f.store.OnRead = func(context.Context, string) error { return next() }
	f.store.OnSwap = func(_ context.Context, _ string, execute func() bool) (bool, error) {
		if err := next(); err != nil {
			return false, err
		}
		return execute(), nil
	}
}

// held leases the child before the store is armed.
func (f *failing) held() *checkpoint.Lease { return take(f.T, f.Context(), f.ledger, "c") }

func (f *failing) keeping() *checkpoint.Coordinator {
	f.Helper()
	lease, err := f.ledger.CoordinatorLease(f.Context(), source)
	check(f.T, err)
	k, err := f.ledger.TakeCoordinatorLease(f.Context(), lease)
	check(f.T, err)
	return k
}

// Every method of the ledger fails if any one of its calls does: unread rows are not missing rows,
// and a failed write is not done. The method succeeds when it is repeated after the store answers
// again.
func TestNoCallOfTheLedgerSwallowsAFailure(t *testing.T) {
	type operation = func(ctx context.Context) error
	witness := func(f *failing) checkpoint.Place { return checkpoint.Place{Store: f.store, Key: "witness"} }
	for name, prepare := range map[string]func(f *failing) operation{
		"open": func(f *failing) operation {
			return func(ctx context.Context) error {
				_, err := checkpoint.Open(ctx, f.store, "another", checkpoint.Options{Worker: "w", ID: "l"})
				return err
			}
		},
		"check": func(f *failing) operation { return f.ledger.Check },
		"cluster": func(f *failing) operation {
			return func(ctx context.Context) error { _, err := f.ledger.Cluster(ctx); return err }
		},
		"check the cluster": func(f *failing) operation {
			return func(ctx context.Context) error { return f.ledger.CheckCluster(ctx, "c1") }
		},
		"table": func(f *failing) operation {
			return func(ctx context.Context) error { _, _, err := f.ledger.Table(ctx, source); return err }
		},
		"tables": func(f *failing) operation {
			return func(ctx context.Context) error { _, err := f.ledger.Tables(ctx); return err }
		},
		"update a table": func(f *failing) operation {
			return func(ctx context.Context) error {
				_, err := f.ledger.UpdateTable(ctx, source, func(s *checkpoint.TableState) error { s.MappingHash = "h"; return nil })
				return err
			}
		},
		"check the mapping": func(f *failing) operation {
			_, _, err := f.ledger.CheckMapping(f.Context(), source, checkpoint.Mapping{Hash: "before"}, true)
			check(f.T, err)
			return func(ctx context.Context) error {
				_, _, err := f.ledger.CheckMapping(ctx, source, checkpoint.Mapping{Hash: "after"}, true)
				return err
			}
		},
		"raise": func(f *failing) operation {
			return func(ctx context.Context) error {
				_, err := f.ledger.Raise(ctx, source, 1, checkpoint.DeclaredGap{Kind: checkpoint.KindStream, Shard: "t", Reason: "lost"}, nil)
				return err
			}
		},
		"adopt": func(f *failing) operation {
			_, err := f.ledger.UpdateTable(f.Context(), source, func(s *checkpoint.TableState) error { s.Generation = 2; return nil })
			check(f.T, err)
			return func(ctx context.Context) error { _, err := f.ledger.Adopt(ctx, source); return err }
		},
		"adopt after another stream": func(f *failing) operation {
			_, err := f.ledger.UpdateTable(f.Context(), source, func(s *checkpoint.TableState) error { s.Generation, s.Label = 2, "l2"; return nil })
			check(f.T, err)
			return func(ctx context.Context) error { _, err := f.ledger.Adopt(ctx, source); return err }
		},
		"shards": func(f *failing) operation {
			check(f.T, f.ledger.CreateShard(f.Context(), shard("x", "of which the row is gone")))
			return func(ctx context.Context) error { _, err := f.ledger.Shards(ctx, source); return err }
		},
		"create a shard": func(f *failing) operation {
			return func(ctx context.Context) error { return f.ledger.CreateShard(ctx, shard("x", "")) }
		},
		"reopen": func(f *failing) operation {
			trimmed := row(f.T, f.Context(), f.ledger, "t")
			return func(ctx context.Context) error {
				return f.ledger.Reopen(ctx, trimmed, checkpoint.TableState{Label: label, Generation: 1})
			}
		},
		"remove": func(f *failing) operation {
			gone := row(f.T, f.Context(), f.ledger, "p")
			return func(ctx context.Context) error { return f.ledger.Remove(ctx, gone) }
		},
		"note what is open": func(f *failing) operation {
			return func(ctx context.Context) error {
				return f.ledger.NoteOpen(ctx, source, label, []string{"c"}, begin, map[string]bool{"c": true})
			}
		},
		"listings": func(f *failing) operation {
			check(f.T, f.ledger.NoteOpen(f.Context(), source, label, []string{"c"}, begin, map[string]bool{"c": true}))
			return func(ctx context.Context) error { _, err := f.ledger.Listings(ctx, source, label); return err }
		},
		"take": func(f *failing) operation {
			all := rows(f.T, f.Context(), f.ledger)
			child, parent := all["c"], all["p"]
			return func(ctx context.Context) error { _, err := f.ledger.Take(ctx, child, &parent); return err }
		},
		"commit": func(f *failing) operation {
			l := f.held()
			return func(ctx context.Context) error { return l.Commit(ctx, at(7)) }
		},
		"finish": func(f *failing) operation {
			l := f.held()
			return func(ctx context.Context) error { return l.Finish(ctx, at(7)) }
		},
		"declare": func(f *failing) operation {
			l := f.held()
			return func(ctx context.Context) error { return l.Declare(ctx, checkpoint.Trimmed, "lost") }
		},
		"release": func(f *failing) operation { return f.held().Release },
		"parts": func(f *failing) operation {
			state := loading(f.T, f.Context(), f.ledger, 1)
			return func(ctx context.Context) error {
				_, err := f.ledger.Parts(ctx, state, checkpoint.PhaseCopy)
				return err
			}
		},
		"take a part": func(f *failing) operation {
			loading(f.T, f.Context(), f.ledger, 1)
			free, _ := look(f.T, f.Context(), f.ledger, f.ledger.NewWatch())
			return func(ctx context.Context) error { _, err := f.ledger.TakePart(ctx, free[0]); return err }
		},
		"commit a part": func(f *failing) operation {
			loading(f.T, f.Context(), f.ledger, 1)
			l := takePart(f.T, f.Context(), f.ledger, 0)
			return func(ctx context.Context) error { return l.Commit(ctx, progress(1, "a")) }
		},
		"finish a part": func(f *failing) operation {
			loading(f.T, f.Context(), f.ledger, 1)
			l := takePart(f.T, f.Context(), f.ledger, 0)
			return func(ctx context.Context) error { return l.Finish(ctx, progress(1, "a")) }
		},
		"remove parts": func(f *failing) operation {
			loading(f.T, f.Context(), f.ledger, 1)
			takePart(f.T, f.Context(), f.ledger, 0)
			loading(f.T, f.Context(), f.ledger, 1)
			return func(ctx context.Context) error { return f.ledger.RemoveParts(ctx, source) }
		},
		"lease": func(f *failing) operation {
			return func(ctx context.Context) error { _, err := f.ledger.CoordinatorLease(ctx, source); return err }
		},
		"take the lease": func(f *failing) operation {
			lease, err := f.ledger.CoordinatorLease(f.Context(), source)
			check(f.T, err)
			return func(ctx context.Context) error { _, err := f.ledger.TakeCoordinatorLease(ctx, lease); return err }
		},
		"save a scan": func(f *failing) operation {
			k := f.keeping()
			return func(ctx context.Context) error { return k.SavePace(ctx, checkpoint.Pace{}) }
		},
		"release the coordinator lease": func(f *failing) operation { return f.keeping().Release },
		"beat": func(f *failing) operation {
			return func(ctx context.Context) error { _, _, err := f.ledger.Beat(ctx, source, witness(f)); return err }
		},
		"beat on what is lost": func(f *failing) operation {
			_, err := f.ledger.UpdateTable(f.Context(), source, func(s *checkpoint.TableState) error { s.WitnessBeat = 5; return nil })
			check(f.T, err)
			return func(ctx context.Context) error { _, _, err := f.ledger.Beat(ctx, source, witness(f)); return err }
		},
		"claim": func(f *failing) operation {
			return func(ctx context.Context) error { return f.ledger.Claim(ctx, source, witness(f)) }
		},
		"look at the witness": func(f *failing) operation {
			_, err := f.ledger.UpdateTable(f.Context(), source, func(s *checkpoint.TableState) error { s.WitnessBeat = 5; return nil })
			check(f.T, err)
			return func(ctx context.Context) error { _, err := f.ledger.Look(ctx, source, witness(f)); return err }
		},
	} {
		for n := 1; ; n++ {
			f := newFailing(t)
			op := prepare(f)
			f.arm(n)
			err := op(t.Context())
			if f.calls < n {
				if err != nil || n == 1 {
					t.Errorf("%s: of %d calls none failed: %v", name, f.calls, err)
				}
				break
			}
			if !errors.Is(err, errNoAnswer) {
				t.Errorf("%s: call %d failed, and it ended with %v", name, n, err)
			}
			if err := op(t.Context()); err != nil {
				t.Errorf("%s: call %d had failed, and the next attempt ended with %v", name, n, err)
			}
		}
	}
}

// A take that fails before its write leaves the row unchanged: values that it read are not written.
func TestATakeThatFailsLeavesTheRow(t *testing.T) {
	for n := 1; n <= 2; n++ { // the table's record, and the listings
		f := newFailing(t)
		all := rows(t, t.Context(), f.ledger)
		child, parent := all["c"], all["p"]
		f.arm(n)
		if _, err := f.ledger.Take(t.Context(), child, &parent); !errors.Is(err, errNoAnswer) {
			t.Errorf("call %d: %v", n, err)
		}
		f.arm(0)
		if left, found := rows(t, t.Context(), f.ledger)["c"]; !found || left.Counter != child.Counter || left.Epoch != child.Epoch || left.Owner != "" {
			t.Errorf("call %d: there is a row: %v, and it is %+v", n, found, left)
		}
	}
}

// A commit writes all of the progress. Its fields about the last page concern only that page.
func TestACommitIsAllOfTheProgress(t *testing.T) {
	f := newFailing(t)
	l := f.held()
	taken := l.Shard()
	before := taken.Progress()
	for n, caughtUp := range []bool{false, true, false} {
		p := checkpoint.Progress{
			Position: cdc.Position{After: cdc.SequenceOf(uint64(n + 1))}, EventTime: begin.Add(time.Duration(n) * time.Minute), CellTime: begin.Add(time.Duration(n) * time.Hour),
			FirstRead: begin, ReadAt: begin.Add(time.Duration(n+1) * time.Second), CaughtUp: caughtUp, Dropping: n == 0, Applied: before.Applied + uint64(n), Shown: checkpoint.Shown{Rate: float64(n)},
		}
		check(t, l.Commit(t.Context(), p))
		for where, s := range map[string]checkpoint.Shard{"the lease": l.Shard(), "the row": row(t, t.Context(), f.ledger, "c")} {
			if got := s.Progress(); got != p {
				t.Errorf("commit %d, in %s: %+v, want %+v", n, where, got, p)
			}
		}
	}
}

// H34: a shard that was first leased while its parent had a row is no root, even after that row is
// removed. A shard without a parent's row is one.
func TestWhoHasAParentIsNoRoot(t *testing.T) {
	f := newFailing(t)
	check(t, f.ledger.CreateShard(t.Context(), shard("r", "")))
	child, root := f.held().Shard(), take(t, t.Context(), f.ledger, "r").Shard()
	if got := checkpoint.Roots([]checkpoint.Shard{child, root}, label); len(got) != 1 || got[0].ID != "r" {
		t.Errorf("the roots are %+v", got)
	}
}

// A released shard cannot be finished, nor a finished one released. The row's state shows whether
// an earlier write with an unknown outcome was the caller's.
func TestWhatWasReleasedIsNotDone(t *testing.T) {
	f := newFailing(t)
	l := f.held()
	check(t, l.Release(t.Context()))
	check(t, l.Release(t.Context())) // as after an unknown outcome
	if err := l.Finish(t.Context(), at(7)); !errors.Is(err, checkpoint.ErrLeaseLost) {
		t.Errorf("finished after it was released: %v", err)
	}
	if s := row(t, t.Context(), f.ledger, "c"); s.State != checkpoint.Reading {
		t.Errorf("it is %s", s.State)
	}
}

// A gap must be declared until its table's generation accounts for it. After that, the shard is
// read again if changes are left. Neither applies to a shard of another stream.
func TestWhatAGapIs(t *testing.T) {
	now := checkpoint.TableState{Label: label, Generation: 7}
	gap := func(change func(*checkpoint.Shard)) checkpoint.Shard {
		s := lostBy(checkpoint.Trimmed, "s")
		s.Label, s.Generation = label, 7
		change(&s)
		return s
	}
	for name, c := range map[string]struct {
		shard                  checkpoint.Shard
		undeclared, reopenable bool
	}{
		"of this generation":           {gap(func(*checkpoint.Shard) {}), true, false},
		"of a later one":               {gap(func(s *checkpoint.Shard) { s.Generation = 8 }), true, false},
		"of the one before":            {gap(func(s *checkpoint.Shard) { s.Generation = 6 }), false, true},
		"not found, of this one":       {gap(func(s *checkpoint.Shard) { s.Loss = checkpoint.NotFound }), true, false},
		"not found, of before":         {gap(func(s *checkpoint.Shard) { s.Loss, s.Generation = checkpoint.NotFound, 6 }), false, false},
		"of another stream":            {gap(func(s *checkpoint.Shard) { s.Label = "l0" }), false, false},
		"of another stream, of before": {gap(func(s *checkpoint.Shard) { s.Label, s.Generation = "l0", 6 }), false, false},
		"read":                         {gap(func(s *checkpoint.Shard) { s.State = checkpoint.Reading }), false, false},
		"read since before":            {gap(func(s *checkpoint.Shard) { s.State, s.Generation = checkpoint.Reading, 6 }), false, false},
		"done":                         {gap(func(s *checkpoint.Shard) { s.State, s.Generation = checkpoint.Done, 6 }), false, false},
	} {
		if u, r := c.shard.Undeclared(now), c.shard.Reopenable(now); u != c.undeclared || r != c.reopenable {
			t.Errorf("%s: to declare %v, to read on %v", name, u, r)
		}
	}
}

// H69: Look finds what a coordinator would find, and changes nothing: for a target that belongs to
// the ledger, a lost one, and one that another pipeline has written.
func TestALookAtTheWitness(t *testing.T) {
	f := newFailing(t)
	target := &checkpointtest.Memory{}
	at := checkpoint.Place{Store: target, Key: "witness"}
	look := func(want checkpoint.Verdict, when string) {
		t.Helper()
		before := table(t, t.Context(), f.ledger)
		got, err := f.ledger.Look(t.Context(), source, at)
		if after := table(t, t.Context(), f.ledger); err != nil || got != want || after.WitnessBeat != before.WitnessBeat {
			t.Errorf("%s: %d, %v; beat %d after %d", when, got, err, after.WitnessBeat, before.WitnessBeat)
		}
	}
	look(checkpoint.Fine, "before the first beat")
	for range 2 {
		if verdict, _, err := f.ledger.Beat(t.Context(), source, at); err != nil || verdict != checkpoint.Fine {
			t.Fatal(verdict, err)
		}
		look(checkpoint.Fine, "after a beat")
	}
	target.Clear()
	look(checkpoint.TargetLost, "the target is gone")
	other := openOn(t, t.Context(), &checkpointtest.Memory{}, "another", lease)
	create(t, t.Context(), other)
	if verdict, _, err := other.Beat(t.Context(), source, at); err != nil || verdict != checkpoint.Fine {
		t.Fatal(verdict, err)
	}
	look(checkpoint.LedgerBehind, "another pipeline has written it")
}
