package transform

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
)

// store is a target under the guard as package sink executes it, with a version for each row and
// owner.
type store struct {
	versions map[string]Version
	cells    map[string]map[version]string // by row
}

// version is a cell of a column; its time is 0 except for elements of lists.
type version struct {
	Column
	at int64
}

func versionOf(c Cell) version {
	v := version{Column: Column{c.Family, c.Qualifier}}
	if c.Family == listFamily {
		v.at = c.Timestamp
	}
	return v
}

func newStore() *store {
	return &store{map[string]Version{}, map[string]map[version]string{}}
}

func (s *store) apply(r RowMutation) {
	register := r.Row + "\x00" + r.Owner
	if s.versions[register] >= r.Version {
		return
	}
	s.versions[register] = r.Version
	cells := s.cells[r.Row]
	if cells == nil {
		cells = map[version]string{}
		s.cells[r.Row] = cells
	}
	maps.DeleteFunc(cells, func(v version, _ string) bool {
		return slices.Contains(r.Families, v.Family) || slices.Contains(r.Columns, v.Column)
	})
	for _, c := range r.Cells {
		cells[versionOf(c)] = string(c.Value)
	}
}

func (s *store) String() string {
	var lines []string
	for row, cells := range s.cells {
		for c, v := range cells {
			lines = append(lines, fmt.Sprintf("%q %s:%q@%d %q", row, c.Family, c.Qualifier, c.at, v))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// expected returns the expected target: the rows of every item on its own.
func (s *source) expected(t interface{ Fatal(...any) }) string {
	all := newStore()
	for _, key := range slices.Sorted(maps.Keys(s.items)) {
		p, err := s.m.Map(s.items[key], time.Unix(0, 0))
		if err != nil {
			continue // parked
		}
		for _, r := range p.Rows {
			for _, c := range r.Cells {
				if all.cells[r.Row] == nil {
					all.cells[r.Row] = map[version]string{}
				}
				at := versionOf(c)
				if _, taken := all.cells[r.Row][at]; taken {
					t.Fatal("two items have one column: ", r.Row, at)
				}
				all.cells[r.Row][at] = string(c.Value)
			}
		}
	}
	return all.String()
}

// drawSingleTable generates a history of items of a single-table design.
func drawSingleTable(t *rapid.T, m *Mapping) *source {
	s := &source{m: m, items: map[string]attribute.Item{}, next: 95}
	text := func(label string, values ...string) attribute.Value {
		return attribute.String(rapid.SampledFrom(values).Draw(t, label))
	}
	partitions := map[string][]string{"VideoApp": {"VIDEO#1", "VIDEO#2", "PRESENCE#1"}, "Billing": {"INVOICE#1", "PAYMENT#1", "PAYMENT#2"}, "Moving": {"p", "q#"}, "Shapes": {"p"}, "Orders": {"p", "q#"}}[m.Source]
	sorts := map[string][]string{"VideoApp": {"META", "COMMENT#1", "COMMENT#1.1", "ODD"}, "Billing": {"INVOICE#1", "PAYMENT#1", "PAYMENT#2"}, "Moving": {"s", "#s"}, "Shapes": {"r", "s"}, "Orders": {"s", "#s"}}[m.Source]
	for range rapid.IntRange(1, 40).Draw(t, "writes") {
		keys := item("PK", text("PK", partitions...), "SK", text("SK", sorts...))
		if rapid.IntRange(0, 3).Draw(t, "remove") == 0 {
			s.write(keys, attribute.Item{})
			continue
		}
		list := append(slices.Clone(keys.Attributes()), attribute.Attribute{Name: "v", Value: number(fmt.Sprint(rapid.IntRange(-3, 9).Draw(t, "v")))})
		list = append(list, attribute.Attribute{Name: "views", Value: number(fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "views")))},
			attribute.Attribute{Name: "body", Value: text("body", "x", "y")}, attribute.Attribute{Name: "amount", Value: number("1.5")})
		if rapid.Bool().Draw(t, "tagged") {
			list = append(list, attribute.Attribute{Name: "tags", Value: attribute.StringSet(rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 1, 3, rapid.ID[string]).Draw(t, "tags"))})
		}
		if rapid.IntRange(0, 7).Draw(t, "has tenant") > 0 {
			list = append(list, attribute.Attribute{Name: "tenantId", Value: text("tenant", "t1", "t2")}, attribute.Attribute{Name: "tenant", Value: text("tenant", "t1", "t2")})
		}
		if m.Source == "Shapes" {
			list = append(list, drawShapes(t)...)
		}
		list = append(list, attribute.Attribute{Name: "kind", Value: text("kind", "whole", "other", "cell", "both", "ignored", "unknown")})
		s.write(keys, attribute.NewItem(list))
	}
	return s
}

