package checkpoint_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
)

// in is a shard row in a state. A row with an owner is being read.
func in(state checkpoint.State, id, parent, owner string) checkpoint.Shard {
	s := shard(id, parent)
	s.State, s.Owner, s.Counter = state, owner, 7
	return s
}

func ids(shards []checkpoint.Shard) string {
	var ids []string
	for _, s := range shards {
		ids = append(ids, s.ID)
	}
	return strings.Join(ids, " ")
}

func freeIDs(free []checkpoint.Available) string {
	var shards []checkpoint.Shard
	for _, f := range free {
		shards = append(shards, *f.Shard)
	}
	return ids(shards)
}

// A shard that was read to its end may have children without rows until a listing has shown them all.
func TestIncomplete(t *testing.T) {
	for name, c := range map[string]struct {
		shard checkpoint.Shard
		want  bool
	}{
		"reading":  {checkpoint.Shard{State: checkpoint.Reading}, false},
		"waiting":  {checkpoint.Shard{State: checkpoint.Waiting}, false},
		"gap":      {checkpoint.Shard{State: checkpoint.Gap}, false},
		"done":     {checkpoint.Shard{State: checkpoint.Done}, true},
		"settling": {checkpoint.Shard{State: checkpoint.Reading, EndedAt: time.Unix(1, 0)}, true},
		"complete": {checkpoint.Shard{State: checkpoint.Done, Complete: true}, false},
	} {
		if got := c.shard.Incomplete(); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// following is the state of a table that follows the tests' stream.
var following = checkpoint.TableState{Label: label, Generation: 1}

// undeclared is a gap that its finder could not declare.
func undeclared(id string) checkpoint.Shard {
	s := lostBy(checkpoint.NotFound, id)
	s.Generation = 2
	return s
}

func lostBy(loss checkpoint.Loss, id string) checkpoint.Shard {
	s := in(checkpoint.Gap, id, "", "")
	s.Loss = loss
	return s
}

// TestH66_Overtaken: a late shard is read only if all that descends from it is of this generation,
// or was never begun.
func TestH66_Overtaken(t *testing.T) {
	parents := map[string]string{"late": "", "p": "late", "c": "p", "other": ""}
	for name, c := range map[string]struct {
		id    string
		state checkpoint.State
		began uint32
		want  bool
	}{
		"applied in an earlier generation":      {"c", checkpoint.Reading, 6, true},
		"done in an earlier generation":         {"c", checkpoint.Done, 6, true},
		"by a version that kept no generation":  {"c", checkpoint.Done, 0, true},
		"never begun":                           {"c", checkpoint.Waiting, 6, false},
		"of this generation":                    {"c", checkpoint.Reading, 7, false},
		"of another lineage":                    {"other", checkpoint.Reading, 6, false},
		"the shard itself is known by a damage": {"late", checkpoint.Reading, 6, false},
	} {
		row := in(c.state, c.id, parents[c.id], "")
		row.Began = c.began
		if got := checkpoint.Overtaken("late", []checkpoint.Shard{row}, parents, 7); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestH12_H14_Free(t *testing.T) {
	const waiting, reading, done = checkpoint.Waiting, checkpoint.Reading, checkpoint.Done
	otherStream := in(waiting, "old", "", "")
	otherStream.Label = "l0"
	otherParent := in(done, "p", "", "")
	otherParent.Label = "l0"
	for _, test := range []struct {
		name   string
		shards []checkpoint.Shard
		want   string
	}{
		{"roots", []checkpoint.Shard{in(waiting, "a", "", ""), in(waiting, "b", "", "")}, "a b"},
		{"H12: the parent waits", []checkpoint.Shard{in(waiting, "p", "", ""), in(waiting, "c", "p", "")}, "p"},
		{"H12: the parent is read", []checkpoint.Shard{in(reading, "p", "", "x"), in(waiting, "c", "p", "")}, ""},
		{"H12: the parent was released", []checkpoint.Shard{in(reading, "p", "", ""), in(waiting, "c", "p", "")}, "p"},
		{"the parent is done", []checkpoint.Shard{in(done, "p", "", ""), in(waiting, "c", "p", ""), in(waiting, "d", "p", "")}, "c d"},
		{"H12: the parent is done, the grandparent not", []checkpoint.Shard{in(waiting, "g", "", ""), in(waiting, "p", "g", ""), in(waiting, "c", "p", "")}, "g"},
		{"the parent is not to be found", []checkpoint.Shard{lostBy(checkpoint.NotFound, "p"), in(waiting, "c", "p", "")}, "c"},
		{"the parent is not to be found, which is not declared", []checkpoint.Shard{undeclared("p"), in(waiting, "c", "p", "")}, ""},
		{"the parent was listed too late", []checkpoint.Shard{lostBy(checkpoint.Late, "p"), in(waiting, "c", "p", "")}, "c"},
		{"H12: the parent was trimmed and is reopened first", []checkpoint.Shard{lostBy(checkpoint.Trimmed, "p"), in(waiting, "c", "p", "")}, ""},
		{"H14: the ledger does not know the parent", []checkpoint.Shard{in(waiting, "c", "gone", "")}, "c"},
		{"a shard that is read", []checkpoint.Shard{in(reading, "a", "", "x")}, ""},
		{"finished shards", []checkpoint.Shard{in(done, "a", "", ""), lostBy(checkpoint.NotFound, "b")}, ""},
		{"a shard of another stream", []checkpoint.Shard{otherStream}, ""},
		{"H12: a parent of the same name in another stream", []checkpoint.Shard{otherParent, in(waiting, "p", "", ""), in(waiting, "c", "p", "")}, "p"},
		{"H12: the same, after it", []checkpoint.Shard{in(waiting, "p", "", ""), in(waiting, "c", "p", ""), otherParent}, "p"},
		{"the order given", []checkpoint.Shard{in(waiting, "z", "", ""), in(waiting, "m", "", ""), in(waiting, "a", "", "")}, "z m a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			virtually(t, func(_ context.Context, p *place) {
				_, l := p.worker("w")
				got, held := l.NewWatch().Look(test.shards, checkpoint.TableState{Label: label, Generation: 2}, 0)
				if freeIDs(got) != test.want {
					t.Errorf("free: %q, want %q", freeIDs(got), test.want)
				}
				for _, h := range held {
					if h.Shard.Owner == "" || h.Shard.Finished() || h.Shard.Label != label {
						t.Errorf("%s is held, by %q", h.Shard.ID, h.Shard.Owner)
					}
				}
				for _, f := range got {
					if i := slices.IndexFunc(test.shards, func(s checkpoint.Shard) bool { return s.ID == f.Shard.Parent && s.Label == label }); (f.Parent != nil) != (i >= 0) {
						t.Errorf("%s comes with the parent %v", f.Shard.ID, f.Parent)
					}
				}
			})
		})
	}
}

// Expiry is the counter standing still for a lease's duration on the watcher's clock, and nothing else.
func TestH64_ExpiryByCounterAlone(t *testing.T) {
	virtually(t, func(_ context.Context, p *place) {
		_, l := p.worker("w")
		watch := l.NewWatch()
		at := func(now time.Duration, counter uint64) bool {
			s := in(checkpoint.Reading, "a", "", "x")
			s.Counter, s.EventTime, s.ReadAt = counter, begin.Add(1000*time.Hour), begin.Add(-1000*time.Hour)
			free, held := watch.Look([]checkpoint.Shard{s}, following, now)
			if len(free)+len(held) != 1 {
				t.Errorf("%d free, %d held", len(free), len(held))
			}
			return len(free) == 1
		}
		for _, step := range []struct {
			now     time.Duration
			counter uint64
			free    bool
		}{
			{100 * time.Hour, 7, false}, // first seen: as if renewed just then
			{100*time.Hour + lease - 1, 7, false},
			{100*time.Hour + lease, 7, true},
			{100*time.Hour + lease, 8, false}, // renewed
			{100*time.Hour + 2*lease - 1, 8, false},
			{100*time.Hour + 2*lease - 1, 5, false}, // removed and created again: another counter, though a lower one
			{100*time.Hour + 3*lease - 2, 5, false},
			{100*time.Hour + 3*lease - 1, 5, true},
		} {
			if got := at(step.now, step.counter); got != step.free {
				t.Errorf("at %s with counter %d: free %v", step.now, step.counter, got)
			}
		}
		watch.Look(nil, following, 0) // the row was removed, and is forgotten
		if at(200*time.Hour, 5) {
			t.Error("a row that was removed and came again counts as watched meanwhile")
		}
	})
}

func TestCoordinatorLease(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		ma, a := p.worker("a")
		mb, b := p.worker("b")
		watch := b.NewWatch()
		lease := func() checkpoint.CoordinatorLease {
			s, err := b.CoordinatorLease(ctx, source)
			check(t, err)
			return s
		}
		empty := lease()
		if !watch.CoordinatorLeaseFree(empty, p.since()) {
			t.Fatal("the coordinator lease that nobody ever took is not free")
		}
		first, err := a.TakeCoordinatorLease(ma.Context(), empty)
		check(t, err)
		ma.Go("keep", func() { _ = first.Keep() })
		if _, err := b.TakeCoordinatorLease(ctx, empty); !errors.Is(err, checkpoint.ErrTaken) {
			t.Fatalf("two took the coordinator lease: %v", err)
		}
		check(t, first.SavePace(ctx, checkpoint.Pace{}))
		for range 60 {
			if s := lease(); watch.CoordinatorLeaseFree(s, p.since()) || s.Owner() != "a" {
				t.Fatalf("free while %q keeps it", s.Owner())
			}
			p.sleep(ctx, time.Second)
		}
		ma.Pause(time.Minute)
		for !watch.CoordinatorLeaseFree(lease(), p.since()) {
			p.sleep(ctx, time.Second)
		}
		second, err := b.TakeCoordinatorLease(mb.Context(), lease())
		check(t, err)
		if second.Epoch() != first.Epoch()+1 {
			t.Errorf("epoch %d after %d", second.Epoch(), first.Epoch())
		}
		p.sleep(ctx, time.Minute)
		if err := first.SavePace(ctx, checkpoint.Pace{}); !errors.Is(err, checkpoint.ErrLeaseLost) || first.Context().Err() == nil {
			t.Errorf("the coordinator that stood still goes on: %v", err)
		}
		if second.Context().Err() != nil {
			// Nobody kept it, but nobody took it either.
			t.Errorf("%v", context.Cause(second.Context()))
		}
		check(t, second.Release(ctx))
		check(t, second.Release(ctx))
		if !watch.CoordinatorLeaseFree(lease(), p.since()) || second.Context().Err() == nil {
			t.Error("the coordinator lease is not free after its release")
		}
	})
}

