package cdc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// everyType is an item with each of the ten types and the cases that are easily confused.
func everyType() Item {
	return NewItem([]Attribute{
		{"s", String("<&>\"\\\n\u2028ü")}, {"n", must(Number("1e39"))}, {"b", Binary([]byte{0, 255})}, {"t", Bool(true)}, {"f", Bool(false)},
		{"z", Null()}, {"m", Map([]Attribute{{"y", String("")}, {"x", List(nil)}})}, {"l", List([]Value{String("a"), Map(nil)})},
		{"ss", StringSet([]string{"b", "a", ""})}, {"ns", must(NumberSet([]string{"10", "9", "-1.50"}))}, {"bs", BinarySet([][]byte{{2}, {1}})},
	})
}

func TestMarshalItemText(t *testing.T) {
	text, err := MarshalItem(everyType())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"b":{"B":"AP8="},"bs":{"BS":["AQ==","Ag=="]},"f":{"BOOL":false},"l":{"L":[{"S":"a"},{"M":{}}]},` +
		`"m":{"M":{"x":{"L":[]},"y":{"S":""}}},"n":{"N":"1` + strings.Repeat("0", 39) + `"},"ns":{"NS":["-1.5","9","10"]},` +
		`"s":{"S":"<&>\"\\\u000a` + "\u2028ü" + `"},"ss":{"SS":["","a","b"]},"t":{"BOOL":true},"z":{"NULL":true}}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

func TestDynamoDBJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		item := items(0).Draw(t, "item")
		text, err := MarshalItem(item)
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid(text) {
			t.Fatalf("not JSON: %s", text)
		}
		back, err := UnmarshalItem(text)
		if err != nil || !back.Equal(item) {
			t.Fatalf("%s came back unequal, %v", text, err)
		}
		again, err := MarshalItem(back)
		if err != nil || !bytes.Equal(again, text) {
			t.Fatalf("equal items give %s and %s, %v", text, again, err)
		}
	})
}

func TestChangeRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		change := changes().Draw(t, "change")
		text, err := MarshalChange(change)
		if err != nil {
			t.Fatal(err)
		}
		back, err := UnmarshalChange(text)
		if err != nil || !sameChange(back, change) {
			t.Fatalf("%s came back unequal, %v", text, err)
		}
	})
}

// The depth of values is bounded, not their number.
func TestAnItemOfManyValues(t *testing.T) {
	var members []Attribute
	var elements []Value
	for i := range 1000 {
		members = append(members, Attribute{fmt.Sprint("m", i), Null()})
		elements = append(elements, List([]Value{Map(nil), StringSet([]string{"s"})}))
	}
	item := NewItem(append(members, Attribute{"list", List(elements)}, Attribute{"map", Map(members)}))
	text, err := MarshalItem(item)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := UnmarshalItem(text); err != nil || !back.Equal(item) {
		t.Error(err)
	}
}