// drawShapes draws a list, and a map whose columns may collide with another attribute's.
func drawShapes(t *rapid.T) []attribute.Attribute {
	var elements []attribute.Value
	for range rapid.IntRange(0, 3).Draw(t, "elements") {
		elements = append(elements, attribute.String(rapid.SampledFrom([]string{"x", "y"}).Draw(t, "element")))
	}
	list := []attribute.Attribute{{Name: "log", Value: attribute.List(elements)}}
	if rapid.Bool().Draw(t, "mapped") {
		name := rapid.SampledFrom([]string{"c", "d", "v"}).Draw(t, "member")
		list = append(list, attribute.Attribute{Name: "m", Value: attribute.Map([]attribute.Attribute{{Name: name, Value: attribute.Map([]attribute.Attribute{{Name: "e", Value: attribute.Null()}})}})})
	}
	if rapid.IntRange(0, 3).Draw(t, "dotted") == 0 {
		list = append(list, attribute.Attribute{Name: "m.c.e", Value: attribute.Null()}) // with the map c in m, the utility would lose one: parked
	}
	return list
}

// An item moves between two rules within a row, and one row key does not give its key back. The row
// names its item, in either order.
func TestOriginOfARowOfTwoRules(t *testing.T) {
	m, err := New(Spec{Source: "S", Table: "t", PrimaryKey: compositeKey, Families: families("a", "b"), Rules: []Rule{
		{Name: "head", When: when{"SK=1", "kind=head"}, Writes: []Write{{RowKey: template("{PK}#1"), Columns: []ColumnRule{{Attribute: "*", To: "a"}}}}},
		{Name: "any", Writes: []Write{{RowKey: template("{PK}#{SK}"), Columns: []ColumnRule{{Attribute: "*", To: "b"}}}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	keys := []any{"PK", attribute.String("p"), "SK", attribute.String("1")}
	head, other := item(append(keys, "kind", attribute.String("head"))...), item(append(keys, "kind", attribute.String("other"))...)
	for i, images := range [][2]attribute.Item{{head, other}, {other, head}} {
		b := Fold(m, []cdc.Change{{Event: cdc.Modify, Sequence: cdc.SequenceOf(1), Keys: item(keys...), Old: images[0], New: images[1]}}, stamp)
		if len(b.Rows) != 1 || b.Rows[0].Origin != "S/"+b.Rows[0].Item {
			t.Errorf("order %d: %+v", i, b.Rows)
		}
	}
}

// H62: if a condition decides by an attribute which items are written, or only which are ignored,
// the keys alone do not suffice.
func TestH62_AConditionThatIgnoresDependsOnItsAttribute(t *testing.T) {
	for name, c := range map[string]struct {
		when     when
		keysOnly bool
	}{"an attribute": {when{"kind=draft"}, false}, "a part of the key": {when{"SK=draft"}, true}} {
		m, err := New(Spec{Source: "S", Table: "t", PrimaryKey: compositeKey, Families: families("d"), Rules: []Rule{
			{Name: "drafts", When: c.when, Ignore: true},
			{Name: "all", Writes: []Write{{RowKey: template("{PK}#{SK}"), Columns: []ColumnRule{{Attribute: "*", To: "d"}}}}},
		}})
		if err != nil || m.DependsOnKeyOnly() != c.keysOnly {
			t.Errorf("%s: %v, depends on keys alone: %v", name, err, m.DependsOnKeyOnly())
		}
	}
}

// H72, H73, H74: for any rules, pages are cut anywhere, executed in any order, and read again after
// a crash. The target then has exactly the cells of each item's last image. Items of one row do not
// affect each other.
func TestH72_H73_H74_RulesFoldAsOneByOne(t *testing.T) {
	for name, m := range ruleMappings(t) {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := drawSingleTable(t, m)
				oneByOne, folded := newStore(), newStore()
				for i := range s.changes {
					for _, r := range Fold(m, s.changes[i:i+1], stamp).Rows {
						oneByOne.apply(r)
					}
				}
				for done := 0; done < len(s.changes); {
					end := rapid.IntRange(done+1, len(s.changes)).Draw(t, "page end")
					rows := rapid.Permutation(Fold(m, s.changes[done:end], stamp).Rows).Draw(t, "order")
					if rapid.IntRange(0, 3).Draw(t, "crash") == 0 {
						rows = rows[:rapid.IntRange(0, len(rows)).Draw(t, "executed")]
						end = rapid.IntRange(0, done).Draw(t, "resume")
					}
					for _, r := range rows {
						folded.apply(r)
					}
					done = end
				}
				want := s.expected(t)
				if got := folded.String(); got != want {
					t.Fatalf("folded:\n%s\nsource:\n%s", got, want)
				}
				if got := oneByOne.String(); got != want {
					t.Fatalf("one by one:\n%s\nsource:\n%s", got, want)
				}
			})
		})
	}
}

// T3: a page names a row and version column once per item, and a repeated fold gives exactly the
// same.
func TestRulesNameARegisterOncePerItem(t *testing.T) {
	for name, m := range ruleMappings(t) {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := drawSingleTable(t, m)
				seen := map[string]bool{}
				rows := Fold(m, s.changes, stamp).Rows
				for _, r := range rows {
					key := fmt.Sprintf("%q %q %q", r.Row, r.Owner, r.Item)
					if seen[key] || r.Owner != "" && r.Owner != r.Item {
						t.Fatalf("%s twice, or another's", key)
					}
					seen[key] = true
				}
				if fmt.Sprint(Fold(m, s.changes, stamp).Rows) != fmt.Sprint(rows) {
					t.Fatal("folding is not deterministic")
				}
			})
		})
	}
}

