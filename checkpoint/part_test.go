package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// loading begins a load with a number of parts in the table's generation.
func loading(t *testing.T, ctx context.Context, l *checkpoint.Ledger, parts int) checkpoint.TableState {
	t.Helper()
	create(t, ctx, l)
	state, err := l.UpdateTable(ctx, source, func(s *checkpoint.TableState) error {
		s.MappingHash = "h"
		s.Load = checkpoint.Load{Generation: s.Generation, Number: s.Load.Number + 1, Parts: parts, AskedAt: begin, StartedAt: begin}
		return nil
	})
	check(t, err)
	return state
}

// look returns a worker's view of the parts of the running phase.
func look(t *testing.T, ctx context.Context, l *checkpoint.Ledger, w *checkpoint.Watch) (free, held []checkpoint.Part) {
	t.Helper()
	state := table(t, ctx, l)
	parts, err := l.PartsOf(ctx, state.LoadPart())
	check(t, err)
	return w.LookParts(parts, state.LoadPart(), state, task.Mono(ctx))
}

func takePart(t *testing.T, ctx context.Context, l *checkpoint.Ledger, index int) *checkpoint.PartLease {
	t.Helper()
	free, _ := look(t, ctx, l, l.NewWatch())
	for _, p := range free {
		if p.Index == index {
			held, err := l.TakePart(ctx, p)
			check(t, err)
			return held
		}
	}
	t.Fatalf("part %d is not free", index)
	return nil
}

func progress(items int64, position string) checkpoint.PartProgress {
	return checkpoint.PartProgress{Items: items, Position: fmt.Appendf(nil, "%q", position), Bytes: items * 10, Units: 0.5, Rate: 3}
}

// TestH98_APartIsGoneOnWithByOne: a worker is paused, another one continues from its last commit,
// and later writes of the first one are refused.
func TestH98_APartIsGoneOnWithByOne(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		ma, a := p.worker("a")
		_, b := p.worker("b")
		loading(t, ctx, a, 2)
		first := takePart(t, ma.Context(), a, 1)
		check(t, first.Commit(ctx, progress(5, "e")))
		watch := b.NewWatch()
		free, held := look(t, ctx, b, watch)
		if len(free) != 1 || free[0].Index != 0 || len(held) != 1 || held[0].Owner != "a" {
			t.Fatalf("free %+v, held %+v", free, held)
		}
		p.sleep(ctx, lease)
		free, held = look(t, ctx, b, watch)
		if len(free) != 2 || len(held) != 0 {
			t.Fatalf("after a lease free %+v, held %+v", free, held)
		}
		second, err := b.TakePart(ctx, free[1])
		check(t, err)
		if got := second.Part(); string(got.Position) != `"e"` || got.Items != 5 || got.Epoch != 2 || got.Owner != "b" {
			t.Errorf("taken over as %+v", got)
		}
		if err := first.Commit(ctx, progress(9, "z")); !errors.Is(err, checkpoint.ErrLeaseLost) {
			t.Errorf("the first one's commit: %v", err)
		}
		if err := second.Commit(ctx, progress(4, "d")); !errors.Is(err, checkpoint.ErrPositionBack) {
			t.Errorf("back: %v", err)
		}
		check(t, second.Finish(ctx, progress(8, "")))
		check(t, second.Finish(ctx, progress(8, ""))) // as after an unknown outcome
		free, held = look(t, ctx, b, watch)
		parts, err := b.Parts(ctx, table(t, ctx, b), checkpoint.PhaseCopy)
		check(t, err)
		if ended := parts[0]; ended.Position != nil || ended.Rate != 0 || ended.Items != 8 {
			t.Errorf("ended as %+v", ended)
		}
		if _, err := b.TakePart(ctx, parts[0]); !errors.Is(err, checkpoint.ErrTaken) {
			t.Errorf("a part that is done is taken: %v", err)
		}
		if len(free) != 1 || free[0].Index != 0 || len(held) != 0 {
			t.Errorf("after its end free %+v, held %+v", free, held)
		}
	})
}