func TestH16_H76_Removable(t *testing.T) {
	long := begin.Add(-48 * time.Hour)
	done := func(id, parent string) checkpoint.Shard {
		s := in(checkpoint.Done, id, parent, "")
		s.DoneAt = long
		return s
	}
	recent := done("p", "")
	recent.DoneAt = long.Add(time.Second)
	gap := lostBy(checkpoint.NotFound, "p")
	gap.DoneAt = long
	trimmed, oldTrimmed := lostBy(checkpoint.Trimmed, "c"), lostBy(checkpoint.Trimmed, "p")
	trimmed.Parent, trimmed.DoneAt, oldTrimmed.DoneAt, oldTrimmed.Label = "p", long, long, "l0"
	old := done("p", "")
	old.Label = "l0"
	oldChild := in(checkpoint.Waiting, "c", "p", "")
	oldChild.Label = "l0"
	child := in(checkpoint.Reading, "c", "p", "x")
	for _, test := range []struct {
		name   string
		shards []checkpoint.Shard
		listed string
		ended  bool
		want   string
	}{
		{"done, and so are its children", []checkpoint.Shard{done("p", ""), done("c", "p"), done("d", "p")}, "", false, "p"},
		{"H16: still listed", []checkpoint.Shard{done("p", ""), done("c", "p")}, "p c", false, ""},
		{"H76: without known children", []checkpoint.Shard{done("p", "")}, "", false, ""},
		{"without known children, the stream has ended", []checkpoint.Shard{done("p", "")}, "", true, "p"},
		{"still listed, the stream has ended", []checkpoint.Shard{done("p", "")}, "p", true, ""},
		{"a child is being read", []checkpoint.Shard{done("p", ""), child, done("d", "p")}, "", false, ""},
		{"a child is being read, the stream has ended", []checkpoint.Shard{done("p", ""), child}, "", true, ""},
		{"ended less than 48 hours ago", []checkpoint.Shard{recent, done("c", "p")}, "", false, ""},
		{"a child that will be reopened", []checkpoint.Shard{done("p", ""), trimmed}, "", true, ""},
		{"trimmed in a stream that was replaced", []checkpoint.Shard{oldTrimmed}, "", false, "p"},
		{"a gap", []checkpoint.Shard{gap, done("c", "p")}, "", false, "p"},
		{"H76: before its parent, on whose end another clock says that it is recent", []checkpoint.Shard{done("d", "c"), done("c", "p"), recent}, "", true, ""},
		{"parents first", []checkpoint.Shard{done("d", "c"), done("c", "p"), done("p", "")}, "", false, "p c"},
		{"never finished", []checkpoint.Shard{in(checkpoint.Waiting, "a", "", ""), in(checkpoint.Reading, "b", "", "")}, "", true, ""},
		{"of a replaced stream", []checkpoint.Shard{old}, "p", false, "p"},
		{"of a replaced stream, with a child that is not settled", []checkpoint.Shard{old, oldChild}, "", false, ""},
		{"a child of the same name in another stream", []checkpoint.Shard{done("p", ""), old, oldChild}, "", false, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var listed []cdc.Shard
			for _, id := range strings.Fields(test.listed) {
				listed = append(listed, cdc.Shard{ID: id})
			}
			if got := checkpoint.Removable(test.shards, label, listed, test.ended, begin); ids(got) != test.want {
				t.Errorf("removable: %q, want %q", ids(got), test.want)
			}
		})
	}
}

