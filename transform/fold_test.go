package transform

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
)

// model is a target table under the guard: every execution sets a row to the maximum of its content
// and the mutation.
type model map[string]modelRow

type modelRow struct {
	version Version
	gone    bool
	cells   string
}

func (t model) apply(r RowMutation) {
	if t[r.Row].version >= r.Version {
		return
	}
	row := modelRow{version: r.Version, gone: r.Remove}
	for _, c := range r.Cells {
		row.cells += fmt.Sprintf("%s=%s;", c.Qualifier, c.Value)
	}
	t[r.Row] = row
}

func (t model) live() map[string]string {
	live := map[string]string{}
	for key, row := range t {
		if !row.gone {
			live[key] = row.cells
		}
	}
	return live
}

// source is a DynamoDB table that writes a stream.
type source struct {
	m       *Mapping
	items   map[string]attribute.Item // by item key
	next    uint64
	changes []cdc.Change
}

func (s *source) write(keys, image attribute.Item) {
	old := s.items[s.m.ItemKey(keys)]
	if !old.Exists() && !image.Exists() || old.Equal(image) {
		return // DynamoDB writes no record for it
	}
	c := cdc.Change{Event: cdc.Modify, Keys: keys, Old: old, New: image, Sequence: cdc.SequenceOf(s.next), Time: time.Unix(1_795_170_000+int64(s.next)/5, 0)}
	s.next++
	switch {
	case !old.Exists():
		c.Event = cdc.Insert
	case !image.Exists():
		c.Event = cdc.Remove
	}
	s.changes = append(s.changes, c)
	if image.Exists() {
		s.items[s.m.ItemKey(keys)] = image
	} else {
		delete(s.items, s.m.ItemKey(keys))
	}
}

// want returns the expected target: each item that can be mapped, in its row.
func (s *source) want() map[string]string {
	want := map[string]string{}
	for _, it := range s.items {
		row, err := s.m.Row(it)
		if err != nil {
			continue
		}
		cells, err := s.m.Cells(it, 0)
		if err != nil {
			continue
		}
		text := ""
		for _, c := range cells {
			text += fmt.Sprintf("%s=%s;", c.Qualifier, c.Value)
		}
		want[row] = text
	}
	return want
}

// drawHistory generates some dozens of changes of a few items, with moves, deletions and
// recreations. Some images have no address, or a column that Bigtable does not accept.
func drawHistory(t *rapid.T, m *Mapping) *source {
	s := &source{m: m, items: map[string]attribute.Item{}, next: 95} // the length of sequence numbers changes on the way (H10)
	moves := !m.DependsOnKeyOnly()
	for range rapid.IntRange(1, 40).Draw(t, "writes") {
		keys := item("pk", attribute.String(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "item")))
		if rapid.IntRange(0, 3).Draw(t, "remove") == 0 {
			s.write(keys, attribute.Item{})
			continue
		}
		list := append(slices.Clone(keys.Attributes()), attribute.Attribute{Name: "v", Value: number(fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "value")))})
		if rapid.Bool().Draw(t, "attribute") {
			list = append(list, attribute.Attribute{Name: "x", Value: attribute.Bool(true)})
		}
		if rapid.IntRange(0, 9).Draw(t, "poison") == 0 {
			list = append(list, attribute.Attribute{Name: strings.Repeat("n", MaxQualifierBytes+1), Value: attribute.Null()})
		}
		if moves && rapid.IntRange(0, 5).Draw(t, "has tenant") > 0 {
			list = append(list, attribute.Attribute{Name: "tenant", Value: attribute.String(rapid.SampledFrom([]string{"t1", "t2", "t3"}).Draw(t, "tenant"))})
		}
		s.write(keys, attribute.NewItem(list))
	}
	return s
}

var stamp = Stamp{Generation: 3, Hop: 500_000}

func foldMappings(t interface{ Fatal(...any) }) map[string]*Mapping {
	keys := []KeyAttribute{{"pk", attribute.KindS}}
	return map[string]*Mapping{"default": mustMapping(t, keys), "tenant first": mustMapping(t, keys, "tenant", "pk")}
}