// A load of the same items gives the same cells as the stream.
func TestRulesLoadAsTheyFold(t *testing.T) {
	for name, m := range ruleMappings(t) {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := drawSingleTable(t, m)
				loaded := newStore()
				for _, r := range Load(m, slices.Collect(maps.Values(s.items)), 3, time.Unix(1_795_170_000, 0)).Rows {
					loaded.apply(r)
				}
				if got, want := loaded.String(), s.expected(t); got != want {
					t.Fatalf("loaded:\n%s\nsource:\n%s", got, want)
				}
			})
		})
	}
}

func TestIgnoredAndUnmatchedItems(t *testing.T) {
	m := ruleMappings(t)["video"]
	change := func(n int, pk, sk string) cdc.Change {
		keys := item("PK", attribute.String(pk), "SK", attribute.String(sk))
		return cdc.Change{Event: cdc.Insert, Sequence: cdc.SequenceOf(uint64(n)), Time: time.Unix(1000, 0), Keys: keys, New: keys}
	}
	b := Fold(m, []cdc.Change{change(1, "PRESENCE#1", "x"), change(2, "ODD", "x"), change(3, "VIDEO#1", "META")}, stamp)
	if got := describe(b); got != `park @2: no rule matches the item, park @3: attribute "tenantId" of the row key is missing` {
		t.Error(got)
	}
	if b.Ignored["presence"] != 1 || len(b.Ignored) != 1 {
		t.Error(b.Ignored)
	}
}

// An item that leaves a shared row removes its own cell and no other.
func TestOwnershipOfSharedRows(t *testing.T) {
	m := ruleMappings(t)["video"]
	image := func(sk, tenant string) attribute.Item {
		return item("PK", attribute.String("VIDEO#42"), "SK", attribute.String(sk), "tenantId", attribute.String(tenant), "body", attribute.String("nice"), "views", number("7"))
	}
	p, err := m.Map(image("META", "t9"), time.Unix(1000, 0))
	if err != nil || p.Name != "video" || p.Rule != 0 || len(p.Rows) != 1 {
		t.Fatal(p, err)
	}
	video := p.Rows[0]
	if video.Row != "t9#42" || video.Owner != "" || video.Origin != "VideoApp/S:VklERU8jNDI/S:TUVUQQ" || fmt.Sprint(video.Families) != "[counters d tags]" || len(video.Columns) != 0 {
		t.Errorf("%+v", video)
	}
	p, err = m.Map(image("COMMENT#1", "t9"), time.Unix(1000, 0))
	if err != nil {
		t.Fatal(err)
	}
	comment := p.Rows[0]
	if comment.Row != "t9#42" || comment.Owner != comment.Item || len(comment.Families) != 0 || fmt.Sprint(comment.Columns) != "[{comments 1}]" ||
		string(comment.Cells[0].Value) != `{"body":"nice"}` {
		t.Errorf("%+v", comment)
	}
	counter := video.Cells[slices.IndexFunc(video.Cells, func(c Cell) bool { return c.Add })]
	if counter.Timestamp != 0 || binary.BigEndian.Uint64(counter.Value) != 7 || counter.Family != "counters" {
		t.Errorf("%+v", counter)
	}
	moved := cdc.Change{Event: cdc.Modify, Sequence: cdc.SequenceOf(5), Time: time.Unix(1000, 0),
		Keys: m.Keys(image("COMMENT#1", "t9")), Old: image("COMMENT#1", "t9"), New: image("COMMENT#1", "t8")}
	if got := describe(Fold(m, []cdc.Change{moved}, stamp)); got != "remove t9#42@5, put t8#42@5" {
		t.Error(got)
	}
	gone := moved
	gone.Event, gone.New = cdc.Remove, attribute.Item{}
	b := Fold(m, []cdc.Change{gone}, stamp)
	if got := describe(b); got != "remove t9#42@5" || b.Rows[0].Owner == "" || fmt.Sprint(b.Rows[0].Columns) != "[{comments 1}]" {
		t.Error(got, b.Rows)
	}
}