func TestRemove(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		create(t, ctx, a, shard("s", ""))
		seen := row(t, ctx, a, "s")
		take(t, ctx, a, "s")
		check(t, a.Remove(ctx, seen)) // somebody was faster: nothing happens
		check(t, a.Remove(ctx, row(t, ctx, a, "s")))
		if left := rows(t, ctx, a); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

func TestCreateShardLeavesWhatIsThere(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		create(t, ctx, a, shard("s", ""))
		check(t, take(t, ctx, a, "s").Commit(ctx, at(9)))
		before := row(t, ctx, a, "s")
		check(t, a.CreateShard(ctx, shard("s", "")))
		if after := row(t, ctx, a, "s"); after != before {
			t.Errorf("%+v became %+v", before, after)
		}
	})
}

// H66: two coordinators that overlap ranked a child from different listings. Before anything of it is read its hop is above its parent's.
func TestH66_HopIsAboveTheParents(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		parent, child := shard("a", ""), shard("b", "a")
		parent.Hop, child.Hop = 500_003, 500_001
		create(t, ctx, a, parent, child)
		check(t, take(t, ctx, a, "a").Finish(ctx, at(1)))
		held := take(t, ctx, a, "b")
		if hop := held.Shard().Hop; hop != 500_004 {
			t.Errorf("hop %d", hop)
		}
	})
}

