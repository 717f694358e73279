package sink_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// coordinator is a target whose rows can be read.
type coordinator interface {
	target
	sink.Looker
}

// onBothKept runs a test on tables whose family k keeps every cell.
func onBothKept(t *testing.T, f func(t *testing.T, table coordinator)) {
	t.Run("memory", func(t *testing.T) {
		m := &sinktest.Memory{}
		m.Create("t", "k", "e", "n:intsum")
		f(t, m)
	})
	t.Run("bttest", func(t *testing.T) { f(t, keptEmulator(t)) })
}

func keptEmulator(t testing.TB) *emulator {
	e := startEmulator(t).create(t)
	var families []transform.Family
	for name, rule := range map[string]string{"k": "never", "n": "never:intsum"} {
		family, err := transform.ParseFamily(name, rule)
		if err != nil {
			t.Fatal(err)
		}
		families = append(families, family)
	}
	if _, err := e.admin.Prepare(context.Background(), []sink.TableSpec{{Name: "t", Families: sink.DataFamilies(families)}}, true); err != nil {
		t.Fatal(err)
	}
	return e
}

// kept returns a put of row r that keeps older cells, at a second. It owns family k.
func kept(v transform.Version, second int64, cells ...string) transform.RowMutation {
	m := transform.RowMutation{Item: "S:cg", Table: "t", Row: "r", Version: v, Families: []string{"k"}, Keep: true}
	m.Cells = keptCells(second, cells...)
	return m
}

func keptCells(second int64, cells ...string) []transform.Cell {
	out := []transform.Cell{}
	for _, c := range cells {
		qualifier, value, _ := strings.Cut(c, "=")
		out = append(out, transform.Cell{Family: "k", Qualifier: qualifier, Timestamp: second * 1_000_000, Value: []byte(value)})
	}
	return out
}

func execute(t testing.TB, table coordinator, m transform.RowMutation) bool {
	t.Helper()
	applied, err := sink.Execute(context.Background(), sink.Unfenced(), table, table, &m)
	if err != nil {
		t.Fatal(err)
	}
	return applied
}