func TestMarshalChangeText(t *testing.T) {
	change := Change{
		Event: Remove, Sequence: must(ParseSequenceNumber("4700000000012345678901")), Time: time.Unix(1732175999, 0), Expired: true,
		Keys: NewItem([]Attribute{{"pk", String("a")}}), Old: NewItem([]Attribute{{"pk", String("a")}, {"x", Null()}}),
	}
	text := must(MarshalChange(change))
	want := `{"v":1,"event":"REMOVE","sequence":"4700000000012345678901","time":"2024-11-21T07:59:59Z","expired":true,` +
		`"keys":{"pk":{"S":"a"}},"old":{"pk":{"S":"a"},"x":{"NULL":true}}}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

func TestMarshalRefuses(t *testing.T) {
	for name, item := range map[string]Item{
		"not UTF-8":         NewItem([]Attribute{{"a", String("\xff")}}),
		"name not UTF-8":    NewItem([]Attribute{{"\xff", Null()}}),
		"no value":          NewItem([]Attribute{{"a", Value{}}}),
		"empty set":         NewItem([]Attribute{{"a", StringSet(nil)}}),
		"nested, not UTF-8": NewItem([]Attribute{{"a", List([]Value{StringSet([]string{"\xff"})})}}),
	} {
		if text, err := MarshalItem(item); !errors.Is(err, ErrDynamoDBJSON) || text != nil {
			t.Errorf("%s: %s, %v", name, text, err)
		}
		if text, err := MarshalChange(Change{Event: Insert, New: item}); !errors.Is(err, ErrDynamoDBJSON) || text != nil {
			t.Errorf("change, %s: %s, %v", name, text, err)
		}
	}
	if _, err := MarshalChange(Change{}); !errors.Is(err, ErrDynamoDBJSON) {
		t.Errorf("no event: %v", err)
	}
}

func TestUnmarshalItemRefuses(t *testing.T) {
	for _, text := range []string{
		``, `null`, `[]`, `"secret"`, `{`, `{}}`, `{} {}`, `{}x`, `{"a":null}`, `{"a":"secret"}`, `{"a":{}}`, `{"a":{"S":null}}`,
		`{"a":{"S":7}}`, `{"a":{"N":7}}`, `{"a":{"N":"secret"}}`, `{"a":{"N":""}}`, `{"a":{"B":"*secret*"}}`, `{"a":{"BOOL":"true"}}`,
		`{"a":{"NULL":false}}`, `{"a":{"FLOAT":"secret"}}`, `{"a":{"s":"secret"}}`, `{"a":{"none":"secret"}}`, `{"a":{"S":"secret","N":"1"}}`,
		`{"a":{"S":"secret","S":"secret"}}`, `{"a":{"S":"secret"},"a":{"S":"other"}}`, `{"a":{"M":{"b":{"NULL":true},"b":{"NULL":true}}}}`,
		`{"a":{"SS":[]}}`, `{"a":{"SS":["secret","secret"]}}`, `{"a":{"NS":["1","1.0"]}}`, `{"a":{"SS":[null]}}`, `{"a":{"L":[null]}}`,
		`{"a":{"L":{"S":"x"}}}`, `{"a":{"L":["secret"]}}`, `{"a":{"M":[]}}`, "{\"a\":{\"S\":\"\xff\"}}", `{"a":{"S":"secret`,
		`{"a":` + strings.Repeat(`{"L":[`, 5000) + strings.Repeat(`]}`, 5000) + `}`,
	} {
		item, err := UnmarshalItem([]byte(text))
		if !errors.Is(err, ErrDynamoDBJSON) || item.Exists() {
			t.Errorf("%.60s: %v, %v", text, item, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%.60s: the error holds data: %v", text, err)
		}
	}
	if _, err := UnmarshalItem([]byte(`{"a":{"FLOAT":"1"}}`)); !strings.Contains(fmt.Sprint(err), `"FLOAT"`) {
		t.Errorf("the unknown type is not named: %v", err)
	}
	if item, err := UnmarshalItem([]byte(" { \"a\" : { \"N\" : \"01.50\" } } \n")); err != nil || !item.Equal(NewItem([]Attribute{{"a", must(Number("1.5"))}})) {
		t.Errorf("spaces and another notation: %v, %v", item, err)
	}
}

func TestUnmarshalChangeRefuses(t *testing.T) {
	for _, text := range []string{
		``, `{}`, `[]`, `{"v":2,"event":"INSERT"}`, `{"v":1}`, `{"v":1,"event":"insert"}`, `{"v":1,"event":"INSERT","more":1}`, `{"v":1,"v":1,"event":"INSERT"}`,
		`{"v":1,"event":"INSERT","sequence":"x"}`, `{"v":1,"event":"INSERT","sequence":1}`, `{"v":1,"event":"INSERT","time":"today"}`,
		`{"v":1,"event":"INSERT","new":{"a":{"X":1}}}`, `{"v":1,"event":"INSERT"} 1`, `{"v":1,"event":"INSERT","expired":"yes"}`,
	} {
		if c, err := UnmarshalChange([]byte(text)); !errors.Is(err, ErrDynamoDBJSON) || c.Event != 0 {
			t.Errorf("%s: %v, %v", text, c, err)
		}
	}
}

// H65: whatever verb prints them, values, items and changes show no data.
func TestH65PrintingShowsNoData(t *testing.T) {
	item := NewItem([]Attribute{{"a", String("secret")}, {"b", List([]Value{Binary([]byte("secret"))})}})
	change := Change{Event: Insert, Keys: item, New: item}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, v := range []any{item, change, &change, []Change{change}, item.Attributes(), item.Attributes()[1].Value} {
			if text := fmt.Sprintf(verb, v); strings.Contains(text, "secret") || strings.Contains(text, fmt.Sprintf("%x", "secret")) {
				t.Errorf("%s prints %s", verb, text)
			}
		}
	}
}

func FuzzUnmarshalItem(f *testing.F) {
	f.Add(must(MarshalItem(everyType())))
	f.Add([]byte(`{"a":{"N":"1e5"},"b":{"L":[{"NULL":true}]}}`))
	f.Add([]byte(`{"a":{"S":"\ud800"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		item, err := UnmarshalItem(text)
		if err != nil {
			return
		}
		again, err := MarshalItem(item)
		if err != nil {
			t.Fatalf("read, but not written: %v", err)
		}
		back, err := UnmarshalItem(again)
		if err != nil || !back.Equal(item) {
			t.Fatalf("%s came back unequal, %v", again, err)
		}
	})
}

func FuzzUnmarshalChange(f *testing.F) {
	f.Add(must(MarshalChange(Change{Event: Modify, Sequence: SequenceOf(7), Time: time.Unix(1, 0), Keys: everyType(), New: everyType()})))
	f.Fuzz(func(t *testing.T, text []byte) {
		change, err := UnmarshalChange(text)
		if err != nil {
			return
		}
		back, err := UnmarshalChange(must(MarshalChange(change)))
		if err != nil || !sameChange(back, change) {
			t.Fatalf("came back unequal, %v", err)
		}
	})
}