// What a shard has from its parent is settled when it is first leased. Whoever takes it over goes on with what was read since: a
// shard that has begun to keep changes must not drop any again, and its hop may not move under changes that were applied.
func TestInheritedOnce(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		lineage(t, ctx, a, 2)
		parent := at(5)
		parent.EventTime, parent.CellTime, parent.Dropping = begin, begin, true
		check(t, take(t, ctx, a, "a").Finish(ctx, parent))
		held := take(t, ctx, a, "b")
		if s := held.Shard(); !s.Dropping || !s.CellTime.Equal(begin) {
			t.Fatalf("%+v", s)
		}
		check(t, held.Release(ctx))
		if s := take(t, ctx, a, "b").Shard(); !s.Dropping {
			t.Fatal("nothing was read, but it keeps changes")
		}
		kept := checkpoint.Progress{FirstRead: begin, CellTime: begin.Add(time.Second)}
		check(t, take(t, ctx, a, "b").Commit(ctx, kept))
		s := take(t, ctx, a, "b").Shard()
		if s.Dropping || !s.CellTime.Equal(kept.CellTime) || !s.FirstRead.Equal(begin) {
			t.Errorf("%+v", s)
		}
	})
}

// A child's row is made while its parent drops what is from before the cut. If the parent has come to keep changes since, nothing of the child is dropped,
// however it is dated.
func TestAChildKeepsWhatItsParentCameToKeep(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		parent, child := shard("a", ""), shard("b", "a")
		parent.Dropping, child.Dropping = true, true
		create(t, ctx, a, parent, child)
		check(t, take(t, ctx, a, "a").Finish(ctx, at(1)))
		if take(t, ctx, a, "b").Shard().Dropping {
			t.Error("the child drops")
		}
	})
}

// A shard whose children were gone before anybody listed them is not waited for, and asked about, for ever.
func TestH13_H76_AwaitsChildren(t *testing.T) {
	for _, test := range []struct {
		state checkpoint.State
		since time.Duration
		want  bool
	}{
		{checkpoint.Done, 0, true}, {checkpoint.Done, -time.Hour, true}, {checkpoint.Done, 24*time.Hour - 1, true}, {checkpoint.Done, 24 * time.Hour, false},
		{checkpoint.Gap, 0, false}, {checkpoint.Reading, 0, false},
	} {
		s := in(test.state, "s", "", "")
		s.DoneAt = begin
		if got := s.AwaitsChildren(begin.Add(test.since)); got != test.want {
			t.Errorf("%s since %s: %v", test.state, test.since, got)
		}
	}
}