// H01, H05, H06, H72: pages are cut anywhere, folded, and executed in any order within a page, with
// a crash and a replay after any page. The result equals that of single changes, which is what the
// source holds.
func TestH72_FoldedPagesEqualChangesOneByOne(t *testing.T) {
	for name, m := range foldMappings(t) {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := drawHistory(t, m)
				oneByOne := model{}
				for i := range s.changes {
					for _, r := range Fold(m, s.changes[i:i+1], stamp).Rows {
						oneByOne.apply(r)
					}
				}
				folded, done := model{}, 0
				for done < len(s.changes) {
					end := rapid.IntRange(done+1, len(s.changes)).Draw(t, "page end")
					rows := rapid.Permutation(Fold(m, s.changes[done:end], stamp).Rows).Draw(t, "order")
					if rapid.IntRange(0, 3).Draw(t, "crash") == 0 {
						for _, r := range rows[:rapid.IntRange(0, len(rows)).Draw(t, "executed")] {
							folded.apply(r)
						}
						// The checkpoint is behind, and pages are cut again.
						done = rapid.IntRange(0, done).Draw(t, "resume")
						continue
					}
					for _, r := range rows {
						folded.apply(r)
					}
					done = end
				}
				if got, want := folded.live(), s.want(); !maps.Equal(got, want) {
					t.Fatalf("folded %v, source %v", got, want)
				}
				if got, want := oneByOne.live(), s.want(); !maps.Equal(got, want) {
					t.Fatalf("one by one %v, source %v", got, want)
				}
			})
		})
	}
}

// T3, H05: a page names a row once per item, so the order of execution does not matter. H06: it has
// the version of the item's last change, even with several changes in one second. H09: versions
// come from sequence numbers, so another fold after a restart gives the same.
func TestH05_H06_H09_FoldNamesARowOncePerItem(t *testing.T) {
	for name, m := range foldMappings(t) {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := drawHistory(t, m)
				b := Fold(m, s.changes, stamp)
				last := map[string]cdc.Change{}
				for _, c := range s.changes {
					last[m.ItemKey(c.Keys)] = c
				}
				seen := map[string]bool{}
				for _, r := range b.Rows {
					if seen[r.Row+"\n"+r.Item] {
						t.Fatalf("row %q twice", r.Row)
					}
					seen[r.Row+"\n"+r.Item] = true
					c := last[r.Item]
					if r.Version != NewVersion(3, 500_000, c.Sequence, CountExact) || !r.At.Equal(c.Time) || r.Remove == (len(r.Cells) > 0) {
						t.Fatalf("%+v is not of the last change", r)
					}
					if c.Event == cdc.Remove && !r.Remove {
						t.Fatal("a removed item is put")
					}
				}
				if b.Changes != len(s.changes) || b.Source != "Orders" {
					t.Fatalf("%d changes of %s", b.Changes, b.Source)
				}
				again := Fold(m, s.changes, stamp)
				if fmt.Sprint(again.Rows) != fmt.Sprint(b.Rows) {
					t.Fatal("folding is not deterministic")
				}
			})
		})
	}
}

func tenantChange(sequence int, event cdc.Event, old, new string) cdc.Change {
	image := func(tenant string) attribute.Item {
		if tenant == "" {
			return attribute.Item{}
		}
		return item("pk", attribute.String("p"), "tenant", attribute.String(tenant))
	}
	return cdc.Change{Event: event, Sequence: cdc.SequenceOf(uint64(sequence)), Time: time.Unix(int64(1000+sequence), 0),
		Keys: item("pk", attribute.String("p")), Old: image(old), New: image(new)}
}

func describe(b Batch) string {
	var words []string
	for _, r := range b.Rows {
		verb := "put"
		if r.Remove {
			verb = "remove"
		}
		words = append(words, fmt.Sprintf("%s %s@%s", verb, r.Row, r.Version.Sequence()))
	}
	for _, p := range b.Parked {
		words = append(words, fmt.Sprintf("park @%s: %s", p.Version.Sequence(), p.Reason))
	}
	return strings.Join(words, ", ")
}

