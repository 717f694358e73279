package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// sample is a value of every kind that DynamoDB has, and the cell that it has to become, written down by hand: what the replicator's own
// encoders say of it is held against this.
type sample struct {
	value attribute.Value
	cell  string
}

// samples are what an attribute of the application may hold besides short text. An attribute is named by its number, so that a checker knows
// what its cell is.
var samples = func() []sample {
	number := func(text string) attribute.Value {
		v, err := attribute.Number(text)
		if err != nil {
			panic(err)
		}
		return v
	}
	numbers, err := attribute.NumberSet([]string{"10", "9", "-1", "1.50"})
	if err != nil {
		panic(err)
	}
	attr := func(name string, v attribute.Value) attribute.Attribute {
		return attribute.Attribute{Name: name, Value: v}
	}
	return []sample{
		{attribute.String(""), ""}, {attribute.String("null"), "null"}, {attribute.String("a \"b\"\n\\"), "a \"b\"\n\\"}, {attribute.String("é 日本 😀"), "é 日本 😀"},
		{number("0.00"), "0"}, {number("-12.50"), "-12.5"}, {number("1e3"), "1000"}, {number("1E-5"), "0.00001"}, {number("-7E1"), "-70"},
		{number("12345678901234567890123456789012345678"), "12345678901234567890123456789012345678"},
		{attribute.Binary(nil), ""}, {attribute.Binary([]byte{0, 0xff, '\n'}), "\x00\xff\n"},
		{attribute.Bool(true), "true"}, {attribute.Bool(false), "false"}, {attribute.Null(), "null"},
		{attribute.Map(nil), "{}"}, {attribute.List(nil), "[]"},
		{attribute.Map([]attribute.Attribute{attr("b", number("2.0")), attr("a", attribute.String("<\t>")), attr("B", attribute.Null())}), `{"B":null,"a":"<\t>","b":2}`},
		{attribute.List([]attribute.Value{attribute.Binary([]byte("fo")), attribute.List([]attribute.Value{attribute.Bool(false)}), attribute.String("\x01"), attribute.Binary(bytes.Repeat([]byte("abc"), 700))}),
			`["Zm8=",[false],"\u0001","` + strings.Repeat("YWJj", 700) + `"]`},
		{attribute.StringSet([]string{"b", "a", "B"}), `["B","a","b"]`}, {numbers, `[-1,1.5,9,10]`},
		{attribute.BinarySet([][]byte{{0xff}, {0}}), `["AA==","/w=="]`},
	}
}()

// sampled is an attribute with one of the samples.
func sampled(rng *rand.Rand) attribute.Attribute {
	n := rng.IntN(len(samples))
	return attribute.Attribute{Name: fmt.Sprintf("sample %d", n), Value: samples[n].value}
}

// awkward are primary keys that a careless row key would take for each other.
var awkward = [][2]string{
	{"a", "b#c"}, {"a#b", "c"}, {"a%23b", "c"}, {"a%", "23b#c"}, {"a%25", "c"}, {"a#", "#c"}, {"a", "##c"}, {"a%2523b", "c"}, {"日", "本 "}, {"日 ", "本"},
	{"\x00", "\x00\x01"}, {"\x00\x01", "\x00"}, {"%", "#"}, {"#", "%"}, {"a/b", "c"}, {"a", "b/c"}, {"<", "\""},
}

// longKey makes a key longer than what anybody may think is enough to tell it from others.
var longKey = strings.Repeat("-0123456789abcdef", 16)

// keyOf is the primary key of one of the application's items.
func (p *plan) keyOf(i int) []attribute.Attribute {
	key := [2]string{fmt.Sprintf("k%d", i), fmt.Sprintf("k%d", i)}
	if p.awkward {
		key = awkward[i%len(awkward)]
	}
	if p.long {
		key[0] += longKey
	}
	return []attribute.Attribute{{Name: "pk", Value: attribute.String(key[0])}, {Name: "sk", Value: attribute.String(key[1])}}
}

// checkMapping: the row and the cells that the mapping gives an item are those that its documentation promises (I1).
func (s *simulation) checkMapping(item attribute.Item) {
	names := []string{"pk", "sk"}
	if s.plan.moving {
		names = []string{"value", "pk", "sk"}
	}
	var parts []string
	for i, name := range names {
		v, _ := item.Get(name)
		text := v.Text()
		if i < len(names)-1 {
			text = strings.ReplaceAll(strings.ReplaceAll(text, "%", "%25"), "#", "%23")
		}
		parts = append(parts, text)
	}
	row, err := s.Mapping.Row(item)
	if want := strings.Join(parts, "#"); err != nil || row != want {
		s.fail("I1", "an item's row is %q, should be %q: %v", row, want, err)
	}
	cells, err := s.Mapping.Cells(item, 0)
	if err != nil || len(cells) != len(item.Attributes()) {
		if _, poisoned := item.Get(longName); !poisoned {
			s.fail("I1", "an item of %d attributes has %d cells: %v", len(item.Attributes()), len(cells), err)
		}
		return
	}
	for _, c := range cells {
		v, _ := item.Get(c.Qualifier)
		want := v.Text()
		var n int
		if _, err := fmt.Sscanf(c.Qualifier, "sample %d", &n); err == nil {
			want = samples[n].cell
		}
		if c.Family != "d" || string(c.Value) != want {
			s.fail("I1", "attribute %q is %s:%q, should be %q", c.Qualifier, c.Family, c.Value, want)
		}
	}
}

// checkParkedChange: what is parked is the change as it was made, to the last byte (I5): it is all that is left of it.
func (t *truth) checkParkedChange(r *Row) {
	var record struct {
		Source, Key, Version, Reason string
		Change                       json.RawMessage
	}
	text, _ := r.Value(sink.ParkedFamily, sink.ParkedColumn)
	if err := json.Unmarshal([]byte(text), &record); err != nil {
		t.m.violate("I5: a parked record: %v", err)
		return
	}
	kept, err := cdc.UnmarshalChange(record.Change)
	v, badVersion := transform.ParseVersion(record.Version)
	if err != nil || badVersion != nil {
		t.m.violate("I5: the change parked at %q cannot be read: %v", record.Version, err)
		return
	}
	if record.Source != t.m.Mapping.Source || record.Reason == "" || record.Key != t.m.Mapping.ItemKey(kept.Keys) || !t.m.Mapping.Keys(kept.Keys).Equal(kept.Keys) {
		t.m.violate("I5: what is parked at %s is of item %q of table %q, because: %s", v, record.Key, record.Source, record.Reason)
	}
	if v.Hop() == transform.LoadHop {
		return // no change, but an item as it was read
	}
	made := slices.ContainsFunc(t.changes[numbered(v.Sequence())], func(w change) bool {
		return w.New.Equal(kept.New) && (w.Old.Equal(kept.Old) || t.m.Source.View == "NEW_IMAGE")
	})
	switch {
	case !made:
		t.m.violate("I5: what is parked at %s is not the change that was made", v)
	case !kept.New.Exists():
		t.m.violate("I5: a remove is parked, of version %s", v)
	case t.m.MaxImageAge == 0 && t.layout.place(kept.New).held():
		t.m.violate("I5: the change parked at %s could have been applied", v)
	}
}
