package transform

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// columnsTo returns one rule that writes columns under a row key; "" is the default row key.
func columnsTo(rowKey string, columns ...ColumnRule) []Rule {
	w := Write{Columns: columns}
	if rowKey != "" {
		w.RowKey = template(rowKey)
	}
	return []Rule{{Writes: []Write{w}}}
}

func star(as Encoding) ColumnRule { return ColumnRule{Attribute: "*", To: "d", As: as} }

// invertibleSpecs are mappings whose rows give their items back.
func invertibleSpecs() map[string]Spec {
	numeric := []KeyAttribute{{"PK", attribute.KindS}, {"SK", attribute.KindN}}
	binary := []KeyAttribute{{"PK", attribute.KindB}, {"SK", attribute.KindB}}
	specs := map[string]Spec{
		"no rules":          {},
		"one key attribute": {PrimaryKey: compositeKey[:1]},
		"a numeric key":     {PrimaryKey: numeric},
		"a binary key":      {PrimaryKey: binary},
		"JSON":              {Rules: columnsTo("", star(AsJSON))},
		"DynamoDB JSON":     {Rules: columnsTo("", star(AsDynamoDBJSON))},
		"text":              {Rules: columnsTo("", star(AsText)), PrimaryKey: binary},
		"columns by name": {Families: families("d", "e"), Drop: []string{"gone"}, Rules: columnsTo("",
			star(AsDefault), ColumnRule{Attribute: "n", To: "e:count", As: AsInt64}, ColumnRule{Attribute: "x", To: "d:y"},
			ColumnRule{Attribute: "s", To: "e", As: AsBytes}, ColumnRule{Attribute: "SK", To: "e:sort", As: AsJSON})},
		"only some columns": {Rules: columnsTo("", ColumnRule{Attribute: "PK", To: "d:"}, ColumnRule{Attribute: "x", To: "d:x", As: AsDynamoDBJSON})},
		"a salted key":      {Rules: columnsTo("{PK | salt(16)}/{PK | hash(3)}/v1#{PK}#{SK}#end", star(AsDefault))},
		"functions of text": {Rules: columnsTo("{PK | hex}#{SK | reverse_domain | reverse}", star(AsDefault))},
		"padded numbers":    {Rules: columnsTo("{PK}#{SK | pad(4)}", star(AsDefault)), PrimaryKey: numeric},
		"newest first":      {Rules: columnsTo("{SK | newest_first(4)}{PK}", star(AsDefault)), PrimaryKey: numeric},
		"sortable numbers":  {Rules: columnsTo("{SK | sortable}{PK}", star(AsDefault)), PrimaryKey: numeric},
		"a time to live":    {TTL: TTL{Attribute: "n", Expire: KeepExpired}},
		"a version":         {VersionAttribute: "n", Families: families("d=maxversions=2 && maxage=1h")},
	}
	for name, s := range specs {
		s.Source, s.Table = "T", "t"
		if s.PrimaryKey == nil {
			s.PrimaryKey = compositeKey
		}
		if s.Families == nil {
			s.Families = families("d")
		}
		specs[name] = s
	}
	return specs
}

func invertible(t interface{ Fatal(...any) }, name string) *Mapping {
	m, err := New(invertibleSpecs()[name])
	if err != nil {
		t.Fatal(name, err)
	}
	return m
}

// drawTyped draws an item with a key of the mapping. The attribute n is a whole number, and s text.
func drawTyped(t *rapid.T, m *Mapping, label string) attribute.Item {
	var list []attribute.Attribute
	for _, k := range m.PrimaryKey {
		v := drawKey(t, k.Type, label+" "+k.Name)
		if k.Type == attribute.KindN && rapid.Bool().Draw(t, label+" whole") {
			v = number(fmt.Sprint(rapid.IntRange(0, 12).Draw(t, label+" "+k.Name)))
		}
		list = append(list, attribute.Attribute{Name: k.Name, Value: v})
	}
	for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b.c", "gone", "n", "s", "x", "é"}), rapid.ID[string]).Draw(t, label+" names") {
		v := drawValue(t, 2)
		switch name {
		case "n":
			v = number(fmt.Sprint(rapid.Int64().Draw(t, label+" n")))
		case "s":
			v = attribute.String(rapid.SampledFrom([]string{"", "true", "12", "null"}).Draw(t, label+" s"))
		}
		list = append(list, attribute.Attribute{Name: name, Value: v})
	}
	return attribute.NewItem(list)
}