// H72: an item that moves a→b→c leaves neither a nor b, within one page or across two.
func TestH72_MovesWithinAPageAndAcrossPages(t *testing.T) {
	m := foldMappings(t)["tenant first"]
	moves := []cdc.Change{
		tenantChange(1, cdc.Insert, "", "a"), tenantChange(2, cdc.Modify, "a", "b"), tenantChange(3, cdc.Modify, "b", "c"), tenantChange(4, cdc.Remove, "c", ""),
	}
	for _, c := range []struct {
		from, to int
		want     string
	}{
		{0, 3, "remove a#p@3, remove b#p@3, put c#p@3"},
		{1, 2, "remove a#p@2, put b#p@2"},
		{2, 3, "remove b#p@3, put c#p@3"},
		{0, 4, "remove a#p@4, remove b#p@4, remove c#p@4"},
		{3, 4, "remove c#p@4"},
	} {
		if got := describe(Fold(m, moves[c.from:c.to], stamp)); got != c.want {
			t.Errorf("changes %d to %d: %s; want %s", c.from, c.to, got, c.want)
		}
	}
	back := append(moves[:2:2], tenantChange(3, cdc.Modify, "b", "a"))
	if got := describe(Fold(m, back, stamp)); got != "put a#p@3, remove b#p@3" {
		t.Errorf("moved back: %s", got)
	}
}

// H38, H82: an image that cannot be mapped is parked whole, and every address that the item had is
// removed, including its current one.
func TestH38_H82_UnmappableImagesAreParkedAndRemoved(t *testing.T) {
	m := foldMappings(t)["tenant first"]
	poison := func(c cdc.Change) cdc.Change {
		c.New = attribute.NewItem(append(slices.Clone(c.New.Attributes()), attribute.Attribute{Name: strings.Repeat("n", MaxQualifierBytes+1), Value: attribute.Null()}))
		return c
	}
	reason := "an attribute name has 16385 bytes; Bigtable allows column names of 16384"
	noTenant := tenantChange(3, cdc.Modify, "b", "")
	noTenant.New = item("pk", attribute.String("p"))
	leaves := tenantChange(4, cdc.Modify, "", "c")
	leaves.Old = noTenant.New
	for name, c := range map[string]struct {
		page []cdc.Change
		want string
	}{
		"own address known":        {[]cdc.Change{tenantChange(1, cdc.Modify, "a", "b"), poison(tenantChange(2, cdc.Modify, "b", "c"))}, "remove a#p@2, remove b#p@2, remove c#p@2, park @2: " + reason},
		"own address not known":    {[]cdc.Change{noTenant}, `remove b#p@3, park @3: attribute "tenant" of the row key is missing`},
		"healed within the page":   {[]cdc.Change{poison(tenantChange(1, cdc.Insert, "", "a")), tenantChange(2, cdc.Modify, "a", "a")}, "put a#p@2"},
		"old image has no address": {[]cdc.Change{noTenant, leaves}, "remove b#p@4, put c#p@4"},
		"removed within the page":  {[]cdc.Change{poison(tenantChange(1, cdc.Insert, "", "a")), tenantChange(2, cdc.Remove, "a", "")}, "remove a#p@2"},
	} {
		b := Fold(m, c.page, stamp)
		if got := describe(b); got != c.want {
			t.Errorf("%s: %s; want %s", name, got, c.want)
		}
		for _, p := range b.Parked {
			last := c.page[len(c.page)-1]
			if p.Source != "Orders" || p.Key != "S:cA" || !p.Change.New.Equal(last.New) || !p.Change.Old.Equal(last.Old) {
				t.Errorf("%s: the record is not whole: %+v", name, p)
			}
		}
	}
}

