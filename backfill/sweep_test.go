package backfill

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/expression"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// sweptMapping returns a mapping of table S, whose key is pk, by rules such as "k = 'a' | {c}#{pk}
// > d" and "k = 'b' | {c} > e:{pk}". Several writes of a rule are joined with " & ".
func sweptMapping(source string, merged bool, rules ...string) *transform.Mapping {
	template := func(text string) *transform.Template {
		parsed, err := transform.ParseTemplate(text)
		if err != nil {
			panic(err)
		}
		return parsed
	}
	spec := transform.Spec{Source: source, Table: "t", Merged: merged, PrimaryKey: []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}},
		Families: []transform.Family{{Name: "d"}, {Name: "e"}}}
	for _, text := range rules {
		when, writes, _ := strings.Cut(text, " | ")
		condition, err := expression.ParseWhen(when)
		if err != nil {
			panic(err)
		}
		r := transform.Rule{When: condition, Text: when, Ignore: writes == "ignore"}
		for _, text := range strings.Split(writes, " & ") {
			row, to, _ := strings.Cut(text, " > ")
			family, column, folded := strings.Cut(to, ":")
			w := transform.Write{RowKey: template(row), Columns: []transform.ColumnRule{{Attribute: "*", To: family}}}
			if folded {
				w.Columns, w.Cell = nil, &transform.CellRule{Family: family, Qualifier: template(column), As: transform.AsJSON}
			}
			if !r.Ignore {
				r.Writes = append(r.Writes, w)
			}
		}
		spec.Rules = append(spec.Rules, r)
	}
	m, err := transform.New(spec)
	if err != nil {
		panic(err)
	}
	return m
}

var always = "attribute_exists(pk) | "

// gap is a source whose stream was not read for a while, and its target.
type gap struct {
	*virtual.World
	m, former *transform.Mapping
	target    *sinktest.Memory
	items     map[string]attribute.Item
	pending   []transform.Batch // from the stream and from a load
	sequence  uint64
}

const sweptGeneration = 3

// formerly returns the mapping as a replaced one; nil is none.
func formerly(m *transform.Mapping) []sink.Former {
	if m == nil {
		return nil
	}
	return []sink.Former{{Mapping: m}}
}

func (g *gap) pick(values ...string) string { return values[g.Rand().IntN(len(values))] }

// change changes an item of the source, and returns the record.
func (g *gap) change() cdc.Change {
	pk := g.pick("a", "b", "c#", "d", "e")
	keys := attribute.Attribute{Name: "pk", Value: attribute.String(pk)}
	g.sequence++
	c := cdc.Change{Event: cdc.Remove, Sequence: cdc.SequenceOf(g.sequence), Time: g.Now(), Keys: attribute.NewItem([]attribute.Attribute{keys}), Old: g.items[pk]}
	delete(g.items, pk)
	if g.Rand().IntN(3) > 0 {
		list := []attribute.Attribute{keys, {Name: "k", Value: attribute.String(g.pick("row", "row", "folded", "both", "ignored", "odd"))},
			{Name: "v", Value: attribute.String(fmt.Sprint(g.sequence))}}
		if g.Rand().IntN(8) > 0 {
			list = append(list, attribute.Attribute{Name: "c", Value: attribute.String(g.pick("1", "2", "3#"))})
		}
		c.Event, c.New = cdc.Modify, attribute.NewItem(list)
		if !c.Old.Exists() {
			c.Event = cdc.Insert
		}
		g.items[pk] = c.New
	}
	return c
}

// inherit writes the rows of a generation, from changes and loads that are all applied.
func (g *gap) inherit(m *transform.Mapping, generation uint32) {
	for range g.Rand().IntN(12) {
		g.apply(transform.Fold(m, []cdc.Change{g.change()}, transform.Stamp{Generation: generation, Hop: 1}))
		if g.Rand().IntN(6) == 0 {
			g.apply(g.load(m, generation))
		}
	}
}

func (g *gap) load(m *transform.Mapping, generation uint32) transform.Batch {
	var all []attribute.Item
	for _, pk := range []string{"a", "b", "c#", "d", "e"} {
		if i, ok := g.items[pk]; ok {
			all = append(all, i)
		}
	}
	return transform.Load(m, all, generation, g.Now())
}

func (g *gap) apply(b transform.Batch) {
	if len(b.Rows) > 0 && b.Rows[0].Version.Generation() == sweptGeneration {
		sink.Inherit(g.m, formerly(g.former), &b)
	}
	for i := range b.Rows {
		if _, err := sink.Execute(g.Context(), sink.Unfenced(), g.target, g.target, &b.Rows[i]); err != nil {
			panic(err)
		}
	}
}