// held returns the item without the attributes that rows do not hold.
func held(m *Mapping, i attribute.Item) attribute.Item {
	list := slices.DeleteFunc(slices.Clone(i.Attributes()), func(a attribute.Attribute) bool {
		return m.keyType(a.Name) == attribute.KindNone && !m.onlyWrite().holds(a.Name)
	})
	return attribute.NewItem(list)
}

// cellsOf maps an item. It returns false if the item cannot be mapped.
func cellsOf(t interface{ Fatal(...any) }, m *Mapping, i attribute.Item) (RowMutation, bool) {
	p, err := m.Map(i, time.Unix(1_800_000_000, 0))
	if err != nil {
		return RowMutation{}, false
	}
	if len(p.Rows) != 1 {
		t.Fatal(p.Rows)
	}
	return p.Rows[0], true
}

// Every row of an invertible mapping gives its item back, exactly, if the types of the items'
// attributes can be distinguished. If they cannot, the row is refused.
func TestRowsGiveTheirItemsBack(t *testing.T) {
	for name := range invertibleSpecs() {
		m := invertible(t, name)
		if why := m.NotInvertible(); len(why) > 0 {
			t.Fatal(name, why)
		}
		mapped := 0
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				types, items := Types{}, []attribute.Item{drawTyped(t, m, "first"), drawTyped(t, m, "second")}
				if !rapid.Bool().Draw(t, "two items") {
					items = items[:1]
				}
				for _, i := range items {
					types.Add(i)
				}
				unclear := len(m.Unclear(types)) > 0
				for _, i := range items {
					row, ok := cellsOf(t, m, i)
					if !ok {
						continue
					}
					if key, err := m.Key(row.Row); err != nil || !key.Equal(m.Keys(i)) {
						t.Fatalf("%q does not give its key back: %v", row.Row, err)
					}
					back, err := m.Invert(row.Row, row.Cells, types)
					if err != nil && unclear && errors.Is(err, ErrRow) {
						continue
					}
					want := held(m, i)
					if err != nil || !back.Equal(want) {
						t.Fatalf("%v gives %v: %v", want, back, err)
					}
					if set, remove := m.Differences(i, back); len(set)+len(remove) > 0 {
						t.Fatalf("%v differs: set %v, remove %v", want, set, remove)
					}
					mapped++
				}
			})
		})
		if mapped == 0 {
			t.Errorf("%s: no row gave its item", name)
		}
	}
}

// Each function that does not prevent the inversion of row keys has an exact inverse.
func TestUndoableFunctionsAreUndone(t *testing.T) {
	undoable := 0
	for _, f := range Functions() {
		for _, kind := range keyKinds {
			key := []KeyAttribute{{"PK", kind}}
			m, err := New(Spec{Source: "T", Table: "t", PrimaryKey: key, Families: families("d"), Rules: columnsTo("a{PK | "+f.Example+"}", star(AsDefault))})
			if err != nil || len(m.NotInvertible()) > 0 {
				continue
			}
			undoable++
			rapid.Check(t, func(t *rapid.T) {
				v := drawKey(t, kind, "key")
				if kind == attribute.KindN {
					v = drawAny(t, "number")
				}
				row, err := m.Row(item("PK", v))
				if err != nil {
					return // the function rejects the value
				}
				if keys, err := m.Key(row); err != nil || !keys.Equal(item("PK", v)) {
					t.Fatalf("%s of %s: %q, %v", f.Name, kind, row, err)
				}
			})
		}
	}
	if undoable < 20 {
		t.Errorf("only %d functions were undone", undoable)
	}
}