// What follows a shard that ended is not known before a listing of a day after its end, whatever the clock says: nobody may have listed for days.
func TestH13_H76_Unfollowed(t *testing.T) {
	done := func(id, parent string, change func(*checkpoint.Shard)) checkpoint.Shard {
		s := in(checkpoint.Done, id, parent, "")
		s.Label, s.DoneAt = label, begin
		if change != nil {
			change(&s)
		}
		return s
	}
	elsewhere := func(s *checkpoint.Shard) { s.Label = "another" }
	open := func(s *checkpoint.Shard) { s.State = checkpoint.Reading }
	lost := func(s *checkpoint.Shard) { s.State, s.Loss = checkpoint.Gap, checkpoint.NotFound }
	live := checkpoint.TableState{Label: label}
	over := checkpoint.TableState{Label: label, StreamEnded: true}
	for name, test := range map[string]struct {
		table  checkpoint.TableState
		shards []checkpoint.Shard
		listed time.Duration // after begin; 0: never
		want   string
	}{
		"never listed since":              {live, []checkpoint.Shard{done("a", "", nil)}, 0, "a"},
		"listed soon":                     {live, []checkpoint.Shard{done("a", "", nil)}, time.Minute, "a"},
		"listed within a day":             {live, []checkpoint.Shard{done("a", "", nil)}, 24*time.Hour - 1, "a"},
		"listed after a day":              {live, []checkpoint.Shard{done("a", "", nil)}, 24 * time.Hour, ""},
		"the stream ended":                {over, []checkpoint.Shard{done("a", "", nil)}, 0, ""},
		"a stream of before":              {live, []checkpoint.Shard{done("a", "", elsewhere)}, 0, ""},
		"a child is known":                {live, []checkpoint.Shard{done("a", "", nil), done("b", "a", open)}, 0, ""},
		"a child of another stream":       {live, []checkpoint.Shard{done("a", "", nil), done("b", "a", elsewhere)}, 0, "a"},
		"the last of a lineage":           {live, []checkpoint.Shard{done("a", "", nil), done("b", "a", nil)}, 0, "b"},
		"what does not end, and is a gap": {live, []checkpoint.Shard{done("a", "", open), done("b", "", lost)}, 0, ""},
	} {
		var listed time.Time
		if test.listed > 0 {
			listed = begin.Add(test.listed)
		}
		var got []string
		for _, s := range checkpoint.Unfollowed(test.table, test.shards, listed) {
			got = append(got, s.ID)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// torn is a store whose next read of a range begins a while before it ends: what is done meanwhile is seen beyond the first row alone.
type torn struct {
	checkpoint.Store
	meanwhile func()
}

func (s *torn) Read(ctx context.Context, prefix string) ([]checkpoint.Row, error) {
	before, err := s.Store.Read(ctx, prefix)
	meanwhile := s.meanwhile
	if meanwhile == nil || err != nil {
		return before, err
	}
	s.meanwhile = nil
	meanwhile()
	after, err := s.Store.Read(ctx, prefix)
	at := slices.IndexFunc(after, func(r checkpoint.Row) bool { return strings.Contains(r.Key, "child") })
	return append(before, after[at:]...), err
}

// TestH12_ParentBehindTheRead: a range is not read at one moment. A parent whose place was passed when its row was created is there all the same
// when its child is: else the child would look like a root, and be read at once.
func TestH12_ParentBehindTheRead(t *testing.T) {
	store := &torn{Store: &checkpointtest.Memory{}}
	l := openOn(t, t.Context(), store, "w", lease)
	first := shard("0", "")
	first.State = checkpoint.Done
	create(t, t.Context(), l, first)
	store.meanwhile = func() {
		create(t, t.Context(), l, shard("1", "0"), shard("1b", "0"), shard("1c", "1"), shard("2 child", "1c"), shard("2b child", "1b"))
	}
	got := rows(t, t.Context(), l)
	if len(got) != 6 || got["1"].State != checkpoint.Waiting || got["1b"].State != checkpoint.Waiting || got["1c"].State != checkpoint.Waiting {
		t.Fatalf("the read gives %v", got)
	}
	shards, err := l.Shards(t.Context(), source)
	if err != nil || !slices.IsSortedFunc(shards, func(a, b checkpoint.Shard) int { return strings.Compare(a.ID, b.ID) }) {
		t.Fatal(shards, err)
	}
	free, _ := l.NewWatch().Look(shards, table(t, t.Context(), l), 0)
	if len(free) != 2 || free[0].Shard.ID != "1" || free[1].Shard.ID != "1b" {
		t.Fatalf("free are %v", free)
	}
}
