package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
)

// lineage creates shards a, b, c…, each the child of the previous one, and a separate root z.
func lineage(t *testing.T, ctx context.Context, l *checkpoint.Ledger, n int) {
	t.Helper()
	parent := ""
	create(t, ctx, l, shard("z", ""))
	for i := range n {
		s := shard(string(rune('a'+i)), parent)
		s.Hop += uint32(i)
		create(t, ctx, l, s)
		parent = s.ID
	}
}

// TestH75_RootOfATableThatIsNotLoaded: without a load, changes from after the start that were
// trimmed before a root's first read are lost.
func TestH75_RootOfATableThatIsNotLoaded(t *testing.T) {
	root := checkpoint.Shard{State: checkpoint.Done, FirstRead: begin}
	for _, test := range []struct{ start, want time.Time }{
		{time.Time{}, begin}, {begin.Add(-20 * time.Hour), begin.Add(-20 * time.Hour)}, {begin.Add(time.Hour), begin},
	} {
		for _, table := range []checkpoint.TableState{{Cut: test.start}, {Since: test.start}} {
			if got := root.Covers(time.Time{}, table.Owed()); !got.Equal(test.want) {
				t.Errorf("started %s: covers %s", test.start, got)
			}
		}
	}
}

// The coverage of a child's beginning: a read from the horizon returns no error for changes that
// were trimmed before.
func TestH75_CoveredTo(t *testing.T) {
	event, opened := begin.Add(-3*time.Hour), begin.Add(-2*time.Hour)
	read := at(5)
	read.FirstRead = begin
	withEvent := read
	withEvent.EventTime = event
	for _, test := range []struct {
		name string
		end  func(ctx context.Context, held *checkpoint.Lease) error
		open time.Time // when a listing last showed the parent open
		want time.Time
	}{
		{"the last event", func(ctx context.Context, h *checkpoint.Lease) error { return h.Finish(ctx, withEvent) }, time.Time{}, event.Add(-checkpoint.Slack)},
		{"listed open later", func(ctx context.Context, h *checkpoint.Lease) error { return h.Finish(ctx, withEvent) }, opened, opened.Add(-checkpoint.Slack)},
		{"listed open before", func(ctx context.Context, h *checkpoint.Lease) error { return h.Finish(ctx, withEvent) }, event.Add(-time.Hour), event.Add(-checkpoint.Slack)},
		{"a closed and empty root", func(ctx context.Context, h *checkpoint.Lease) error { return h.Finish(ctx, read) }, time.Time{}, begin},
		{"a gap", func(ctx context.Context, h *checkpoint.Lease) error {
			return h.Declare(ctx, checkpoint.NotFound, "")
		}, time.Time{}, begin.Add(time.Minute)},
	} {
		t.Run(test.name, func(t *testing.T) {
			virtually(t, func(ctx context.Context, p *place) {
				_, a := p.worker("a")
				lineage(t, ctx, a, 3)
				if !test.open.IsZero() {
					check(t, a.NoteOpen(ctx, source, label, []string{"a"}, test.open, map[string]bool{"a": true}))
				}
				p.sleep(ctx, time.Minute)
				check(t, test.end(ctx, take(t, ctx, a, "a")))
				child := take(t, ctx, a, "b")
				if got := child.Shard().CoveredTo; !got.Equal(test.want) {
					t.Errorf("covered to %s, want %s", got, test.want)
				}
				// The child is empty and closed before it is read, so its own child inherits its
				// coverage. A listing that shows the waiting child open says nothing about reads of
				// it.
				check(t, child.Finish(ctx, at(0)))
				if got := take(t, ctx, a, "c").Shard().CoveredTo; !got.Equal(test.want) {
					t.Errorf("the grandchild is covered to %s, want %s", got, test.want)
				}
				if root := take(t, ctx, a, "z").Shard().CoveredTo; !root.IsZero() {
					t.Errorf("a root is covered to %s", root)
				}
			})
		})
	}
}