// H83: cells that garbage collection is to expire are stamped for that, and cells of items that
// never expire are stamped to stay.
func TestH83_TimeToLiveStamps(t *testing.T) {
	spec := Spec{Source: "Sessions", Table: "sessions", PrimaryKey: compositeKey[:1], Families: families("s=maxversions=1 || maxage=30d"),
		TTL: TTL{Attribute: "expiresAt", Expire: ExpireByGC}}
	m, err := New(spec)
	if err != nil {
		t.Fatal(err)
	}
	written := time.Unix(1_795_170_000, 0)
	const month = 30 * 24 * 3600
	for name, c := range map[string]struct {
		value attribute.Value
		want  int64
	}{
		"in an hour":              {number("1795173600"), (1795173600 - month) * 1e6},
		"a minute ago":            {number("1795169940"), (1795169940 - month) * 1e6},
		"fraction":                {number("1795173600.75"), (1795173600 - month) * 1e6},
		"absent":                  {attribute.Null(), never},
		"text":                    {attribute.String("1795173600"), never},
		"too long ago":            {number("1600000000"), never},
		"beyond the year 9999":    {number("999999999999"), never},
		"near 1970 and old":       {number("5"), never},
		"negative":                {number("-5"), never},
		"a number of many digits": {number("99999999999999999999999999"), never},
	} {
		p, err := m.Map(item("PK", attribute.String("p"), "expiresAt", c.value), written)
		if err != nil {
			t.Fatal(name, err)
		}
		for _, cell := range p.Rows[0].Cells {
			if cell.Timestamp != c.want {
				t.Errorf("%s: %d, want %d", name, cell.Timestamp, c.want)
			}
		}
	}
	p, err := m.Map(item("PK", attribute.String("p"), "expiresAt", number("5")), time.Unix(100, 0))
	if err != nil || p.Rows[0].Cells[0].Timestamp != 0 {
		t.Error("a stamp before 1970 is 1970", err)
	}
	spec.TTL.Expire = KeepExpired
	if m, err = New(spec); err != nil {
		t.Fatal(err)
	}
	keys := item("PK", attribute.String("p"))
	put := cdc.Change{Event: cdc.Insert, Sequence: cdc.SequenceOf(1), Time: written, Keys: keys, New: keys}
	expired := cdc.Change{Event: cdc.Remove, Sequence: cdc.SequenceOf(2), Time: written, Keys: keys, Old: keys, Expired: true}
	if got := describe(Fold(m, []cdc.Change{put, expired}, stamp)); got != "put p@1" {
		t.Error(got)
	}
	removed := expired
	removed.Expired = false
	if got := describe(Fold(m, []cdc.Change{put, removed}, stamp)); got != "remove p@2" {
		t.Error(got)
	}
}

// TestH72_ItemBetweenTwoCellsOfOneRow: an item that moves from one rule's cell to another's within
// a shared row leaves nothing in the old cell.
func TestH72_ItemBetweenTwoCellsOfOneRow(t *testing.T) {
	cell := func(family string) []Write {
		return []Write{{RowKey: template("{PK}"), Cell: &CellRule{Family: family, Qualifier: template("{SK}"), As: AsJSON}}}
	}
	m, err := New(Spec{
		Source: "T", Table: "t", PrimaryKey: compositeKey, Families: families("open", "closed"),
		Rules: []Rule{{Name: "open", When: when{"kind=open"}, Writes: cell("open")}, {Name: "closed", When: when{"kind=closed"}, Writes: cell("closed")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	keys := item("PK", attribute.String("p"), "SK", attribute.String("s"))
	of := func(kind string) attribute.Item {
		return item("PK", attribute.String("p"), "SK", attribute.String("s"), "kind", attribute.String(kind))
	}
	for _, way := range [][2]string{{"open", "closed"}, {"closed", "open"}} {
		s := newStore()
		for n, c := range []cdc.Change{{Event: cdc.Insert, New: of(way[0])}, {Event: cdc.Modify, Old: of(way[0]), New: of(way[1])}} {
			c.Keys, c.Sequence, c.Time = keys, cdc.SequenceOf(uint64(n+1)), time.Unix(1000, 0)
			for _, r := range Fold(m, []cdc.Change{c}, stamp).Rows {
				s.apply(r)
			}
		}
		if cells := s.cells["p"]; len(cells) != 1 || cells[version{Column: Column{way[1], "s"}}] == "" {
			t.Errorf("from %s to %s: %v", way[0], way[1], cells)
		}
	}
}