// H62: if a needed image is missing, nothing is guessed.
func TestH62_MissingImagesAreParked(t *testing.T) {
	noOld := tenantChange(2, cdc.Modify, "", "b")
	if got := describe(Fold(foldMappings(t)["tenant first"], []cdc.Change{noOld}, stamp)); !strings.HasPrefix(got, "remove b#p@2, park @2: the stream record has no old image") {
		t.Error(got)
	}
	if got := describe(Fold(foldMappings(t)["default"], []cdc.Change{noOld}, stamp)); got != "put p@2" {
		t.Error("a row that depends on the key alone needs no old image: ", got)
	}
	if got := describe(Fold(foldMappings(t)["tenant first"], []cdc.Change{tenantChange(2, cdc.Remove, "", "")}, stamp)); !strings.HasPrefix(got, "park @2: the stream record has no old image") {
		t.Error("of a removed item, too: ", got)
	}
	noNew := tenantChange(2, cdc.Modify, "a", "")
	if got := describe(Fold(foldMappings(t)["default"], []cdc.Change{noNew}, stamp)); got != "remove p@2, park @2: the stream record has no new image of the item" {
		t.Error(got)
	}
}

// H07, H08: record times may run backwards, but cell times never do, within a page or from page to
// page.
func TestH07_H08_CellTimesNeverGoBack(t *testing.T) {
	m := foldMappings(t)["default"]
	at := func(key string, second int64) cdc.Change {
		return cdc.Change{Event: cdc.Insert, Sequence: cdc.SequenceOf(uint64(second)), Time: time.Unix(second, 0),
			Keys: item("pk", attribute.String(key)), New: item("pk", attribute.String(key))}
	}
	b := Fold(m, []cdc.Change{at("a", 105), at("b", 104), at("c", 106)}, stamp)
	if got := fmt.Sprint(b.Rows[0].Cells[0].Timestamp, b.Rows[1].Cells[0].Timestamp, b.Rows[2].Cells[0].Timestamp); got != "105000000 105000000 106000000" {
		t.Error(got)
	}
	if !b.Rows[1].At.Equal(time.Unix(104, 0)) {
		t.Error("At is the change's own time")
	}
	next := Fold(m, []cdc.Change{at("a", 103)}, Stamp{Generation: 3, Hop: 500_001, NotBefore: b.Latest})
	if got := next.Rows[0].Cells[0].Timestamp; got != 106_000_000 {
		t.Error(got)
	}
	if empty := Fold(m, nil, Stamp{NotBefore: b.Latest}); !empty.Latest.Equal(b.Latest) || len(empty.Rows) != 0 {
		t.Error("an empty page changed the cell time")
	}
	odd := Fold(m, []cdc.Change{at("a", -5)}, Stamp{NotBefore: time.Unix(1, 234_567_891)})
	if got := odd.Rows[0].Cells[0].Timestamp; got != 1_234_000 {
		t.Error("not in whole milliseconds: ", got)
	}
}

func TestLoad(t *testing.T) {
	m := foldMappings(t)["tenant first"]
	readAt := time.Unix(1_795_170_000, 987_654_321)
	long := strings.Repeat("n", MaxQualifierBytes+1)
	items := []attribute.Item{
		item("pk", attribute.String("p"), "tenant", attribute.String("t")),
		item("pk", attribute.String("q"), "more", attribute.String("x")),
		item("pk", attribute.String("r"), "tenant", attribute.String("t"), long, attribute.Null()),
	}
	b := Load(m, items, 7, readAt)
	if got := describe(b); got != `put t#p@1795170000, remove t#r@1795170000, park @1795170000: attribute "tenant" of the row key is missing, park @1795170000: an attribute name has 16385 bytes; Bigtable allows column names of 16384` {
		t.Error(got)
	}
	r := b.Rows[0]
	if r.Version != NewVersion(7, LoadHop, cdc.SequenceOf(1_795_170_000), CountExact) || r.Cells[0].Timestamp != 1_795_170_000_987_000 || !r.At.Equal(readAt) {
		t.Errorf("%+v", r)
	}
	p := b.Parked[0]
	if p.Change.Event != cdc.Insert || !p.Change.New.Equal(items[1]) || !p.Change.Keys.Equal(item("pk", attribute.String("q"))) || !p.Change.Time.Equal(readAt) {
		t.Errorf("%+v", p)
	}
}