// meanwhile does what may happen while a sweep runs, in any order: changes that are applied later,
// and pending writes.
func (g *gap) meanwhile() {
	for range g.Rand().IntN(2) {
		g.pending = append(g.pending, transform.Fold(g.m, []cdc.Change{g.change()}, transform.Stamp{Generation: sweptGeneration, Hop: 1}))
	}
	for len(g.pending) > 0 && g.Rand().IntN(2) == 0 {
		n := g.Rand().IntN(len(g.pending))
		g.apply(g.pending[n])
		g.pending = slices.Delete(g.pending, n, n+1)
	}
}

// Get implements ItemSource.
func (g *gap) Get(ctx context.Context, table string, key attribute.Item) (attribute.Item, bool, error) {
	if err := task.Sleep(ctx, g.UpTo(time.Millisecond)); err != nil {
		return attribute.Item{}, false, err
	}
	g.meanwhile()
	if g.Chance(0.02) {
		return attribute.Item{}, false, &cdc.Error{Op: "GetItem", Reason: cdc.Unavailable}
	}
	i, ok := g.items[keyOf(key)]
	return i, ok && table == g.m.Source, nil
}

// pass sweeps the table once, in ranges. A sweep of a range may fail often, and then continues at
// its saved progress, which is stored as JSON.
func (g *gap) pass(t *testing.T, s Sweep) sink.SweepCounts {
	ctx := g.Context()
	ranges, err := SweepRanges(ctx, g.target, s.Sweeping, 1+g.Rand().IntN(3))
	if err != nil {
		t.Fatal(err)
	}
	var sums sink.SweepCounts
	for _, s.Range = range ranges {
		var saved SweepProgress
		for !saved.Done {
			s.Save = func(_ context.Context, p SweepProgress) error {
				text, err := json.Marshal(p)
				saved = SweepProgress{}
				return cmp.Or(err, json.Unmarshal(text, &saved))
			}
			if _, err := s.Run(ctx, saved); err != nil && !errors.Is(err, errDown) && !cdc.Is(err, cdc.Unavailable) {
				t.Fatal(err)
			}
		}
		sums.Add(saved.Sums)
	}
	return sums
}

var errDown = errors.New("down")

