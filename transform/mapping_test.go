package transform

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

func mustMapping(t interface{ Fatal(...any) }, keys []KeyAttribute, rowKey ...string) *Mapping {
	m, err := NewMapping("Orders", "orders", "d", keys, rowKey...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func number(text string) attribute.Value {
	v, err := attribute.Number(text)
	if err != nil {
		panic(err)
	}
	return v
}

func item(pairs ...any) attribute.Item {
	var list []attribute.Attribute
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, attribute.Attribute{Name: pairs[i].(string), Value: pairs[i+1].(attribute.Value)})
	}
	return attribute.NewItem(list)
}

func TestNewMappingRefuses(t *testing.T) {
	pk, sk := KeyAttribute{"pk", attribute.KindS}, KeyAttribute{"sk", attribute.KindN}
	cases := map[string]func() (*Mapping, error){
		"no key": func() (*Mapping, error) { return NewMapping("T", "t", "d", nil) },
		"three keys": func() (*Mapping, error) {
			return NewMapping("T", "t", "d", []KeyAttribute{pk, sk, {"x", attribute.KindS}})
		},
		"key of a type that is none":  func() (*Mapping, error) { return NewMapping("T", "t", "d", []KeyAttribute{{"pk", attribute.KindL}}) },
		"one key twice":               func() (*Mapping, error) { return NewMapping("T", "t", "d", []KeyAttribute{pk, pk}) },
		"row key without the sort":    func() (*Mapping, error) { return NewMapping("T", "t", "d", []KeyAttribute{pk, sk}, "pk") },
		"row key that repeats a part": func() (*Mapping, error) { return NewMapping("T", "t", "d", []KeyAttribute{pk}, "pk", "pk") },
		"family of ours":              func() (*Mapping, error) { return NewMapping("T", "t", "_cdc", []KeyAttribute{pk}) },
		"no table":                    func() (*Mapping, error) { return NewMapping("T", "", "d", []KeyAttribute{pk}) },
	}
	for name, make := range cases {
		if _, err := make(); !errors.Is(err, ErrMapping) {
			t.Errorf("%s: %v", name, err)
		}
	}
	m := mustMapping(t, []KeyAttribute{pk, sk}, "tenant", "pk", "sk")
	if m.DependsOnKeyOnly() || !mustMapping(t, []KeyAttribute{pk, sk}).DependsOnKeyOnly() || !mustMapping(t, []KeyAttribute{pk, sk}, "sk", "pk").DependsOnKeyOnly() {
		t.Error("DependsOnKeyOnly is wrong")
	}
}

// keyKinds are the key schemas for which properties are checked.
var keyKinds = []attribute.Kind{attribute.KindS, attribute.KindN, attribute.KindB}

func drawSchema(t *rapid.T) []KeyAttribute {
	keys := []KeyAttribute{{"pk", rapid.SampledFrom(keyKinds).Draw(t, "pk kind")}}
	if rapid.Bool().Draw(t, "sort key") {
		keys = append(keys, KeyAttribute{"sk", rapid.SampledFrom(keyKinds).Draw(t, "sk kind")})
	}
	return keys
}

// drawKey draws from few bytes, so that delimiters, escapes and equal keys are frequent.
func drawKey(t *rapid.T, kind attribute.Kind, label string) attribute.Value {
	switch kind {
	case attribute.KindN:
		return number(rapid.StringMatching(`-?[0-2]{1,3}(\.[01]{1,2})?(e[0-2])?`).Draw(t, label))
	case attribute.KindB:
		return attribute.Binary([]byte(rapid.StringOfN(rapid.SampledFrom([]rune{'#', '%', '2', '3', '5', 'a', 0}), 1, 6, -1).Draw(t, label)))
	default:
		return attribute.String(rapid.StringOfN(rapid.SampledFrom([]rune{'#', '%', '2', '3', '5', 'a', 'é'}), 1, 6, -1).Draw(t, label))
	}
}

func drawKeys(t *rapid.T, schema []KeyAttribute, label string) attribute.Item {
	var list []attribute.Attribute
	for _, k := range schema {
		list = append(list, attribute.Attribute{Name: k.Name, Value: drawKey(t, k.Type, label+" "+k.Name)})
	}
	return attribute.NewItem(list)
}

// H37: two items never share a row, one item always has the same row, and the row gives the key back.
func TestH37_RowsAreInjectiveAndReversible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		schema := drawSchema(t)
		m := mustMapping(t, schema)
		a, b := drawKeys(t, schema, "a"), drawKeys(t, schema, "b")
		rowA, errA := m.Row(a)
		rowB, errB := m.Row(b)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if (rowA == rowB) != a.Equal(b) || (m.ItemKey(a) == m.ItemKey(b)) != a.Equal(b) {
			t.Fatalf("rows %q and %q, item keys %q and %q, items equal: %v", rowA, rowB, m.ItemKey(a), m.ItemKey(b), a.Equal(b))
		}
		back, err := m.Key(rowA)
		if err != nil || !back.Equal(a) {
			t.Fatalf("%q does not give its key back: %v", rowA, err)
		}
	})
}