// cellsOf returns the cells of a row as column=value@second, in the order of the read.
func cellsOf(t testing.TB, table sink.Reader, row string) string {
	t.Helper()
	var out []string
	err := table.ReadRows(context.Background(), "t", sink.Single(row), func(r sink.Row) error {
		for _, c := range r.Cells {
			out = append(out, fmt.Sprintf("%s=%s@%d", c.Qualifier, c.Value, c.Timestamp/1_000_000))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, " ")
}

func loadVersion(generation uint32, second uint64) transform.Version {
	return transform.NewVersion(generation, transform.LoadHop, cdc.SequenceOf(second), transform.CountExact)
}

// after sets the item's cells before a put.
func after(before []transform.Cell, m transform.RowMutation) transform.RowMutation {
	m.Before = before
	return m
}

// H51: the cells that a put that keeps older cells leaves in the row, step by step.
func TestH51_PutsKeepOlderCells(t *testing.T) {
	gone := kept(version(60), 0)
	gone.Remove = true
	next := transform.NewVersion(2, 500_000, cdc.SequenceOf(1), transform.CountExact)
	steps := []struct {
		why     string
		m       transform.RowMutation
		applied bool
		want    string
	}{
		{"a load", kept(loadVersion(1, 100), 100, "a=1", "b=1"), true, "a=1@100 b=1@100"},
		{"a later change: only what changed gets a cell", after(keptCells(0, "a=1", "b=1"), kept(version(10), 105, "a=2", "b=1")), true, "a=2@105 a=1@100 b=1@100"},
		{"repeated", kept(version(10), 105, "a=2", "b=1"), false, "a=2@105 a=1@100 b=1@100"},
		{"an older one, later", kept(version(9), 104, "a=9", "c=9"), false, "a=2@105 a=1@100 b=1@100"},
		{"a load, late", kept(loadVersion(1, 200), 200, "a=8"), false, "a=2@105 a=1@100 b=1@100"},
		{"two changes in one second: the later stays", kept(version(11), 105, "a=3", "b=1"), true, "a=3@105 a=1@100 b=1@100"},
		{"back to the value before, within the second", kept(version(12), 105, "a=1", "b=1"), true, "a=1@100 b=1@100"},
		{"the same value later adds nothing", kept(version(13), 106, "a=1", "b=2"), true, "a=1@100 b=2@106 b=1@100"},
		{"a removed attribute goes with its history", kept(version(14), 107, "b=2", "c=1"), true, "b=2@106 b=1@100 c=1@107"},
		{"and begins anew", kept(version(15), 108, "a=4", "b=2", "c=1"), true, "a=4@108 b=2@106 b=1@100 c=1@107"},
		{"a time before the newest cells", kept(version(16), 107, "a=5", "b=3", "c=2"), true, "a=5@107 b=3@107 b=2@106 b=1@100 c=2@107"},
		{"removed", gone, true, ""},
		{"made again", kept(version(61), 120, "a=6"), true, "a=6@120"},
		{"changed", kept(version(62), 130, "a=7"), true, "a=7@130 a=6@120"},
		{"another generation begins anew", kept(next, 140, "a=8"), true, "a=8@140"},
		{"its predecessor is refused", kept(version(63), 150, "a=9"), false, "a=8@140"},
		{"at the beginning of time", kept(transform.NewVersion(2, 500_000, cdc.SequenceOf(2), transform.CountExact), 0, "a=10"), true, "a=10@0"},
	}
	onBothKept(t, func(t *testing.T, table coordinator) {
		for _, s := range steps {
			if applied := execute(t, table, s.m); applied != s.applied {
				t.Errorf("%s: applied %v", s.why, applied)
			}
			if got := cellsOf(t, table, "r"); got != s.want {
				t.Fatalf("%s:\n got %s\nwant %s", s.why, got, s.want)
			}
		}
	})
}

// The images of one page leave the same cells as one page per image.
func TestPutsKeepTheImagesOfTheirPage(t *testing.T) {
	onBothKept(t, func(t *testing.T, table coordinator) {
		execute(t, table, kept(loadVersion(1, 90), 90, "a=0", "b=0", "x=0"))
		m := kept(version(10), 103, "a=3", "b=1", "c=1")
		m.Before = keptCells(0, "a=0", "b=0", "x=0")
		m.Past = [][]transform.Cell{keptCells(100, "a=1", "b=0"), keptCells(101, "a=2", "b=1", "c=1"), keptCells(102, "a=2", "c=1"), keptCells(103, "a=9", "b=2", "c=1")}
		for range 2 {
			execute(t, table, m)
			if got, want := cellsOf(t, table, "r"), "a=3@103 a=2@101 a=1@100 a=0@90 b=1@103 c=1@101"; got != want {
				t.Fatalf("\n got %s\nwant %s", got, want)
			}
		}
		m.Version, m.Past = version(11), append(m.Past, m.Cells, nil) // removed and recreated
		m.Cells = keptCells(105, "a=3")
		execute(t, table, m)
		if got, want := cellsOf(t, table, "r"), "a=3@105"; got != want {
			t.Fatalf("\n got %s\nwant %s", got, want)
		}
	})
}

// Columns owned by name, and cells of shared rows, keep their history. Aggregates have none.
func TestKeptColumnsOfSharedRows(t *testing.T) {
	onBothKept(t, func(t *testing.T, table coordinator) {
		one := func(owner string, sequence uint64, second int64, value string) transform.RowMutation {
			m := transform.RowMutation{Item: owner, Owner: owner, Table: "t", Row: "r", Version: version(sequence), Keep: true,
				Columns: []transform.Column{{Family: "k", Qualifier: owner}, {Family: "k", Qualifier: owner + "/more"}}, Families: []string{"n"}}
			m.Cells = keptCells(second, owner+"="+value)
			return m
		}
		execute(t, table, one("a", 1, 100, "1"))
		execute(t, table, one("b", 1, 101, "1"))
		execute(t, table, one("a", 2, 102, "2"))
		gone := one("b", 2, 103, "")
		gone.Remove, gone.Cells = true, nil
		execute(t, table, one("a.c", 9, 99, "x")) // as an expression a.c would match abc
		execute(t, table, one("abc", 1, 99, "y"))
		execute(t, table, gone)
		if got, want := cellsOf(t, table, "r"), "a=2@102 a=1@100 a.c=x@99 abc=y@99"; got != want {
			t.Fatalf("\n got %s\nwant %s", got, want)
		}
		count := func(sequence uint64, n byte) transform.RowMutation {
			m := one("a", sequence, 110, "2")
			m.Cells = append(m.Cells, transform.Cell{Family: "n", Qualifier: "c", Value: []byte{0, 0, 0, 0, 0, 0, 0, n}, Add: true})
			return m
		}
		execute(t, table, count(3, 5))
		execute(t, table, count(4, 7))
		if got, want := cellsOf(t, table, "r"), "a=2@102 a=1@100 a.c=x@99 abc=y@99 c=\x00\x00\x00\x00\x00\x00\x00\a@0"; got != want {
			t.Fatalf("\n got %q\nwant %q", got, want)
		}
	})
}

// A column name that is too long for a filter is read by its family.
func TestKeptColumnsOfLongNames(t *testing.T) {
	onBothKept(t, func(t *testing.T, table coordinator) {
		name := strings.Repeat("n", transform.MaxQualifierBytes)
		for i, value := range []string{"1", "2"} {
			m := kept(version(uint64(i+1)), int64(100+i), name+"="+value)
			m.Families, m.Columns = nil, []transform.Column{{Family: "k", Qualifier: name}}
			execute(t, table, m)
		}
		if got, want := strings.ReplaceAll(cellsOf(t, table, "r"), name, "n"), "n=2@101 n=1@100"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// between calls a function once, between a read and the following write.
type between struct {
	coordinator
	do func()
}

func (b *between) Look(ctx context.Context, m *transform.RowMutation, before int64) (sink.Row, error) {
	row, err := b.coordinator.Look(ctx, m, before)
	if do := b.do; do != nil {
		b.do = nil
		do()
	}
	return row, err
}

// H26: a row that changes between the read and the write is read again, and never written on the
// basis of the old read.
func TestH26_ARowThatChangesAfterTheLook(t *testing.T) {
	gone := kept(version(20), 0)
	gone.Remove = true
	for name, c := range map[string]struct {
		meanwhile transform.RowMutation
		applied   bool
		want      string
	}{
		"an older image":  {kept(version(15), 103, "a=2", "c=1"), true, "a=3@104 a=2@103 a=1@100"},
		"a removal":       {gone, true, "a=3@104"},
		"the same image":  {kept(version(30), 104, "a=3"), false, "a=3@104 a=1@100"},
		"a newer image":   {kept(version(31), 105, "a=4"), false, "a=4@105 a=1@100"},
		"a new table row": {kept(transform.NewVersion(2, 1, cdc.SequenceOf(1), 1), 105, "a=4"), false, "a=4@105"},
	} {
		onBothKept(t, func(t *testing.T, table coordinator) {
			execute(t, table, kept(version(10), 100, "a=1", "b=1"))
			through := &between{table, func() { execute(t, table, c.meanwhile) }}
			if applied := execute(t, through, kept(version(30), 104, "a=3")); applied != c.applied {
				t.Errorf("%s: applied %v", name, applied)
			}
			if got := cellsOf(t, table, "r"); got != c.want {
				t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
			}
		})
	}
}

// After too many changes of the row, the attempt ends for now. A failed read is not the item's
// fault.
func TestExecuteGivesUpForNow(t *testing.T) {
	m := &sinktest.Memory{}
	m.Create("t", "k")
	n := uint64(1)
	var restless restlessLooker = func(ctx context.Context, mutation *transform.RowMutation) (sink.Row, error) {
		row, err := m.Look(ctx, mutation, 0)
		n++
		execute(t, m, kept(version(n), int64(n), fmt.Sprintf("a=%d", n)))
		return row, err
	}
	put := kept(version(1000), 1000, "a=x")
	if _, err := sink.Execute(context.Background(), sink.Unfenced(), m, restless, &put); !sink.Repeatable(err) {
		t.Errorf("got %v", err)
	}
	var failing restlessLooker = func(context.Context, *transform.RowMutation) (sink.Row, error) {
		return sink.Row{}, &sink.Error{Op: "ReadRows", Reason: sink.Rejected, Code: "InvalidArgument"}
	}
	if _, err := sink.Execute(context.Background(), sink.Unfenced(), m, failing, &put); !sink.Is(err, sink.Permanent) {
		t.Errorf("got %v", err)
	}
}

type restlessLooker func(context.Context, *transform.RowMutation) (sink.Row, error)

func (f restlessLooker) Look(ctx context.Context, m *transform.RowMutation, _ int64) (sink.Row, error) {
	return f(ctx, m)
}

// If a request cannot hold all changes, it holds only the image.
func TestKeptRowOfTooManyChanges(t *testing.T) {
	m := &sinktest.Memory{}
	m.Create("t", "k")
	names := make([]string, transform.MaxRowCells/2+10)
	for i := range names {
		names[i] = fmt.Sprintf("n%d=1", i)
	}
	execute(t, m, kept(version(1), 100, names...))
	for i := range names {
		names[i] = fmt.Sprintf("m%d=1", i)
	}
	request, needed := sink.KeepOlder(look(t, m), kept(version(2), 101, names...))
	if !needed || len(request.Ops) > transform.MaxRowCells {
		t.Fatal(needed, len(request.Ops))
	}
	if applied, err := m.Apply(context.Background(), &request); !applied || err != nil {
		t.Fatal(applied, err)
	}
	if got := look(t, m); len(got.Cells) != len(names) {
		t.Errorf("%d cells, want %d", len(got.Cells), len(names))
	}
}

func look(t testing.TB, m *sinktest.Memory) sink.Row {
	t.Helper()
	row, err := m.Look(context.Background(), &transform.RowMutation{Table: "t", Row: "r"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// A repair adds differing cells at the time of its read, and keeps the rest of the history.
func TestRepairKeepsHistory(t *testing.T) {
	m := &sinktest.Memory{}
	m.Create("t", "k")
	execute(t, m, kept(version(1), 100, "a=1", "b=1"))
	execute(t, m, kept(version(2), 101, "a=wrong", "b=1", "c=extra"))
	want := kept("", 200, "a=2", "b=1")
	request, needed, err := sink.Mend(look(t, m), want, 1, time.Unix(200, 0))
	if err != nil || !needed {
		t.Fatal(needed, err)
	}
	if applied, err := m.Apply(context.Background(), &request); !applied || err != nil {
		t.Fatal(applied, err)
	}
	if got, want := cellsOf(t, m, "r"), "a=2@200 a=wrong@101 a=1@100 b=1@100"; got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	if !sink.Holds(look(t, m), want) {
		t.Error("the repaired row differs from what it should be")
	}
	// A change from before the repair's read, which its image lacked.
	execute(t, m, after(keptCells(0, "a=1", "b=1"), kept(version(3), 150, "a=3", "b=1")))
	if got, want := cellsOf(t, m, "r"), "a=3@150 a=wrong@101 a=1@100 b=1@100"; got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

// A loaded value is history if the item had it before the first change of the stream. Otherwise the
// load was ahead of the stream, and its time says nothing. The same applies to the newest cell of a
// repair.
func TestLoadsAheadOfTheStreamLeaveNoHistory(t *testing.T) {
	before := func(m transform.RowMutation, cells ...string) transform.RowMutation {
		return after(keptCells(0, cells...), m)
	}
	onBothKept(t, func(t *testing.T, table coordinator) {
		execute(t, table, kept(loadVersion(1, 90), 90, "a=5", "b=0", "c=9"))
		execute(t, table, before(kept(version(1), 100, "a=1", "b=1", "c=3"), "a=0", "b=0"))
		if got, want := cellsOf(t, table, "r"), "a=1@100 b=1@100 b=0@90 c=3@100"; got != want {
			t.Errorf("load:\n got %s\nwant %s", got, want)
		}
		repaired := kept(transform.NewVersion(1, 500_000, cdc.SequenceOf(1), transform.CountExact+1), 110, "a=7", "b=1", "c=4")
		execute(t, table, repaired)
		execute(t, table, before(kept(version(2), 120, "a=2", "b=1", "c=5"), "a=1", "b=1", "c=4"))
		if got, want := cellsOf(t, table, "r"), "a=2@120 a=1@100 b=1@100 b=0@90 c=5@120 c=4@110 c=3@100"; got != want {
			t.Errorf("repair:\n got %s\nwant %s", got, want)
		}
	})
}

// If a load was ahead of the stream, all cells of a column are in doubt. These include the newest
// one from before the change, if a newer one exists, and cells of an earlier load of the
// generation.
func TestAllThatLoadsAheadOfTheStreamFoundIsInDoubt(t *testing.T) {
	onBothKept(t, func(t *testing.T, table coordinator) {
		execute(t, table, kept(loadVersion(1, 80), 80, "a=8", "b=0"))
		execute(t, table, kept(loadVersion(1, 90), 90, "a=7", "b=0"))
		execute(t, table, kept(loadVersion(1, 110), 110, "a=2", "b=2"))
		execute(t, table, after(keptCells(0, "a=0", "b=0"), kept(version(1), 100, "a=1", "b=1")))
		if got, want := cellsOf(t, table, "r"), "a=1@100 b=1@100 b=0@80"; got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
	})
}

// A repair that was ahead of the stream wrote the value that the stream brings next. Its cell is
// deleted, because its time is not the change's. So the cell must not count as already holding the
// new value.
func TestAChangeThatBringsWhatARepairReadStays(t *testing.T) {
	onBothKept(t, func(t *testing.T, table coordinator) {
		execute(t, table, kept(version(1), 100, "a=1"))
		execute(t, table, kept(transform.NewVersion(1, 500_000, cdc.SequenceOf(1), transform.CountExact+1), 110, "a=7"))
		execute(t, table, after(keptCells(0, "a=1"), kept(version(2), 120, "a=7")))
		if got, want := cellsOf(t, table, "r"), "a=7@120 a=1@100"; got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
	})
}

// A counter is the number of the newest image, whatever earlier images held. Its time 0 does not
// count as the time of the put's first cell, so the values beside it keep their history.
func TestKeptValuesBesideACounter(t *testing.T) {
	onBothKept(t, func(t *testing.T, table coordinator) {
		counted := func(second int64, n byte, cells ...string) []transform.Cell {
			list := keptCells(second, cells...)
			if n > 0 {
				list = append(list, transform.Cell{Family: "n", Qualifier: "c", Value: []byte{0, 0, 0, 0, 0, 0, 0, n}, Add: true})
			}
			return list
		}
		for i, c := range []struct {
			why   string
			past  [][]transform.Cell
			cells []transform.Cell
			want  string
		}{
			{"made", nil, counted(100, 'a', "a=1"), "a=1@100 c=a"},
			{"three changes", [][]transform.Cell{counted(101, 'b', "a=2"), counted(102, 0, "a=2")}, counted(103, 'c', "a=3"), "a=3@103 a=2@101 a=1@100 c=c"},
			{"a counter alone", nil, counted(104, 'd', "a=3"), "a=3@103 a=2@101 a=1@100 c=d"},
			{"counted down", nil, counted(105, 'b', "a=3"), "a=3@103 a=2@101 a=1@100 c=b"},
			// The read must include the newest cell before 102, because it equals the image.
			{"a time before the newest", nil, counted(102, 'e', "a=2"), "a=2@101 a=1@100 c=e"},
			{"a counter that was there for a moment", [][]transform.Cell{counted(106, 'f', "a=2")}, counted(107, 0, "a=4"), "a=4@107 a=2@101 a=1@100"},
			{"the counter again", [][]transform.Cell{counted(108, 'g')}, counted(109, 'h', "a=5"), "a=5@109 c=h"},
		} {
			m := kept(version(uint64(i+1)), 0)
			m.Families, m.Past, m.Cells = []string{"k", "n"}, c.past, c.cells
			for range 2 {
				execute(t, table, m)
				got := strings.NewReplacer("c=\x00\x00\x00\x00\x00\x00\x00", "c=").Replace(cellsOf(t, table, "r"))
				got = strings.TrimSuffix(got, "@0") // the counter's
				if got != c.want {
					t.Errorf("%s:\n got %q\nwant %q", c.why, got, c.want)
				}
			}
		}
	})
}