// cells returns the replicated cells in the target, in all but the foreign rows. expected returns
// what they should be.
func (g *gap) cells(foreign []string) string {
	var lines []string
	err := g.target.ReadRows(g.Context(), "t", sink.Range{}, func(row sink.Row) error {
		for _, c := range row.Cells {
			if !slices.Contains(foreign, row.Key) {
				lines = append(lines, fmt.Sprintf("%q %s:%q=%s", row.Key, c.Family, c.Qualifier, c.Value))
			}
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (g *gap) expected() string {
	var lines []string
	for _, i := range g.items {
		p, err := g.m.Map(i, g.Now())
		if err != nil {
			continue // parked
		}
		for _, row := range p.Rows {
			for _, c := range row.Cells {
				lines = append(lines, fmt.Sprintf("%q %s:%q=%s", row.Row, c.Family, c.Qualifier, c.Value))
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// H86, H101, H102: older generations left rows, changes happen during the sweep, and writes come
// late. After load, stream and sweep the target equals the source, foreign rows are unchanged, and
// another pass writes nothing.
func TestH86_H101_H102_AfterASweepTheTargetEqualsTheSource(t *testing.T) {
	single := sweptMapping("S", false, always+"{pk} > d")
	tenants, err := transform.NewMapping("S", "t", "d", single.PrimaryKey, "c", "pk")
	if err != nil {
		t.Fatal(err)
	}
	ruled := func(merged bool, prefix string) *transform.Mapping {
		return sweptMapping("S", merged, "k = 'row' | "+prefix+"w{c}#{pk} > d", "k = 'folded' | "+prefix+"f{c} > e:{pk}",
			"k = 'both' | "+prefix+"f{c}#{pk} > d & "+prefix+"f{c} > e:{pk}", "k = 'ignored' | ignore")
	}
	for name, c := range map[string]struct {
		m, former *transform.Mapping
		owned     bool
	}{
		"one row, shared with others": {m: single},
		"one row, owned":              {m: single, owned: true},
		"an attribute in the row key": {m: tenants},
		"rules":                       {m: ruled(false, "")},
		"merged":                      {m: ruled(true, "s/"), owned: true},
		"another mapping":             {m: ruled(false, "n/"), former: ruled(false, "")},
		"another family":              {m: sweptMapping("S", false, always+"{pk} > e"), former: single},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(150) {
				w := virtual.NewWorld(seed, day, false)
				err := w.Run(time.Hour, func(ctx context.Context) { sweepAfterGap(t, w, c.m, c.former, c.owned) })
				if err != nil {
					t.Fatal(seed, err)
				}
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
	}
}

func sweepAfterGap(t *testing.T, w *virtual.World, m, former *transform.Mapping, owned bool) {
	g := &gap{World: w, m: m, former: former, target: &sinktest.Memory{}, items: map[string]attribute.Item{}}
	g.target.Create("t", "d", "e")
	foreign := g.neighbours(owned)
	before := cmp.Or(former, m)
	g.inherit(before, 1)
	g.inherit(before, 2)
	for range w.Rand().IntN(10) {
		g.change() // no worker reads the stream
	}
	_ = task.Sleep(w.Context(), time.Minute)
	late := g.load(m, sweptGeneration) // a slow worker repeats parts of the load
	for range w.Rand().IntN(3) {
		g.pending = append(g.pending, transform.Fold(m, []cdc.Change{g.change()}, transform.Stamp{Generation: sweptGeneration, Hop: 1}))
	}
	_ = task.Sleep(w.Context(), time.Minute)
	g.apply(g.load(m, sweptGeneration))
	s := Sweep{Sweeping: sink.Sweeping{Mapping: m, Former: formerly(former), Table: "t", Generation: sweptGeneration, Owned: owned},
		Target: g.target, Source: g, pageRows: 1 + w.Rand().IntN(3)}
	s.Write = func(_ context.Context, b *transform.Batch) error {
		for _, i := range w.Rand().Perm(len(b.Rows)) {
			g.meanwhile()
			g.apply(transform.Batch{Rows: b.Rows[i : i+1]})
			if w.Chance(0.05) {
				return errDown
			}
		}
		return nil
	}
	first := g.pass(t, s)
	g.apply(late)
	for len(g.pending) > 0 {
		g.meanwhile()
	}
	if got, want := g.cells(foreign), g.expected(); got != want {
		t.Errorf("after %+v\ngot:\n%s\nwant:\n%s", first, got, want)
	}
	if again := g.pass(t, s); again.Wrote() || again.Suspects+again.Unexplained > 0 {
		t.Errorf("the second pass did %+v", again)
	}
	for len(g.pending) > 0 {
		g.meanwhile()
	}
	if got, want := g.cells(foreign), g.expected(); got != want {
		t.Errorf("after the second pass\ngot:\n%s\nwant:\n%s", got, want)
	}
	if theirs := g.cells(nil); strings.Count(theirs, "=theirs") != len(foreign) {
		t.Errorf("%d rows of others, of which are left:\n%s", len(foreign), theirs)
	}
}

// neighbours puts foreign rows into the table and, if it is owned, orphan rows. It returns the
// foreign ones.
func (g *gap) neighbours(owned bool) (foreign []string) {
	plain := func(row, value string) {
		r := sink.Request{Table: "t", Row: row, Refuse: sink.Predicate{Families: []string{sink.LiveFamily}, Qualifier: "none", AtLeast: "x"},
			Ops: []sink.Op{{Kind: sink.SetCell, Family: "d", Qualifier: "x", Value: []byte(value)}}}
		if _, err := g.target.Apply(g.Context(), &r); err != nil {
			panic(err)
		}
	}
	if !owned {
		plain("theirs", "theirs")
		foreign = append(foreign, "theirs")
	}
	if owned && !g.m.Merged() {
		plain("b", "stray")
		plain("nobody", "stray")
	}
	if g.m.Merged() {
		other := sweptMapping("Other", true, always+"o/{pk} > d")
		i := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("a")}, {Name: "v", Value: attribute.String("theirs")}})
		b := transform.Load(other, []attribute.Item{i}, 1, g.Now())
		b.Rows[0].Cells = b.Rows[0].Cells[1:]
		g.apply(b)
		foreign = append(foreign, "o/a")
	}
	return foreign
}

// A dry run writes nothing and saves only its counts. An error of the source never counts as a
// deletion.
func TestH101_ADryRunCountsAndErrorsRemoveNothing(t *testing.T) {
	m := sweptMapping("S", false, always+"{pk} > d")
	target := &sinktest.Memory{}
	target.Create("t", "d", "e")
	images := newMemory(70).items
	for _, row := range transform.Load(m, images, 1, day).Rows {
		request := sink.Guard(row)
		if _, err := target.Apply(context.Background(), &request); err != nil {
			t.Fatal(err)
		}
	}
	missing := &cdc.Error{Op: "GetItem", Reason: cdc.NotFound}
	source := getter(func(key attribute.Item) (attribute.Item, bool, error) { return attribute.Item{}, false, missing })
	s := Sweep{Sweeping: sink.Sweeping{Mapping: m, Table: "t", Generation: 2}, Target: target, Source: source,
		Write: func(context.Context, *transform.Batch) error { t.Error("a write"); return nil },
		Save:  func(context.Context, SweepProgress) error { return nil }}
	if p, err := s.Run(context.Background(), SweepProgress{}); !errors.Is(err, missing) || p.Done || p.Sums != (sink.SweepCounts{}) {
		t.Errorf("%v, %+v", err, p)
	}
	s.DryRun = true
	s.Source = getter(func(key attribute.Item) (attribute.Item, bool, error) {
		n := slices.IndexFunc(images[:30], func(i attribute.Item) bool { return keyOf(i) == keyOf(key) })
		if n < 0 {
			return attribute.Item{}, false, nil
		}
		return images[n], true, nil
	})
	p, err := s.Run(context.Background(), SweepProgress{})
	if want := (sink.SweepCounts{Seen: 70, Suspects: 70, Put: 30, Removed: 40, Units: 70}); err != nil || !p.Done || p.Sums != want {
		t.Errorf("%v, %+v", err, p)
	}
}

type getter func(key attribute.Item) (attribute.Item, bool, error)

func (g getter) Get(_ context.Context, _ string, key attribute.Item) (attribute.Item, bool, error) {
	return g(key)
}

// rowList is a target of foreign rows, each as large as a row of many items. Every second read
// fails after its first row.
type rowList struct {
	keys  []string
	reads int
	wide  int
}

func (l *rowList) ReadAt(context.Context, string, []string, int64, func(sink.Row) error) error {
	return nil
}

func (l *rowList) ReadMarks(ctx context.Context, _ string, r sink.Range, _ bool, limit int, f func(sink.Row) error) error {
	if err := task.Sleep(ctx, 400*time.Millisecond); err != nil {
		return err
	}
	l.reads++
	n := 0
	for _, key := range l.keys {
		if key < r.From || n == limit {
			continue
		}
		n++
		row := sink.Row{Key: key, Version: transform.NewVersion(1, 0, cdc.SequenceOf(1), 1), Own: []transform.Cell{{Family: sink.LiveFamily, Qualifier: "k", Value: []byte("Other/" + strings.Repeat("x", l.wide))}}}
		if err := f(row); err != nil {
			return err
		}
		if l.reads%2 == 0 {
			return errDown
		}
	}
	return nil
}

// A read is bounded by rows and bytes, repeated rows are not counted twice, and the position is
// saved at most once a second and at the end.
func TestSweepReadsInPages(t *testing.T) {
	m := sweptMapping("S", true, always+"{pk} > d")
	for name, c := range map[string]struct {
		wide, rows, reads, saves int
	}{
		"by bytes": {600_000, 0, 5, 2}, // two rows, a repeated one, the last one, and none
		"by rows":  {10, 2, 5, 2},
		"at once":  {10, 0, 1, 1},
	} {
		w := virtual.NewWorld(1, day, false)
		err := w.Run(time.Hour, func(ctx context.Context) {
			list := &rowList{keys: []string{"a", "b", "c", "d", "e"}, wide: c.wide}
			saves, last := 0, SweepProgress{}
			s := Sweep{Sweeping: sink.Sweeping{Mapping: m, Table: "t", Generation: 2}, Target: list, pageRows: c.rows,
				Save: func(_ context.Context, p SweepProgress) error { saves, last = saves+1, p; return nil },
				Retry: func(ctx context.Context, op func(context.Context) error) error {
					for {
						if err := op(ctx); !errors.Is(err, errDown) {
							return err
						}
					}
				}}
			p, err := s.Run(ctx, SweepProgress{})
			if err != nil || !p.Done || p.Sums != (sink.SweepCounts{Seen: 5}) || last.Sums != p.Sums || !last.Done || list.reads != c.reads || saves != c.saves {
				t.Errorf("%s: %v, %+v after %d reads and %d saves", name, err, p, list.reads, saves)
			}
			failed := errors.New("not ours any more")
			s.Save = func(context.Context, SweepProgress) error { return failed }
			if _, err := s.Run(ctx, SweepProgress{}); !errors.Is(err, failed) {
				t.Error(err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