// TestH75_AnAppliedChangeFromBeforeTheGap: a lineage that was found after a gap is covered up to the
// gap, because the load follows. Once one of its shards has applied an older change, its children are
// covered only up to that change: a trimmed change of a child may have moved the item to another row,
// and the row that the older change wrote has the present generation, so no sweep visits it. Where
// changes from before the gap are dropped, nothing of them is in the rows.
func TestH75_AnAppliedChangeFromBeforeTheGap(t *testing.T) {
	gap := begin.Add(20 * time.Hour)
	for name, c := range map[string]struct {
		shard checkpoint.Shard
		want  time.Time
	}{
		"nothing applied":            {checkpoint.Shard{}, gap},
		"an older change":            {checkpoint.Shard{Position: at(5).Position.After, EventTime: begin}, begin.Add(-checkpoint.Slack)},
		"an older change is dropped": {checkpoint.Shard{Position: at(5).Position.After, EventTime: begin, Cut: gap.Add(-checkpoint.Slack)}, gap},
		"reopened after a change":    {checkpoint.Shard{EventTime: begin}, gap},
		"a younger change":           {checkpoint.Shard{Position: at(5).Position.After, EventTime: gap.Add(time.Hour)}, gap.Add(time.Hour - checkpoint.Slack)},
	} {
		c.shard.State, c.shard.CoveredTo = checkpoint.Done, gap
		if got := c.shard.Covers(time.Time{}, time.Time{}); !got.Equal(c.want) {
			t.Errorf("%s: covers up to %s, want %s", name, got, c.want)
		}
	}
}

// A shard's coverage is fixed when it is first leased. Later listings that show it open must not
// raise it, because its reader may still be at the beginning.
func TestH75_ListingsDoNotCoverTheShardItself(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		lineage(t, ctx, a, 2)
		progress := at(5)
		progress.EventTime, progress.FirstRead = begin, begin
		check(t, take(t, ctx, a, "a").Finish(ctx, progress))
		for range 3 {
			p.sleep(ctx, time.Minute)
			check(t, a.NoteOpen(ctx, source, label, []string{"b"}, p.world.Now(), map[string]bool{"a": true, "b": true}))
			held := take(t, ctx, a, "b")
			if got := held.Shard().CoveredTo; !got.Equal(begin.Add(-checkpoint.Slack)) {
				t.Errorf("covered to %s", got)
			}
		}
	})
}

func TestNoteOpen(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		note := func(label string, at time.Duration, known string, open ...string) {
			t.Helper()
			rows := map[string]bool{}
			for _, id := range strings.Fields(known) {
				rows[id] = true
			}
			check(t, a.NoteOpen(ctx, source, label, open, begin.Add(at), rows))
		}
		expect := func(label string, want string) {
			t.Helper()
			seen, err := a.Listings(ctx, source, label)
			check(t, err)
			var got []string
			for _, id := range []string{"a", "b", "c"} {
				if at, found := seen.Open[id]; found {
					got = append(got, fmt.Sprint(id, at.Sub(begin).Minutes()))
				}
			}
			if !seen.At.IsZero() {
				got = append(got, fmt.Sprint("last ", seen.At.Sub(begin).Minutes()))
			}
			if strings.Join(got, " ") != want {
				t.Errorf("seen open %v, want %q", got, want)
			}
		}
		expect(label, "")
		note(label, time.Minute, "", "a", "b")
		expect(label, "a1 b1 last 1")
		note(label, 2*time.Minute, "a b", "b", "c")
		expect(label, "a1 b2 c2 last 2")
		// This note comes from a stalled coordinator; the row of a is removed.
		note(label, time.Minute, "b c", "b", "c")
		expect(label, "b2 c2 last 2")
		expect("l2", "")
		note("l2", 3*time.Minute, "a", "a")
		expect("l2", "a3 last 3")
		note("l2", 4*time.Minute, "a") // every shard has ended
		expect("l2", "a3 last 4")
		expect(label, "")
		// For a new stream, neither shards nor listings of the previous one count.
		note("l3", 2*time.Minute, "a", "a")
		expect("l3", "a2 last 2")
	})
}