func cell(column, value string) Cell {
	family, qualifier, _ := strings.Cut(column, ":")
	return Cell{Family: family, Qualifier: qualifier, Value: []byte(value)}
}

// A row that no item has is refused, and the error names the column but no value.
func TestInvertRefuses(t *testing.T) {
	types := Types{"a": {Kinds: KindsOf(attribute.KindN)}, "gone": {Kinds: KindsOf(attribute.KindS)}, "x": {Kinds: KindsOf(attribute.KindS)}, "y": {Kinds: KindsOf(attribute.KindS)}}
	for _, c := range []struct {
		mapping, row, column, value string
		want                        string
	}{
		{"no rules", "p", "d:a", "1", "its parts are not those of a primary key"},
		{"no rules", "#s", "d:a", "1", `key attribute "PK" would have 0 bytes`},
		{"no rules", "p#" + strings.Repeat("s", 1025), "d:a", "1", `key attribute "SK" would have 1025 bytes`},
		{"no rules", "p%41#s", "d:a", "1", "the item of this key has another row"},
		{"a salted key", "00/000/v1#p#s#end", "d:a", "1", "the item of this key has another row"},
		{"padded numbers", "p#12", "d:a", "1", "not those of a primary key"},
		{"sortable numbers", "2x", "d:a", "1", "not those of a primary key"},
		{"no rules", "p#s", "d:a", "secret", `column d:"a": it holds a number that DynamoDB cannot hold`},
		{"no rules", "p#s", "d:new", "secret", `column d:"new": the type of the attribute is not known`},
		{"no rules", "p#s", "d:", "secret", `column d:"": its name is not the name of an attribute`},
		{"no rules", "p#s", "d:\xff", "secret", "its name is not the name of an attribute"},
		{"no rules", "p#s", "d:SK", "secret", `column d:"SK": it differs from the row key`},
		{"a numeric key", "p#1", "d:SK", "secret", `column d:"SK": it holds a number`},
		{"columns by name", "p#s", "d:gone", "secret", `column d:"gone": the mapping does not copy this attribute`},
		{"columns by name", "p#s", "d:x", "secret", `column d:"x": the mapping writes this attribute to another column`},
		{"columns by name", "p#s", "e:a", "secret", `column e:"a": the mapping writes no attribute to it`},
		{"columns by name", "p#s", "e:count", "secret", `column e:"count": it does not have the 8 bytes`},
		{"only some columns", "p#s", "d:a", "secret", `column d:"a": the mapping writes no attribute to it`},
		{"only some columns", "p#s", "d:x", `"secret"`, `column d:"x": it is not DynamoDB JSON`},
	} {
		m := invertible(t, c.mapping)
		got, err := m.Invert(c.row, []Cell{cell(c.column, c.value)}, types)
		if !errors.Is(err, ErrRow) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") || got.Exists() {
			t.Errorf("%s: %q %s: %v", c.mapping, c.row, c.column, err)
		}
	}
	m := invertible(t, "no rules")
	if _, err := m.Invert("p#s", []Cell{cell("d:a", "1"), cell("d:a", "2")}, types); !errors.Is(err, ErrRow) || !strings.Contains(err.Error(), `several cells hold attribute "a"`) {
		t.Error(err)
	}
	video := ruleMappings(t)["video"]
	if _, err := video.Invert("p#s", nil, types); !errors.Is(err, ErrMapping) || errors.Is(err, ErrRow) {
		t.Error(err)
	}
	conditional := invertibleSpecs()["no rules"]
	conditional.Rules = columnsTo("", star(AsDefault))
	conditional.Rules[0].When = when{"PK=p"}
	some, err := New(conditional)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*Mapping{video, some} {
		if _, err := m.Key("p#s"); !errors.Is(err, ErrRow) {
			t.Error(err)
		}
	}
}