// A released part is free immediately, and continues at its position.
func TestAReleasedPartIsFree(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		ma, a := p.worker("a")
		_, b := p.worker("b")
		loading(t, ctx, a, 1)
		held := takePart(t, ma.Context(), a, 0)
		ma.Go("keep", func() { _ = held.Keep() })
		p.sleep(ctx, 5*lease)
		if free, _ := look(t, ctx, b, b.NewWatch()); len(free) != 0 {
			t.Error("free while its lease is renewed")
		}
		check(t, held.Commit(ctx, progress(5, "e")))
		check(t, held.Release(ctx))
		if got := takePart(t, ctx, b, 0).Part(); got.Items != 5 || string(got.Position) != `"e"` || got.Rate != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// TestH98_OnlyPartsOfTheLoadThatRuns: a part that was seen as free is not leased once its load was
// replaced, is paused or is over. It is not seen as free then either.
func TestH98_OnlyPartsOfTheLoadThatRuns(t *testing.T) {
	for name, change := range map[string]func(s *checkpoint.TableState){
		"paused":             func(s *checkpoint.TableState) { s.Load.Paused = "operator" },
		"another load":       func(s *checkpoint.TableState) { s.Load.Number++ },
		"another division":   func(s *checkpoint.TableState) { s.Load.Parts++ },
		"raised":             func(s *checkpoint.TableState) { s.Generation++ },
		"copied":             func(s *checkpoint.TableState) { s.Load.DoneAt = begin },
		"sweeping":           func(s *checkpoint.TableState) { s.Load.DoneAt, s.Load.Sweep.Pass, s.Load.Sweep.Parts = begin, 1, 2 },
		"under another rule": func(s *checkpoint.TableState) { s.MappingHash = "other" },
	} {
		virtually(t, func(ctx context.Context, p *place) {
			_, a := p.worker("a")
			loading(t, ctx, a, 2)
			_, _, err := a.CheckMapping(ctx, source, checkpoint.Mapping{Hash: "h"}, false)
			check(t, err)
			watch := a.NewWatch()
			free, _ := look(t, ctx, a, watch)
			_, err = a.UpdateTable(ctx, source, func(s *checkpoint.TableState) error { change(s); return nil })
			check(t, err)
			want := checkpoint.ErrTaken
			if name == "under another rule" {
				want = checkpoint.ErrMappingChanged
			}
			if _, err := a.TakePart(ctx, free[0]); !errors.Is(err, want) {
				t.Errorf("%s: %v", name, err)
			}
			now, _ := look(t, ctx, a, watch)
			switch got := len(now); {
			case name == "sweeping" && (got != 2 || now[0].Phase != "sweep-1"), (name == "paused" || name == "raised" || name == "copied") && got != 0:
				t.Errorf("%s: free are %+v", name, now)
			}
		})
	}
}

// TestH98_DoneIsAllOfThem: a phase is complete when each of its parts has its own row and is done.
// Rows of another division do not count.
func TestH98_DoneIsAllOfThem(t *testing.T) {
	part := func(index, total int, state checkpoint.PartState) checkpoint.Part {
		return checkpoint.Part{Index: index, Total: total, State: state, Owner: "w", PartProgress: progress(2, "x")}
	}
	for name, c := range map[string]struct {
		rows []checkpoint.Part
		want bool
	}{
		"all":                   {[]checkpoint.Part{part(0, 2, "done"), part(1, 2, "done")}, true},
		"one is open":           {[]checkpoint.Part{part(0, 2, "done"), part(1, 2, "open")}, false},
		"one has no row":        {[]checkpoint.Part{part(0, 2, "done")}, false},
		"one twice":             {[]checkpoint.Part{part(0, 2, "done"), part(0, 2, "done")}, false},
		"one of more":           {[]checkpoint.Part{part(0, 2, "done"), part(1, 3, "done")}, false},
		"one that is too many":  {[]checkpoint.Part{part(0, 2, "done"), part(2, 2, "done")}, false},
		"one before the others": {[]checkpoint.Part{part(0, 2, "done"), part(-1, 2, "done")}, false},
	} {
		if got := checkpoint.PartsDone(c.rows, 2); got.Complete() != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if checkpoint.PartsDone(nil, 0).Complete() {
		t.Error("a phase that is not sealed is complete")
	}
	rows := []checkpoint.Part{part(0, 2, "done"), part(1, 2, "open")}
	rows[0].Removed, rows[1].Put = 3, 4
	want := checkpoint.Sums{Total: 2, Done: 1, Held: 1, Items: 4, Bytes: 40, Units: 1, Rate: 6, Counts: checkpoint.Counts{Put: 4, Removed: 3}}
	if got := checkpoint.PartsDone(rows, 2); got != want {
		t.Errorf("sums are %+v", got)
	}
}

// Rows of past loads are removed, but none of a load that runs or was sealed meanwhile.
func TestPartsOfLoadsThatAreOverAreRemoved(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		loading(t, ctx, a, 1)
		check(t, takePart(t, ctx, a, 0).Finish(ctx, progress(1, "")))
		left := func() (n int) {
			check(t, a.RemoveParts(ctx, source))
			all, err := p.store.Read(ctx, "p/part/T/")
			check(t, err)
			return len(all)
		}
		if n := left(); n != 1 {
			t.Errorf("while it runs %d rows are left", n)
		}
		loading(t, ctx, a, 3)
		takePart(t, ctx, a, 2)
		if n := left(); n != 1 {
			t.Errorf("after another was sealed %d rows are left", n)
		}
		sealed, err := a.UpdateTable(ctx, source, func(s *checkpoint.TableState) error { s.Load.Number--; return nil })
		check(t, err)
		if n := left(); n != 1 { // as if it was sealed after the table's record was read
			t.Errorf("of a load that is sealed meanwhile %d rows are left", n)
		}
		_, err = a.UpdateTable(ctx, source, func(s *checkpoint.TableState) error { s.Load.Number = sealed.Load.Number + 1; return nil })
		check(t, err)
		_, err = a.Raise(ctx, source, 1, trimmed, nil)
		check(t, err)
		if n := left(); n != 0 {
			t.Errorf("after a raise %d rows are left", n)
		}
	})
}

