package sink_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/expression"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// sweepRule parses a rule of these tests: "row key", "row key > family" or "row key >
// family:{column}", after an optional "condition: ".
func sweepRule(t testing.TB, text string) transform.Rule {
	t.Helper()
	var r transform.Rule
	if condition, rest, ok := strings.Cut(text, ": "); ok {
		when, err := expression.ParseWhen(condition)
		if err != nil {
			t.Fatal(err)
		}
		r.When, r.Text, text = when, condition, rest
	}
	if text == "ignore" {
		r.Ignore = true
		return r
	}
	row, to, ok := strings.Cut(text, " > ")
	if !ok {
		to = "d"
	}
	w := transform.Write{RowKey: parseTemplate(t, row)}
	if family, column, folded := strings.Cut(to, ":"); folded {
		w.Cell = &transform.CellRule{Family: family, Qualifier: parseTemplate(t, column), As: transform.AsJSON}
	} else {
		w.Columns = []transform.ColumnRule{{Attribute: "*", To: family}}
	}
	r.Writes = []transform.Write{w}
	return r
}

func parseTemplate(t testing.TB, text string) *transform.Template {
	t.Helper()
	parsed, err := transform.ParseTemplate(text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// sweepMapping returns a mapping of table S, whose key is id, to target t.
func sweepMapping(t testing.TB, change func(*transform.Spec), rules ...string) *transform.Mapping {
	t.Helper()
	spec := transform.Spec{Source: "S", Table: "t", PrimaryKey: []transform.KeyAttribute{{Name: "id", Type: attribute.KindS}}}
	for _, name := range []string{"d", "e"} {
		family, err := transform.ParseFamily(name, "never")
		if err != nil {
			t.Fatal(err)
		}
		spec.Families = append(spec.Families, family)
	}
	for _, rule := range rules {
		spec.Rules = append(spec.Rules, sweepRule(t, rule))
	}
	if change != nil {
		change(&spec)
	}
	m, err := transform.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func merged(s *transform.Spec) { s.Merged = true }

func otherSource(s *transform.Spec) { s.Source, s.Merged = "Other", true }

func outliving(s *transform.Spec) {
	s.TTL = transform.TTL{Attribute: "ttl", Expire: transform.KeepExpired}
}

// sweepItem parses "id name=value …".
func sweepItem(text string) attribute.Item {
	words := strings.Fields(text)
	list := []attribute.Attribute{{Name: "id", Value: attribute.String(words[0])}}
	for _, w := range words[1:] {
		name, value, _ := strings.Cut(w, "=")
		list = append(list, attribute.Attribute{Name: name, Value: attribute.String(value)})
	}
	return attribute.NewItem(list)
}

// loaded writes items like a load of a generation, a second after the generation's number of
// minutes.
func loaded(t testing.TB, table sink.Table, m *transform.Mapping, generation uint32, items ...string) {
	t.Helper()
	for _, text := range items {
		b := transform.Load(m, []attribute.Item{sweepItem(text)}, generation, sweepTime(generation))
		for _, row := range b.Rows {
			apply(t, table, row)
		}
	}
}

func sweepTime(generation uint32) time.Time { return time.Unix(60*int64(generation), 0) }

// foreign writes a row like another program.
func foreign(t testing.TB, table sink.Table, row string) {
	t.Helper()
	r := sink.Request{Table: "t", Row: row, Refuse: sink.Predicate{Families: []string{sink.LiveFamily}, Qualifier: "none", AtLeast: "x"},
		Ops: []sink.Op{{Kind: sink.SetCell, Family: "d", Qualifier: "x", Value: []byte("theirs")}}}
	if _, err := table.Apply(context.Background(), &r); err != nil {
		t.Fatal(err)
	}
}

// suspectsOf returns all suspects of a table, one per line: "row [owner's] items [families]
// [columns]", and "? n" for n unexplained ones.
func suspectsOf(t testing.TB, table sink.MarkReader, s sink.Sweeping) (string, []sink.Suspect) {
	t.Helper()
	var lines []string
	var all []sink.Suspect
	err := table.ReadMarks(context.Background(), "t", sink.Range{}, true, 0, func(row sink.Row) error {
		suspects, unexplained := s.Suspects(row)
		for _, suspect := range suspects {
			line := row.Key
			if suspect.Claim.Owner != "" {
				line += " shared"
			}
			for _, keys := range suspect.Items {
				id, _ := keys.Get("id")
				line += " " + id.Text()
			}
			for _, f := range append(suspect.Claim.InheritedFamilies, suspect.Claim.Families...) {
				line += " " + f
			}
			for _, c := range suspect.Claim.Columns {
				line += " " + c.Family + ":" + c.Qualifier
			}
			lines = append(lines, line)
		}
		if unexplained > 0 {
			lines = append(lines, fmt.Sprintf("%s ?%d", row.Key, unexplained))
		}
		all = append(all, suspects...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, ", "), all
}

// H86, H101: which rows are suspects, and of which items.
func TestH86_H101_Suspects(t *testing.T) {
	plain := sweepMapping(t, nil, "{id}")
	type setting struct {
		m, former *transform.Mapping
		owned     bool
		written   bool
		shared    bool
	}
	for name, c := range map[string]struct {
		setting
		rows func(table *sinktest.Memory)
		want string
	}{
		"generations": {setting{m: plain}, func(table *sinktest.Memory) {
			loaded(t, table, plain, 1, "old")
			loaded(t, table, plain, 5, "now")
			loaded(t, table, plain, 6, "later")
		}, "old old d"},
		"tombstones, and what stands in a row that was removed": {setting{m: plain, owned: true}, func(table *sinktest.Memory) {
			b := transform.Fold(plain, []cdc.Change{{Event: cdc.Remove, Sequence: cdc.SequenceOf(1), Keys: sweepItem("gone")}}, transform.Stamp{Generation: 1, Hop: 1})
			apply(t, table, b.Rows[0])
			foreign(t, table, "gone")
		}, ""},
		"a removal beside an application that writes the target (H39)": {setting{m: plain, written: true}, func(table *sinktest.Memory) {
			b := transform.Fold(plain, []cdc.Change{{Event: cdc.Remove, Sequence: cdc.SequenceOf(1), Keys: sweepItem("gone")}}, transform.Stamp{Generation: 1, Hop: 1})
			apply(t, table, b.Rows[0])
			foreign(t, table, "gone")
		}, "gone gone d"},
		"rows without a version in a shared table": {setting{m: plain}, func(table *sinktest.Memory) { foreign(t, table, "theirs") }, ""},
		"rows without a version in our own table":  {setting{m: plain, owned: true}, func(table *sinktest.Memory) { foreign(t, table, "astray") }, "astray astray d"},
		"the witness": {setting{m: plain, owned: true}, func(table *sinktest.Memory) {
			foreign(t, table, plain.WitnessKey())
			old := remove(1)
			old.Row, old.Remove = transform.WitnessKeyOf("Other"), false
			apply(t, table, old)
		}, ""},
		"rows that no rule makes": {setting{m: sweepMapping(t, nil, "x#{id}"), owned: true}, func(table *sinktest.Memory) {
			loaded(t, table, plain, 1, "old")
			foreign(t, table, "theirs")
		}, "old ?1, theirs ?1"},
		"a version that is none": {setting{m: plain}, func(table *sinktest.Memory) {
			odd := put(1, "a=1")
			odd.Version = "0"
			apply(t, table, odd)
		}, "r ?1"},
		"a merged table": {setting{m: sweepMapping(t, merged, "a#{id}"), owned: true}, func(table *sinktest.Memory) {
			loaded(t, table, sweepMapping(t, merged, "a#{id}"), 1, "ours")
			loaded(t, table, sweepMapping(t, otherSource, "b#{id}"), 1, "theirs")
			// This row is identified by its origin.
			loaded(t, table, sweepMapping(t, otherSource, "a#{id}"), 1, "confused")
			// This row is not from this mapping.
			loaded(t, table, sweepMapping(t, nil, "{id}"), 1, "a#unnamed")
			foreign(t, table, "a#astray")
			foreign(t, table, "b#theirs, too")
		}, "a#astray astray d, a#ours ours d"},
		"a target shared with another migration": {setting{m: sweepMapping(t, merged, "{id}"), former: plain, shared: true}, func(table *sinktest.Memory) {
			loaded(t, table, sweepMapping(t, merged, "{id}"), 1, "ours")
			loaded(t, table, sweepMapping(t, otherSource, "{id}"), 1, "theirs")
			loaded(t, table, plain, 1, "anybody's") // from before it was shared, or the other's
			foreign(t, table, "astray")
		}, "ours ours d"},
		"folded rows": {setting{m: sweepMapping(t, nil, "{c} > e:{id}")}, func(table *sinktest.Memory) {
			m := sweepMapping(t, nil, "{c} > e:{id}")
			loaded(t, table, m, 1, "x c=1", "y c=1")
			loaded(t, table, m, 5, "z c=1")
		}, "1 shared x e:x, 1 shared y e:y"},
		"a row that does not tell the item": {setting{m: sweepMapping(t, nil, "{c}#{id | reverse}")}, func(table *sinktest.Memory) {
			loaded(t, table, sweepMapping(t, nil, "{c}#{id | reverse}"), 1, "xy c=1")
		}, "1#yx xy d"},
		"two rules of one row": {setting{m: sweepMapping(t, nil, "k = 'a': r#{id} > d", "r#{id} > e")}, func(table *sinktest.Memory) {
			loaded(t, table, sweepMapping(t, nil, "k = 'a': r#{id} > d", "r#{id} > e"), 1, "x k=a")
		}, "r#x x d e"},
		"H102: another mapping, without the former": {setting{m: sweepMapping(t, nil, "n#{id}")}, func(table *sinktest.Memory) {
			loaded(t, table, sweepMapping(t, nil, "o#{id}"), 1, "x")
		}, "o#x ?1"},
		"H102: another mapping": {setting{m: sweepMapping(t, nil, "n#{id}"), former: sweepMapping(t, nil, "o#{id} > e")}, func(table *sinktest.Memory) {
			loaded(t, table, sweepMapping(t, nil, "o#{id} > e"), 1, "x")
		}, "o#x x e"},
		"H102: another family of the same row": {setting{m: sweepMapping(t, nil, "{id} > d"), former: sweepMapping(t, nil, "{id} > e")}, func(table *sinktest.Memory) {
			loaded(t, table, sweepMapping(t, nil, "{id} > e"), 1, "x")
		}, "x x e d"},
		"H102: another item has the row now": {setting{m: sweepMapping(t, nil, "{id}"), former: sweepMapping(t, nil, "{id | reverse}")}, func(table *sinktest.Memory) {
			loaded(t, table, sweepMapping(t, nil, "{id | reverse}"), 1, "xy")
		}, "yx xy yx d"},
		"H102: other items have cells there now": {setting{m: sweepMapping(t, nil, "{c} > d:{id}"), former: plain}, func(table *sinktest.Memory) {
			loaded(t, table, plain, 1, "x")
		}, "x ?1"},
	} {
		table := memory()
		c.rows(table)
		got, _ := suspectsOf(t, table, sink.Sweeping{Mapping: c.m, Former: formerly(c.former), Table: "t", Generation: 5, Owned: c.owned, Written: c.written, Shared: c.shared})
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// formerly returns the mapping as a replaced one; nil is none.
func formerly(m *transform.Mapping) []sink.Former {
	if m == nil {
		return nil
	}
	return []sink.Former{{Mapping: m}}
}

// sweepOnce runs one pass over table t, with the given items in the source. It returns what the
// pass did, and writes it twice.
func sweepOnce(t testing.TB, table *sinktest.Memory, s sink.Sweeping, items ...string) (sink.SweepCounts, transform.Batch) {
	t.Helper()
	_, suspects := suspectsOf(t, table, s)
	var found []transform.Found
	for _, keys := range sink.Items(s.Mapping, suspects) {
		f := transform.Found{Keys: keys}
		for _, text := range items {
			if i := sweepItem(text); s.Mapping.Keys(i).Equal(keys) {
				f.Image = i
			}
		}
		found = append(found, f)
	}
	b, counts := s.Settle(suspects, found, sweepTime(s.Generation))
	for range 2 {
		for _, row := range b.Rows {
			apply(t, table, row)
		}
	}
	return counts, b
}

// standing returns the live rows of table t, with their cells' families.
func standing(t testing.TB, table sink.Reader) string {
	t.Helper()
	var live []string
	for _, r := range readAll(t, table, "t") {
		line := r.Key
		for _, c := range r.Cells {
			if text := " " + c.Family; !strings.Contains(line, text) || c.Family == "e" {
				line += text
			}
		}
		if len(r.Cells) > 0 || r.Version != "" {
			live = append(live, line)
		}
	}
	return strings.Join(live, ", ")
}

// H86: what happens to a suspect. Another pass finds nothing.
func TestH86_WhatASweepDoes(t *testing.T) {
	moving := []string{"k = 'ignored': ignore", "k = 'folded': {c} > e:{id}", "k = 'row': {c}#{id}"}
	for name, c := range map[string]struct {
		change func(*transform.Spec)
		rules  []string
		former []string
		old    []string // items of generation 1
		now    []string // items of the source
		left   int64
		parked int
		want   string
	}{
		"deleted":                  {rules: []string{"{id}"}, old: []string{"a", "b"}, now: []string{"b"}, want: "b d"},
		"created again":            {rules: []string{"{id}"}, old: []string{"a v=1"}, now: []string{"a v=2"}, want: "a d"},
		"moved":                    {rules: moving, old: []string{"a k=row c=1"}, now: []string{"a k=row c=2"}, want: "2#a d"},
		"to another rule":          {rules: moving, old: []string{"a k=row c=1"}, now: []string{"a k=folded c=1"}, want: "1 e"},
		"folded, moved":            {rules: moving, old: []string{"a k=folded c=1", "b k=folded c=1"}, now: []string{"a k=folded c=2", "b k=folded c=1"}, want: "1 e, 2 e"},
		"to a rule that ignores":   {rules: moving, old: []string{"a k=row c=1"}, now: []string{"a k=ignored"}, want: ""},
		"not to be mapped":         {rules: moving, old: []string{"a k=row c=1"}, now: []string{"a k=row"}, parked: 1, want: ""},
		"of no rule":               {rules: moving, old: []string{"a k=row c=1"}, now: []string{"a k=other"}, parked: 1, want: ""},
		"expired, or deleted":      {change: outliving, rules: []string{"{id}"}, old: []string{"a", "b"}, now: []string{"b"}, left: 1, want: "a d, b d"},
		"merged":                   {change: merged, rules: []string{"s#{id}"}, old: []string{"a", "b"}, now: []string{"b"}, want: "s#b d"},
		"H102: of another mapping": {rules: []string{"{id} > e"}, former: []string{"{id | reverse}"}, old: []string{"a", "bc", "cd"}, now: []string{"a", "bc"}, want: "a e, bc e"},
	} {
		m := sweepMapping(t, c.change, c.rules...)
		table := memory()
		s, before := sink.Sweeping{Mapping: m, Table: "t", Generation: 5}, m
		if c.former != nil {
			before = sweepMapping(t, c.change, c.former...)
			s.Former = formerly(before)
		}
		loaded(t, table, before, 1, c.old...)
		counts, b := sweepOnce(t, table, s, c.now...)
		if got := standing(t, table); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if counts.Left != c.left || len(b.Parked) != c.parked || counts.Suspects != int64(len(c.old)) || counts.Wrote() == false {
			t.Errorf("%s: %+v, %d parked", name, counts, len(b.Parked))
		}
		for _, p := range b.Parked {
			if p.Change.Event != cdc.Insert || !p.Change.New.Exists() {
				t.Errorf("%s: parked as %+v", name, p)
			}
		}
		again, _ := sweepOnce(t, table, s, c.now...)
		if again.Wrote() || again.Suspects != c.left || again.Left != c.left {
			t.Errorf("%s: the second pass did %+v", name, again)
		}
	}
}

// H86: changes of the sweep's generation outrank its writes, whichever come first. Nothing that was
// read before the sweep does.
func TestH86_TheStreamBeatsTheSweep(t *testing.T) {
	m := sweepMapping(t, nil, "{c}#{id}")
	s := sink.Sweeping{Mapping: m, Table: "t", Generation: 5}
	for name, steps := range map[string][]string{"sweep first": {"sweep", "stream", "load"}, "stream first": {"stream", "sweep", "load"}, "load last but one": {"load", "sweep", "stream"}} {
		table := memory()
		loaded(t, table, m, 1, "a c=1")
		_, suspects := suspectsOf(t, table, s)
		b, _ := s.Settle(suspects, []transform.Found{{Keys: sweepItem("a"), Image: sweepItem("a c=2")}}, sweepTime(6))
		moved := transform.Fold(m, []cdc.Change{{Event: cdc.Modify, Sequence: cdc.SequenceOf(1), Keys: sweepItem("a"), Old: sweepItem("a c=2"), New: sweepItem("a c=1 v=new")}},
			transform.Stamp{Generation: 5, Hop: 1})
		batches := map[string]transform.Batch{"sweep": b, "stream": moved, "load": transform.Load(m, []attribute.Item{sweepItem("a c=2")}, 5, sweepTime(5))}
		for _, step := range steps {
			for _, row := range batches[step].Rows {
				apply(t, table, row)
			}
		}
		if got := standing(t, table); got != "1#a d" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// A removed item whose row cannot even be emptied is parked as removed.
func TestWhatASweepRemovesCanBeParked(t *testing.T) {
	m := sweepMapping(t, nil, "{id}")
	table := memory()
	loaded(t, table, m, 1, "a", "b")
	_, b := sweepOnce(t, table, sink.Sweeping{Mapping: m, Table: "t", Generation: 5}, "b")
	n := slices.IndexFunc(b.Rows, func(r transform.RowMutation) bool { return r.Remove })
	if p := b.Park(b.Rows[n], "test"); p.Change.Event != cdc.Remove || !p.Change.Keys.Equal(sweepItem("a")) || p.Key != m.ItemKey(sweepItem("a")) {
		t.Errorf("%+v", p)
	}
}

func TestSplit(t *testing.T) {
	samples := []string{"b", "d", "d", "f", "h", "j"}
	for _, c := range []struct {
		r    sink.Range
		most int
		want string
	}{
		{sink.Range{}, 1, "[{ }]"}, {sink.Range{}, 0, "[{ }]"}, {sink.Range{}, 2, "[{ f} {f }]"}, {sink.Range{}, 64, "[{ b} {b d} {d f} {f h} {h j} {j }]"},
		{sink.Range{From: "d", To: "h"}, 9, "[{d f} {f h}]"}, {sink.Range{From: "x"}, 9, "[{x }]"}, {sink.Range{From: "b", To: "b\x00"}, 9, "[{b b\x00}]"},
	} {
		if got := fmt.Sprint(sink.Split(c.r, samples, c.most)); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	m := sweepMapping(t, merged, "s#{id}")
	other := sink.Sweeping{Mapping: m, Former: formerly(sweepMapping(t, nil, "so#{id}")), Table: "t"}
	if r, former := (sink.Sweeping{Mapping: m, Table: "t"}).Range(), other.Range(); r != sink.Prefix("s#") || former != sink.Prefix("s") {
		t.Errorf("%q %q", r, former)
	}
}

// A remove deletes all cells of its item, from any rule. In a replaced target the row may hold
// another image than the stream shows.
func TestARemoveOwnsWhatEveryRuleHas(t *testing.T) {
	m := sweepMapping(t, nil, "k = 'd': {id} > d", "{id} > e")
	table := memory()
	loaded(t, table, sweepMapping(t, nil, "{id} > d"), 1, "x")
	b := transform.Fold(m, []cdc.Change{{Event: cdc.Remove, Sequence: cdc.SequenceOf(1), Keys: sweepItem("x"), Old: sweepItem("x")}},
		transform.Stamp{Generation: 2, Hop: 1})
	sink.OwnRemoved(m, &b)
	for _, row := range b.Rows {
		apply(t, table, row)
	}
	if left := standing(t, table); left != "" {
		t.Error(left)
	}
}

// H87: a row in which only the application wrote a number above its item's is left unchanged, and
// the item is not put into its other row for that; otherwise the passes would never end. If an
// older record wrote the number of a removed item, the sweep is raised above it.
func TestH87_ASweepLeavesAHigherNumber(t *testing.T) {
	m := sweepMapping(t, func(s *transform.Spec) { s.VersionAttribute = "rev" }, "{at}#{id}")
	item := func(at, rev string) attribute.Item {
		number, err := attribute.Number(rev)
		if err != nil {
			t.Fatal(err)
		}
		return attribute.NewItem([]attribute.Attribute{{Name: "id", Value: attribute.String("1")}, {Name: "at", Value: attribute.String(at)}, {Name: "rev", Value: number}})
	}
	image := item("a", "7")
	left, written := sink.SweepCounts{Suspects: 1, Left: 1}, sink.SweepCounts{Suspects: 1, Put: 1, Removed: 1}
	for _, c := range []struct {
		held transform.Version
		rev  string
		want sink.SweepCounts
	}{{ranked(7, false, 0), "1", left}, {ranked(7, false, 0), "8", written}, {ranked(7, false, 2), "1", left}, {ranked(7, true, 2), "1", written}} {
		table := &sinktest.Memory{}
		table.Create("t", sink.LiveFamily, sink.GoneFamily, "d", "e")
		b := transform.Load(m, []attribute.Item{image}, 1, sweepTime(1))
		b.Rows[0].Version = c.held
		apply(t, table, b.Rows[0])
		s := sink.Sweeping{Mapping: m, Table: "t", Generation: 5, Owned: true}
		_, suspects := suspectsOf(t, table, s)
		batch, counts := s.Settle(suspects, []transform.Found{{Keys: sweepItem("1"), Image: item("b", c.rev)}}, sweepTime(6))
		if counts != c.want {
			t.Errorf("an item of number %s over %s: %+v, want %+v", c.rev, c.held, counts, c.want)
		}
		w := sink.NewWriter(sink.Options{Table: table, Rows: table, Parking: newLot()})
		if err := w.Write(t.Context(), sink.Unfenced(), &batch); err != nil {
			t.Fatal(err)
		}
		if _, again := suspectsOf(t, table, s); len(again) != int(c.want.Left) {
			t.Errorf("an item of number %s over %s: %d suspects are left", c.rev, c.held, len(again))
		}
	}
}