// An application writes rows too. It may leave out columns that the row key shows, and write a
// value in another form than replicator.
func TestInvertRowsOfApplications(t *testing.T) {
	m := invertible(t, "columns by name")
	types := Types{"a": {Kinds: KindsOf(attribute.KindN, attribute.KindNULL, attribute.KindNS)}, "b": {Kinds: KindsOf(attribute.KindM), Inside: KindsOf(attribute.KindN)}}
	for _, c := range []struct {
		cells []Cell
		want  string // DynamoDB JSON; "" for no item
	}{
		{[]Cell{cell("d:a", "1.50e1")}, `{"PK":{"S":"p"},"SK":{"S":"s"},"a":{"N":"15"}}`},
		{[]Cell{cell("d:a", "null"), cell("other:a", "ignored")}, `{"PK":{"S":"p"},"SK":{"S":"s"},"a":{"NULL":true}}`},
		{[]Cell{cell("d:a", " [2, 1.0]")}, `{"PK":{"S":"p"},"SK":{"S":"s"},"a":{"NS":["1","2"]}}`},
		{[]Cell{cell("d:b", `{"y": ["z", {}], "x": 1E1}`)}, `{"PK":{"S":"p"},"SK":{"S":"s"},"b":{"M":{"x":{"N":"10"},"y":{"L":[{"S":"z"},{"M":{}}]}}}}`},
		{[]Cell{cell("d:PK", "p"), cell("e:sort", `"\u0073"`)}, `{"PK":{"S":"p"},"SK":{"S":"s"}}`},
		{[]Cell{cell("other:a", "ignored")}, ""},
		{nil, ""},
	} {
		got, err := m.Invert("p#s", c.cells, types)
		text, marshalErr := attribute.MarshalItem(got)
		if c.want == "" && (got.Exists() || err != nil) || c.want != "" && string(text) != c.want {
			t.Errorf("%v: %s, want %s: %v, %v", c.cells, text, c.want, err, marshalErr)
		}
	}
}