func TestPartsToTake(t *testing.T) {
	free := make([]checkpoint.Part, 100)
	for i := range free {
		free[i].Index = i
	}
	type counts = map[string]int
	for name, c := range map[string]struct {
		free           int
		held           counts
		workers, limit int
		want           int
	}{
		"alone":                    {100, nil, 1, 8, 8},
		"alone, all":               {5, nil, 1, 8, 5},
		"of three":                 {9, nil, 3, 8, 3},
		"rounded up":               {10, nil, 3, 8, 4},
		"holding some":             {6, counts{"me": 2, "b": 4}, 2, 8, 4},
		"holding its share":        {2, counts{"me": 4, "b": 2}, 2, 8, 0},
		"more hold than are known": {4, counts{"b": 1, "c": 1}, 1, 8, 2},
		"no worker is known":       {4, nil, 0, 8, 4},
		"at its limit":             {50, counts{"me": 8}, 2, 8, 0},
		"above a limit that fell":  {50, counts{"me": 8}, 1, 3, 0},
		"none are free":            {0, counts{"b": 9}, 2, 8, 0},
		"a limit of none":          {9, nil, 1, 0, 0},
	} {
		taken := checkpoint.PartsToTake(free[:c.free], c.held, "me", c.workers, c.limit)
		seen := map[int]bool{}
		for _, p := range taken {
			seen[p.Index] = true
		}
		if len(taken) != c.want || len(seen) != c.want {
			t.Errorf("%s: takes %d, of them different ones %d", name, len(taken), len(seen))
		}
	}
	// Workers that read the parts at the same time mostly choose different ones.
	wanted := map[int]int{}
	for worker := range 10 {
		for _, p := range checkpoint.PartsToTake(free, nil, fmt.Sprint("worker-", worker), 10, 4) {
			wanted[p.Index]++
		}
	}
	if len(wanted) < 25 {
		t.Errorf("10 workers want %d different parts of 40", len(wanted))
	}
}

// TestH98_EveryPartIsDoneOnce: workers come and go, each under its own leases. Every part is done
// completely, and by only one worker at a time.
func TestH98_EveryPartIsDoneOnce(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, coordinator := p.worker("keeper")
		loading(t, ctx, coordinator, 20)
		busy := map[int]string{}
		for n := range 4 {
			name := fmt.Sprint("w", n)
			m, l := p.worker(name)
			m.Go("work", func() {
				watch := l.NewWatch()
				for {
					free, held := look(t, m.Context(), l, watch)
					owners := map[string]int{}
					for _, h := range held {
						owners[h.Owner]++
					}
					for _, f := range checkpoint.PartsToTake(free, owners, name, 4, 3) {
						got, err := l.TakePart(m.Context(), f)
						if errors.Is(err, checkpoint.ErrTaken) {
							continue
						}
						check(t, err)
						if busy[f.Index] != "" {
							t.Errorf("part %d is taken by %s while %s works on it", f.Index, name, busy[f.Index])
						}
						busy[f.Index] = name
						_ = task.Sleep(got.Context(), 2*time.Second)
						busy[f.Index] = ""
						check(t, got.Finish(m.Context(), progress(1, "")))
					}
					if task.Sleep(m.Context(), time.Second) != nil {
						return
					}
				}
			})
		}
		p.sleep(ctx, time.Minute)
		state := table(t, ctx, coordinator)
		parts, err := coordinator.Parts(ctx, state, checkpoint.PhaseCopy)
		check(t, err)
		if sums := checkpoint.PartsDone(parts, 20); !sums.Complete() || sums.Items != 20 {
			t.Errorf("%+v", sums)
		}
	})
}

// A load's times come from the service's clock, even if the worker's clock is wrong: when a part is
// taken and done, and the steps of the load.
func TestLoadsAreDatedByTheService(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, l := p.worker("a")
		service := task.Now(ctx).Add(-time.Hour) // the worker's clock is an hour ahead
		l.Heard(ctx, service)
		near := func(what string, at time.Time) {
			t.Helper()
			if d := at.Sub(service); d < 0 || d > time.Minute {
				t.Errorf("%s: %s after the service's time", what, d)
			}
		}
		loading(t, ctx, l, 1)
		held := takePart(t, ctx, l, 0)
		near("begun", held.Part().Begun)
		check(t, held.Finish(ctx, checkpoint.PartProgress{Items: 1}))
		done := held.Part()
		near("done", done.ByService(done.WrittenAt))
		state := table(t, ctx, l)
		rows, err := l.Parts(ctx, state, checkpoint.PhaseCopy)
		check(t, err)
		state, err = l.CompleteCopy(ctx, state, checkpoint.PartsDone(rows, 1))
		check(t, err)
		near("copied", state.Load.DoneAt)
	})
}