// H37: with a further attribute in front, different items still have different rows, whatever that
// attribute is.
func TestH37_RowsWithFurtherAttributesAreInjective(t *testing.T) {
	schema := []KeyAttribute{{"pk", attribute.KindS}, {"sk", attribute.KindB}}
	m := mustMapping(t, schema, "tenant", "pk", "sk")
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) (attribute.Item, attribute.Item) {
			keys := drawKeys(t, schema, label)
			tenant := drawKey(t, rapid.SampledFrom(keyKinds).Draw(t, "tenant kind"), "tenant")
			return keys, attribute.NewItem(append([]attribute.Attribute{{Name: "tenant", Value: tenant}}, keys.Attributes()...))
		}
		keysA, a := draw("a")
		keysB, b := draw("b")
		rowA, errA := m.Row(a)
		rowB, errB := m.Row(b)
		if errA != nil || errB != nil || rowA == rowB && !keysA.Equal(keysB) {
			t.Fatalf("rows %q and %q (%v, %v)", rowA, rowB, errA, errB)
		}
		back, err := m.Key(rowA)
		if err != nil || !back.Equal(keysA) {
			t.Fatalf("%q does not give its key back: %v", rowA, err)
		}
	})
}

func TestH37_NumericKeysThatAreOneItemAreOneRow(t *testing.T) {
	m := mustMapping(t, []KeyAttribute{{"pk", attribute.KindN}})
	for _, same := range []string{"1", "1.0", "1e0", "+1", "01", "10e-1"} {
		if row, err := m.Row(item("pk", number(same))); err != nil || row != "1" {
			t.Errorf("%s: %q, %v", same, row, err)
		}
	}
}

func TestH37_RowKeyLimits(t *testing.T) {
	m := mustMapping(t, []KeyAttribute{{"pk", attribute.KindS}, {"sk", attribute.KindB}})
	long := strings.Repeat("#", 2048) // 6,144 bytes escaped
	fits := strings.Repeat("x", MaxRowKeyBytes-2)
	for _, c := range []struct {
		pk, sk string
		ok     bool
	}{{long, "x", false}, {fits, "x", true}, {fits, "xx", false}, {"", "", true}} {
		row, err := m.Row(item("pk", attribute.String(c.pk), "sk", attribute.Binary([]byte(c.sk))))
		var u *Unmappable
		if c.ok != (err == nil) || err != nil && !errors.As(err, &u) || len(row) > MaxRowKeyBytes {
			t.Errorf("%d + %d bytes: %v", len(c.pk), len(c.sk), err)
		}
		if err != nil && strings.Contains(err.Error(), "##") {
			t.Errorf("H65: the error quotes the key: %v", err)
		}
	}
	if _, err := mustMapping(t, []KeyAttribute{{"pk", attribute.KindS}}).Row(item("pk", attribute.String(""))); err == nil {
		t.Error("an empty row key is accepted")
	}
	if _, err := m.Row(item("pk", attribute.String("a\xff"), "sk", attribute.Binary([]byte("x")))); err == nil {
		t.Error("text that is not UTF-8 is accepted in a row key")
	}
}