// Pages of many shards are folded concurrently under one mapping.
func TestFoldSideBySide(t *testing.T) {
	m := foldMappings(t)["tenant first"]
	fold := func(tenant string) string {
		var changes []cdc.Change
		for i := range 200 {
			changes = append(changes, tenantChange(i+1, cdc.Insert, "", fmt.Sprint(tenant, i)))
		}
		return fmt.Sprint(Fold(m, changes, stamp).Rows)
	}
	want := [...]string{fold("a"), fold("b"), fold("c"), fold("d")}
	var got [len(want)]string
	var wait sync.WaitGroup
	for i := range got {
		wait.Go(func() { got[i] = fold(string(rune('a' + i))) })
	}
	wait.Wait()
	if got != want {
		t.Error("pages that are folded at the same time disturb each other")
	}
}

func TestBatchParkGivesTheChangeOfARow(t *testing.T) {
	m := foldMappings(t)["tenant first"]
	b := Fold(m, []cdc.Change{tenantChange(1, cdc.Insert, "", "a"), tenantChange(2, cdc.Modify, "a", "b")}, stamp)
	for _, r := range b.Rows {
		p := b.Park(r, "why")
		if p.Version != r.Version || p.Change.Sequence.String() != "2" || p.Reason != "why" || p.Key != r.Item || p.Source != "Orders" {
			t.Errorf("%+v", p)
		}
	}
}

// Fold returns each item that had no address before its newest change, with that version. Nothing
// else shows that its parked records are obsolete.
func TestFoldTellsWhatHadNoAddress(t *testing.T) {
	m := foldMappings(t)["tenant first"]
	nowhere := item("pk", attribute.String("p"))
	change := func(sequence int, event cdc.Event, old, new attribute.Item) cdc.Change {
		c := tenantChange(sequence, event, "", "")
		c.Old, c.New = old, new
		return c
	}
	a := item("pk", attribute.String("p"), "tenant", attribute.String("a"))
	for name, c := range map[string]struct {
		changes []cdc.Change
		want    string
	}{
		"stored":          {[]cdc.Change{change(1, cdc.Insert, attribute.Item{}, a)}, "[]"},
		"changed":         {[]cdc.Change{change(2, cdc.Modify, a, a)}, "[]"},
		"made unstorable": {[]cdc.Change{change(1, cdc.Insert, attribute.Item{}, nowhere)}, "[]"},
		"left unstorable": {[]cdc.Change{change(2, cdc.Modify, nowhere, nowhere)}, "2"},
		"corrected":       {[]cdc.Change{change(2, cdc.Modify, nowhere, a), change(3, cdc.Modify, a, a)}, "3"},
		"removed":         {[]cdc.Change{change(3, cdc.Remove, nowhere, attribute.Item{})}, "3"},
		"all within a page": {[]cdc.Change{change(1, cdc.Insert, attribute.Item{}, a), change(2, cdc.Modify, a, nowhere), change(3, cdc.Remove, nowhere, attribute.Item{}),
			change(4, cdc.Insert, attribute.Item{}, a)}, "4"},
	} {
		b := Fold(m, c.changes, stamp)
		if c.want == "[]" && len(b.Unaddressed) == 0 {
			continue
		}
		if len(b.Unaddressed) != 1 || b.Unaddressed[0].Item != m.ItemKey(a) || b.Unaddressed[0].Version.Sequence().String() != c.want {
			t.Errorf("%s: %v", name, b.Unaddressed)
		}
	}
	long := item("pk", attribute.String(strings.Repeat("k", MaxRowKeyBytes+1)))
	gone := cdc.Change{Event: cdc.Remove, Sequence: cdc.SequenceOf(2), Keys: long}
	if b := Fold(foldMappings(t)["default"], []cdc.Change{gone}, stamp); len(b.Unaddressed) != 1 || len(b.Rows)+len(b.Parked) > 0 {
		t.Errorf("a key that no row can have: %+v", b)
	}
}
