package transform

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

func TestKindsAsText(t *testing.T) {
	for text, want := range map[string]Kinds{"": 0, "S": KindsOf(attribute.KindS), "S, NULL, BS": KindsOf(attribute.KindBS, attribute.KindS, attribute.KindNULL)} {
		var got Kinds
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want || want.String() != text {
			t.Errorf("%q: %s, %s: %v", text, got, want, err)
		}
	}
	for _, text := range []string{"s", "S,N", "none", "S, ", "S N"} {
		if err := new(Kinds).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
	types := Types{"a": {KindsOf(attribute.KindM), KindsOf(attribute.KindN, attribute.KindS)}}
	text, err := json.Marshal(types)
	if err != nil || string(text) != `{"a":{"kinds":"M","inside":"S, N"}}` {
		t.Fatalf("%s: %v", text, err)
	}
	var again Types
	if err := json.Unmarshal(text, &again); err != nil || !maps.Equal(again, types) {
		t.Errorf("%v: %v", again, err)
	}
}

func TestTypesOfItems(t *testing.T) {
	nested := func(v attribute.Value) attribute.Value {
		return attribute.List([]attribute.Value{attribute.Map([]attribute.Attribute{{Name: "m", Value: v}})})
	}
	all, other := Types{}, Types{}
	all.Add(item("a", number("1"), "b", nested(attribute.StringSet([]string{"x"}))))
	all.Add(item("a", attribute.Null(), "c", attribute.Bool(true)))
	other.Add(item("a", attribute.Null(), "b", nested(attribute.Binary([]byte("x")))))
	all.Merge(other)
	want := Types{"a": {Kinds: KindsOf(attribute.KindN, attribute.KindNULL)}, "c": {Kinds: KindsOf(attribute.KindBOOL)},
		"b": {KindsOf(attribute.KindL), KindsOf(attribute.KindM, attribute.KindSS, attribute.KindB)}}
	if !maps.Equal(all, want) {
		t.Errorf("%v, want %v", all, want)
	}
}

func TestNeedsTypes(t *testing.T) {
	for name, want := range map[string]string{
		"no rules":          "[] true",
		"JSON":              "[] true",
		"DynamoDB JSON":     "[] false",
		"columns by name":   "[s x] true",
		"only some columns": "[] false",
	} {
		names, others := invertible(t, name).NeedsTypes()
		if got := fmt.Sprint(names, others); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if names, others := ruleMappings(t)["video"].NeedsTypes(); names != nil || others {
		t.Error(names, others)
	}
}

// Types that a cell does not distinguish are reported for attributes that have cells.
func TestUnclearTypes(t *testing.T) {
	s, n, b, null, list, ss, m := attribute.KindS, attribute.KindN, attribute.KindB, attribute.KindNULL, attribute.KindL, attribute.KindSS, attribute.KindM
	for _, c := range []struct {
		as     Encoding
		top    []attribute.Kind
		inside []attribute.Kind
		want   string
	}{
		{AsDefault, []attribute.Kind{s}, nil, ", "},
		{AsDefault, []attribute.Kind{s, null}, nil, "S, NULL, "},
		{AsDefault, []attribute.Kind{b, list, n}, nil, "N, B, L, "},
		{AsDefault, []attribute.Kind{n, null, list, m}, []attribute.Kind{s, n, list}, ", "},
		{AsDefault, []attribute.Kind{n, list, ss}, nil, "L, SS, "},
		{AsText, []attribute.Kind{s, b}, nil, "S, B, "},
		{AsBytes, []attribute.Kind{s, b}, nil, "S, B, "},
		{AsJSON, []attribute.Kind{s, null, list, m}, []attribute.Kind{b}, ", "},
		{AsJSON, []attribute.Kind{s, n, b}, []attribute.Kind{n, s, b, list, ss}, "S, B, S, B, L, SS"},
		{AsDynamoDBJSON, []attribute.Kind{s, b, list, ss}, []attribute.Kind{s, b}, ", "},
		{AsInt64, []attribute.Kind{n}, nil, ", "},
	} {
		top, within := c.as.confuses(Seen{KindsOf(c.top...), KindsOf(c.inside...)})
		if got := fmt.Sprintf("%s, %s", top, within); got != c.want {
			t.Errorf("%s of %v, %v: %q, want %q", c.as, c.top, c.inside, got, c.want)
		}
	}
	both := Seen{KindsOf(s, n), KindsOf(s, b)}
	types := Types{"a": both, "gone": both, "n": both, "PK": both, "b": {Kinds: KindsOf(s)}}
	want := []string{
		`attribute "a" has values of types S, B within maps or lists, which JSON does not distinguish; write it as: dynamodb_json`,
		`attribute "a" has values of types S, N, which its cells do not distinguish; write it as: dynamodb_json`,
	}
	if got := invertible(t, "columns by name").Unclear(types); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := ruleMappings(t)["video"].Unclear(types); got != nil {
		t.Errorf("%q", got)
	}
}