// A row key of one attribute has the limit of partition keys if it is one, and Bigtable's limit
// otherwise.
func TestLongAttributeAsTheRowKey(t *testing.T) {
	m, err := New(Spec{Source: "T", Table: "t", PrimaryKey: compositeKey[:1], Families: families("d", "e"), Rules: []Rule{
		{When: when{"kind=track"}, Writes: []Write{{RowKey: template("{playlist}"), Cell: &CellRule{Family: "d", Qualifier: template("{PK}"), As: AsJSON}}}},
		{Writes: []Write{{RowKey: template("{PK}"), Cell: &CellRule{Family: "e", Qualifier: template("{PK}"), As: AsJSON}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	text := func(n int) attribute.Value { return attribute.String(strings.Repeat("x", n)) }
	track := func(n int) attribute.Item {
		return item("PK", attribute.String("p"), "kind", attribute.String("track"), "playlist", text(n))
	}
	for _, c := range []struct {
		item attribute.Item
		want string // part of the error; "" for none
	}{
		{track(3000), ""}, {track(MaxRowKeyBytes), ""}, {track(MaxRowKeyBytes + 1), "Bigtable allows 4096"},
		{item("PK", text(2048)), ""}, {item("PK", text(2049)), `key attribute "PK" has 2049 bytes; DynamoDB allows 2048`},
	} {
		if _, err := m.Row(c.item); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

func FuzzRowRoundTrip(f *testing.F) {
	f.Add("hats", []byte("fedoras#brandA"), "12.50")
	f.Add("a#b%23%", []byte{0, '#', 0xff}, "-1e-3")
	f.Fuzz(func(t *testing.T, s string, b []byte, n string) {
		v, err := attribute.Number(n)
		if err != nil || s == "" || len(b) == 0 || !utf8.ValidString(s) {
			return
		}
		values := []attribute.Value{attribute.String(s), attribute.Binary(b), v}
		for i, first := range values {
			for _, second := range append(values, attribute.Value{}) {
				schema := []KeyAttribute{{"pk", first.Kind()}}
				keys := []attribute.Attribute{{Name: "pk", Value: first}}
				if second.Kind() != attribute.KindNone {
					schema = append(schema, KeyAttribute{"sk", second.Kind()})
					keys = append(keys, attribute.Attribute{Name: "sk", Value: second})
				}
				m := mustMapping(t, schema)
				want := attribute.NewItem(keys)
				row, err := m.Row(want)
				if err != nil {
					continue // too long
				}
				got, err := m.Key(row)
				if err != nil || !got.Equal(want) {
					t.Errorf("%d: %q: %v", i, row, err)
				}
			}
		}
	})
}

// Key refuses any text that Row does not write, so a foreign row is never taken for an item.
func FuzzKeyAcceptsOnlyRows(f *testing.F) {
	for _, row := range []string{"", "a", "a#b", "a%23#b", "a%#b", "1#2", "01#2", "\xff#\xff", mustMapping(f, []KeyAttribute{{"pk", attribute.KindS}}).WitnessKey()} {
		f.Add(row)
	}
	f.Fuzz(func(t *testing.T, row string) {
		for _, first := range keyKinds {
			for _, second := range append(keyKinds, attribute.KindNone) {
				schema := []KeyAttribute{{"pk", first}}
				if second != attribute.KindNone {
					schema = append(schema, KeyAttribute{"sk", second})
				}
				m := mustMapping(t, schema)
				keys, err := m.Key(row)
				if err != nil {
					if !errors.Is(err, ErrRow) {
						t.Errorf("%v", err)
					}
					continue
				}
				if again, err := m.Row(keys); err != nil || again != row {
					t.Errorf("%s/%s: %q was taken for the row %q: %v", first, second, row, again, err)
				}
			}
		}
	})
}

func TestNoMappingProducesAWitnessKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		source := rapid.StringMatching(`[a-zA-Z0-9_.-]{3,255}`).Draw(t, "source")
		schema := drawSchema(t)
		m, err := NewMapping(source, "t", "d", schema)
		if err != nil {
			t.Fatal(err)
		}
		witness := m.WitnessKey()
		if len(witness) > MaxRowKeyBytes || !strings.HasPrefix(witness, WitnessPrefix+source+"~") {
			t.Fatalf("%d bytes: %.60q", len(witness), witness)
		}
		if _, err := m.Key(witness); err == nil {
			t.Fatalf("%v: the witness is the row of an item", schema)
		}
		// The worst case: keys made from the witness itself.
		for i, k := range schema {
			for _, v := range []attribute.Value{attribute.String(witness), attribute.Binary([]byte(witness)), attribute.Binary([]byte(witness[:MaxKeyBytes]))} {
				if v.Kind() != k.Type {
					continue
				}
				keys := drawKeys(t, schema, "other").Attributes()
				keys = append(keys[:i:i], append([]attribute.Attribute{{Name: k.Name, Value: v}}, keys[i+1:]...)...)
				if row, err := m.Row(attribute.NewItem(keys)); err == nil && row == witness {
					t.Fatalf("%v produces the witness", schema)
				}
			}
		}
		other, _ := NewMapping(source+rapid.SampledFrom([]string{".", "-", "_", "a"}).Draw(t, "suffix"), "t", "d", schema)
		if other.WitnessKey() == witness {
			t.Fatal("two source tables share a witness")
		}
	})
}

// FuzzJSONString compares the encoder with encoding/json, as far as possible: same text, other
// escapes.
func FuzzJSONString(f *testing.F) {
	f.Add("plain")
	f.Add("<>&\u2028\"\\\x00\x1f\x7f é😀")
	f.Fuzz(func(t *testing.T, s string) {
		got, err := appendString(nil, s)
		if (err == nil) != utf8.ValidString(s) {
			t.Fatalf("%q: %v", s, err)
		}
		if err != nil {
			return
		}
		if back := decodeJSONString(t, got); back != s {
			t.Errorf("%q became %s, which is %q", s, got, back)
		}
		if bytes.Contains(got, []byte(`\u00`)) != strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 && !strings.ContainsRune("\b\f\n\r\t", r) }) &&
			!strings.Contains(s, `\u00`) {
			t.Errorf("%q is escaped more or less than needed: %s", s, got)
		}
	})
}