// A trimmed shard is declared a gap. In the generation that its gap began it is reopened at the
// horizon, covered up to the gap. By its parent's coverage it would be lost again immediately, and
// so would its children, endlessly.
func TestReopen(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		lineage(t, ctx, a, 3)
		old := at(3)
		old.EventTime, old.FirstRead = begin.Add(-30*time.Hour), begin.Add(-31*time.Hour)
		check(t, take(t, ctx, a, "a").Finish(ctx, old))
		p.sleep(ctx, time.Minute)
		held := take(t, ctx, a, "b")
		dropping := old
		dropping.Dropping, dropping.Applied = true, 4
		check(t, held.Commit(ctx, dropping))
		check(t, held.Declare(ctx, checkpoint.Trimmed, "trimmed"))
		found := p.world.Now()

		s, state := row(t, ctx, a, "b"), table(t, ctx, a)
		if !s.Undeclared(state) || s.Reopenable(state) {
			t.Errorf("undeclared %v, reopenable %v", s.Undeclared(state), s.Reopenable(state))
		}
		check(t, a.Reopen(ctx, s, state)) // not before it is declared
		if now := row(t, ctx, a, "b"); now.State != checkpoint.Gap {
			t.Fatalf("%+v", now)
		}
		if ids := free(t, ctx, a, a.NewWatch()); slices.Contains(ids, "c") {
			t.Error("the child may start before the trimmed parent is reopened")
		}
		p.sleep(ctx, time.Minute)
		state, err := a.Raise(ctx, source, 1, trimmed, nil)
		check(t, err)
		if s.Undeclared(state) || !s.Reopenable(state) {
			t.Errorf("undeclared %v, reopenable %v", s.Undeclared(state), s.Reopenable(state))
		}
		check(t, a.Reopen(ctx, s, state))
		s = row(t, ctx, a, "b")
		if s.State != checkpoint.Waiting || !s.Position.IsZero() || !s.FirstRead.IsZero() || !s.DoneAt.IsZero() || s.Generation != state.Generation || s.Epoch != 2 {
			t.Errorf("%+v", s)
		}
		if s.Applied != 4 || s.NumberedFrom != 4 {
			t.Errorf("after %d changes the numbers of the generation begin after %d", s.Applied, s.NumberedFrom)
		}
		// Otherwise its row would count as one to reopen once the shard is done, and would never be
		// removed.
		if s.Loss != "" || s.Reason != "" {
			t.Errorf("reopened, it is still lost: %q, %q", s.Loss, s.Reason)
		}
		// Its successors may be trimmed within what the load covers, and then it would outrank that
		// load.
		if !s.Dropping || !s.Cut.Equal(found.Add(-checkpoint.Slack)) {
			t.Errorf("of what is left, %v is dropped before %s", s.Dropping, s.Cut)
		}
		again := take(t, ctx, a, "b")
		if got := again.Shard().CoveredTo; !got.Equal(found) {
			t.Errorf("covered to %s, want %s", got, found)
		}
		check(t, again.Finish(ctx, checkpoint.Progress{FirstRead: p.world.Now()}))
		if got := take(t, ctx, a, "c").Shard().CoveredTo; !got.Equal(found) {
			t.Errorf("the child is covered to %s, want %s", got, found)
		}
		if got := row(t, ctx, a, "c").Cut; !got.Equal(s.Cut) {
			t.Errorf("the child is cut at %s, want %s", got, s.Cut)
		}
		if err := held.Commit(ctx, old); !errors.Is(err, checkpoint.ErrLeaseLost) {
			t.Errorf("the lease from before the gap commits: %v", err)
		}
	})
}