func TestDifferences(t *testing.T) {
	m := invertible(t, "columns by name") // gone is dropped; y would need the column of x
	keys := []any{"PK", attribute.String("p"), "SK", attribute.String("s")}
	with := func(pairs ...any) attribute.Item { return item(append(slices.Clone(keys), pairs...)...) }
	one, two := number("1"), number("2")
	for name, c := range map[string]struct {
		item, row attribute.Item
		want      string
	}{
		"equal":                  {with("a", one), with("a", number("1.0")), "set [], remove []"},
		"sets in another order":  {with("a", attribute.StringSet([]string{"x", "y"})), with("a", attribute.StringSet([]string{"y", "x"})), "set [], remove []"},
		"a new value":            {with("a", one, "b", one), with("a", two, "b", one), "set [a], remove []"},
		"another type":           {with("a", one), with("a", attribute.String("1")), "set [a], remove []"},
		"one more, one less":     {with("a", one), with("b", one), "set [b], remove [a]"},
		"sorted":                 {with("a", one, "b", one), with("c", one, "d", one), "set [c d], remove [a b]"},
		"attributes not in rows": {with("gone", one, "y", one), with(), "set [], remove []"},
		"renamed":                {with("x", one), with("x", two), "set [x], remove []"},
		"other keys":             {item("PK", one), item("PK", two), "set [], remove []"},
		"a new item":             {attribute.Item{}, with("a", one), "set [a], remove []"},
		"a deleted row":          {with("a", one, "gone", one), attribute.Item{}, "set [], remove [a]"},
		"neither exists":         {attribute.Item{}, attribute.Item{}, "set [], remove []"},
	} {
		set, remove := m.Differences(c.item, c.row)
		var names []string
		for _, a := range set {
			names = append(names, a.Name)
			if v, _ := c.row.Get(a.Name); !v.Equal(a.Value) {
				t.Errorf("%s: %s has another value than the row", name, a.Name)
			}
		}
		if got := fmt.Sprintf("set %v, remove %v", names, remove); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// An item to which the differences are applied equals the row, and keeps what rows do not hold.
func TestDifferencesMakeItemsEqual(t *testing.T) {
	for _, name := range []string{"no rules", "columns by name", "only some columns"} {
		m := invertible(t, name)
		rapid.Check(t, func(t *rapid.T) {
			before, row := drawTyped(t, m, "item"), held(m, drawTyped(t, m, "row"))
			set, remove := m.Differences(before, row)
			after := map[string]attribute.Value{}
			for _, a := range before.Attributes() {
				after[a.Name] = a.Value
			}
			for _, name := range remove {
				delete(after, name)
			}
			for _, a := range set {
				after[a.Name] = a.Value
			}
			var list []attribute.Attribute
			for name := range maps.Keys(after) {
				list = append(list, attribute.Attribute{Name: name, Value: after[name]})
			}
			now := attribute.NewItem(list)
			if set, remove := m.Differences(now, row); len(set)+len(remove) > 0 {
				t.Fatalf("set %v, remove %v", set, remove)
			}
			for _, a := range before.Attributes() {
				if v := after[a.Name]; !m.onlyWrite().holds(a.Name) && !v.Equal(a.Value) {
					t.Fatalf("%s is not held by rows, and changed", a.Name)
				}
			}
		})
	}
}

// An expired row is one whose item DynamoDB may have removed.
func TestExpiredRows(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	m, plain := invertible(t, "a time to live"), invertible(t, "no rules")
	types := Types{"n": {Kinds: KindsOf(attribute.KindN)}}
	for until, want := range map[string]bool{"1799999999": true, "1800000000": true, "1800000000.5": true, "1800000001": false, "0": false, "1000000000": false} {
		cells := []Cell{cell("d:n", until)}
		i, err := m.Invert("p#s", cells, types)
		if err != nil || m.Expired(i, now) != want || plain.Expired(i, now) {
			t.Errorf("%s: %v, want %v: %v", until, !want, want, err)
		}
	}
	if m.Expired(attribute.Item{}, now) || m.Expired(item("n", attribute.String("1")), now) {
		t.Error("an item without a time is expired")
	}
}

// FuzzInvert: a row that Invert accepts is the row of the item that it returns.
func FuzzInvert(f *testing.F) {
	specs := invertibleSpecs()
	var mappings []*Mapping
	for _, name := range slices.Sorted(maps.Keys(specs)) {
		mappings = append(mappings, invertible(f, name))
	}
	for i := range mappings {
		f.Add(uint8(i), "p#s", "d", "a", []byte(`{"x":["y",1]}`), uint16(KindsOf(attribute.KindM)), uint16(KindsOf(attribute.KindB)))
		f.Add(uint8(i), "p#0012", "d", "x", []byte(`{"SS":["a"]}`), uint16(KindsOf(attribute.KindNS, attribute.KindN)), uint16(0))
		f.Add(uint8(i), "2501#a-x", "e", "count", []byte("12345678"), uint16(1), uint16(0))
	}
	f.Fuzz(func(t *testing.T, number uint8, row, family, qualifier string, value []byte, top, within uint16) {
		m := mappings[int(number)%len(mappings)]
		const all = 1<<(attribute.KindBS+1) - 2
		types := Types{"a": {Kinds(top & all), Kinds(within & all)}}
		for _, name := range []string{"x", "n", "s", qualifier} {
			types[name] = types["a"]
		}
		got, err := m.Invert(row, []Cell{{Family: family, Qualifier: qualifier, Value: value}}, types)
		if err != nil {
			if !errors.Is(err, ErrRow) || got.Exists() {
				t.Errorf("%q: %v", row, err)
			}
			return
		}
		if !got.Exists() {
			return // another family
		}
		again, ok := cellsOf(t, m, got)
		if !ok {
			t.Fatalf("%q was taken for a row", row)
		}
		back, err := m.Invert(again.Row, again.Cells, types)
		if err != nil || again.Row != row || !back.Equal(got) {
			t.Errorf("%q was taken for the row of an item, whose row is %q: %v", row, again.Row, err)
		}
	})
}