func TestAdmissible(t *testing.T) {
	ready := checkpoint.TableState{Generation: 5, Adopted: 5, Listed: 5, Label: label}
	raised, unlisted := ready, ready
	raised.Generation, unlisted.Listed = 6, 0
	raisedAndAdopted := raised
	raisedAndAdopted.Adopted = 6
	gap := in(checkpoint.Gap, "b", "a", "")
	gap.Generation = 5
	readAt := func(id, parent string, at time.Time) checkpoint.Shard {
		s := in(checkpoint.Reading, id, parent, "x")
		s.FirstRead = at
		return s
	}
	over := readAt("a", "", begin)
	over.State, over.Owner = checkpoint.Done, ""
	heir := readAt("c", "b", begin)
	heir.Inherited = true
	otherStream := in(checkpoint.Waiting, "old", "", "")
	otherStream.Label = "l0"
	limit := begin.Add(-24*time.Hour + checkpoint.Slack)
	young, enabling, late := ready, ready, ready
	young.Label = begin.Add(-time.Hour).Format("2006-01-02T15:04:05.000")
	enabling.Enabling, late.EnabledAt = true, begin.Add(-time.Hour)
	ofYoung := readAt("a", "", begin)
	ofYoung.Label = young.Label
	for _, test := range []struct {
		name   string
		table  checkpoint.TableState
		shards []checkpoint.Shard
		start  time.Time
		ok     bool
		yet    bool
	}{
		{"roots are read", ready, []checkpoint.Shard{readAt("a", "", begin), readAt("b", "", begin)}, begin, true, false},
		{"no shards", ready, nil, begin, true, false},
		{"H70: the generation is not adopted", raised, nil, begin, false, true},
		{"the stream is not listed", unlisted, nil, begin, false, true},
		{"a root was not read", ready, []checkpoint.Shard{readAt("a", "", begin), in(checkpoint.Waiting, "b", "", "")}, begin, false, true},
		{"a child was not read", ready, []checkpoint.Shard{readAt("a", "", begin), in(checkpoint.Waiting, "b", "a", "")}, begin, true, false},
		{"a child whose parent's row is gone was not read", ready, []checkpoint.Shard{in(checkpoint.Waiting, "b", "a", "")}, begin, false, true},
		{"a lost root", ready, []checkpoint.Shard{lostBy(checkpoint.NotFound, "a")}, begin, true, false},
		{"a child whose gap is not declared", ready, []checkpoint.Shard{readAt("a", "", begin), gap}, begin, false, true},
		{"a child whose gap is declared", raisedAndAdopted, []checkpoint.Shard{readAt("a", "", begin), gap}, begin, true, false},
		{"another stream", ready, []checkpoint.Shard{otherStream}, begin, true, false},
		{"a day before the first read, less the slack", ready, []checkpoint.Shard{readAt("a", "", begin)}, limit, true, false},
		{"H34: a child that began long after, and whose parent's row was removed", ready, []checkpoint.Shard{heir}, begin.Add(-80 * time.Hour), true, false},
		{"a root that is over, and was read too late", ready, []checkpoint.Shard{over}, begin.Add(-25 * time.Hour), false, false},
		{"longer before", ready, []checkpoint.Shard{readAt("a", "", begin), readAt("b", "", limit)}, limit.Add(-time.Second), false, false},
		{"before the stream", young, []checkpoint.Shard{ofYoung}, begin.Add(-2 * time.Hour), false, false},
		{"before the stream, which is not read yet", young, nil, begin.Add(-2 * time.Hour), false, false},
		{"when the stream may just have begun", young, []checkpoint.Shard{ofYoung}, begin.Add(checkpoint.Slack - time.Hour - time.Second), false, false},
		{"when the stream has begun", young, []checkpoint.Shard{ofYoung}, begin.Add(checkpoint.Slack - time.Hour), true, false},
		{"while the stream is enabled", enabling, []checkpoint.Shard{readAt("a", "", begin)}, begin, false, true},
		{"before the stream was seen enabled", late, []checkpoint.Shard{readAt("a", "", begin)}, begin.Add(-time.Hour), false, false},
		{"after the stream was seen enabled", late, []checkpoint.Shard{readAt("a", "", begin)}, begin.Add(checkpoint.Slack - time.Hour), true, false},
		{"a scan of a stream that began just now", late, []checkpoint.Shard{readAt("a", "", late.EnabledAt.Add(time.Second))}, late.EnabledAt.Add(time.Second), true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := checkpoint.Admissible(test.table, test.shards, test.start, 0)
			var hole *checkpoint.NotAdmissible
			if (err == nil) != test.ok || err != nil && (!errors.As(err, &hole) || hole.Yet != test.yet) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestLoaded(t *testing.T) {
	loaded := checkpoint.TableState{Generation: 5, Load: checkpoint.Load{Generation: 5, DoneAt: begin}}
	for name, change := range map[string]func(*checkpoint.TableState){
		"":                   func(*checkpoint.TableState) {},
		"needs load":         func(s *checkpoint.TableState) { s.NeedsLoad = true },
		"another generation": func(s *checkpoint.TableState) { s.Generation = 6 },
		"not done":           func(s *checkpoint.TableState) { s.Load.DoneAt = time.Time{} },
	} {
		s := loaded
		change(&s)
		if s.Loaded() != (name == "") {
			t.Errorf("%q: %v", name, s.Loaded())
		}
	}
}

// A stream that was seen being enabled has every change since it was first seen enabled. That time
// is recorded once, and for no other stream.
func TestWhenAStreamWasEnabled(t *testing.T) {
	ctx := t.Context()
	ledger, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "p", checkpoint.Options{Worker: "w", ID: "l"})
	if err == nil {
		_, err = ledger.UpdateTable(ctx, "T", func(s *checkpoint.TableState) error { s.Label = label; return nil })
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		label    string
		enabling bool
		at       time.Time
		want     bool
		since    time.Time
	}{
		{label, false, begin, false, time.Time{}}, // it was never seen being enabled
		{"l0", true, begin, false, time.Time{}},
		{label, true, begin, true, time.Time{}},
		{label, false, time.Time{}, true, time.Time{}}, // the answer had no time
		{label, false, begin.Add(time.Minute), false, begin.Add(time.Minute)},
		{label, false, begin.Add(time.Hour), false, begin.Add(time.Minute)},
	} {
		err := ledger.NoteEnabling(ctx, "T", c.label, c.enabling, c.at)
		s, _, errTable := ledger.Table(ctx, "T")
		if err != nil || errTable != nil || s.Enabling != c.want || !s.EnabledAt.Equal(c.since) {
			t.Errorf("step %d: %v since %s; %v, %v", i, s.Enabling, s.EnabledAt, err, errTable)
		}
	}
}
