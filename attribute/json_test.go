package attribute_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/attribute/attributetest"
)

// item returns an item of one attribute.
func item(name string, v attribute.Value) attribute.Item {
	return attribute.NewItem([]attribute.Attribute{{Name: name, Value: v}})
}

func TestMarshalItemText(t *testing.T) {
	text, err := attribute.MarshalItem(attributetest.EveryType())
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

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drawn := attributetest.Items(0).Draw(t, "item")
		text, err := attribute.MarshalItem(drawn)
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid(text) {
			t.Fatalf("not JSON: %s", text)
		}
		back, err := attribute.UnmarshalItem(text)
		if err != nil || !back.Equal(drawn) {
			t.Fatalf("%s came back unequal, %v", text, err)
		}
		again, err := attribute.MarshalItem(back)
		if err != nil || !bytes.Equal(again, text) {
			t.Fatalf("equal items give %s and %s, %v", text, again, err)
		}
	})
}

// The depth of values is limited, but not their number.
func TestAnItemOfManyValues(t *testing.T) {
	var members []attribute.Attribute
	var elements []attribute.Value
	for i := range 1000 {
		members = append(members, attribute.Attribute{Name: fmt.Sprint("m", i), Value: attribute.Null()})
		elements = append(elements, attribute.List([]attribute.Value{attribute.Map(nil), attribute.StringSet([]string{"s"})}))
	}
	all := append(members, attribute.Attribute{Name: "list", Value: attribute.List(elements)}, attribute.Attribute{Name: "map", Value: attribute.Map(members)})
	large := attribute.NewItem(all)
	text, err := attribute.MarshalItem(large)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := attribute.UnmarshalItem(text); err != nil || !back.Equal(large) {
		t.Error(err)
	}
}

func TestMarshalRefuses(t *testing.T) {
	for name, refused := range map[string]attribute.Item{
		"not UTF-8":         item("a", attribute.String("\xff")),
		"name not UTF-8":    item("\xff", attribute.Null()),
		"no value":          item("a", attribute.Value{}),
		"empty set":         item("a", attribute.StringSet(nil)),
		"nested, not UTF-8": item("a", attribute.List([]attribute.Value{attribute.StringSet([]string{"\xff"})})),
	} {
		if text, err := attribute.MarshalItem(refused); !errors.Is(err, attribute.ErrDynamoDBJSON) || text != nil {
			t.Errorf("%s: %s, %v", name, text, err)
		}
		member := attribute.Map(refused.Attributes())
		if text, err := attribute.MarshalValue(member); !errors.Is(err, attribute.ErrDynamoDBJSON) || text != nil {
			t.Errorf("member, %s: %s, %v", name, text, err)
		}
	}
}

func TestUnmarshalItemRefuses(t *testing.T) {
	for text, want := range map[string]attribute.Problem{
		``: attribute.Malformed, `null`: attribute.Malformed, `[]`: attribute.Malformed, `"secret"`: attribute.Malformed, `{`: attribute.Malformed,
		`{"a":null}`: attribute.Malformed, `{"a":"secret"}`: attribute.Malformed, `{"a":{}}`: attribute.NoType,
		`{"a":{"S":null}}`: attribute.Malformed, `{"a":{"S":7}}`: attribute.Malformed, `{"a":{"N":7}}`: attribute.Malformed,
		`{"a":{"N":"secret"}}`: attribute.InvalidNumber, `{"a":{"N":""}}`: attribute.InvalidNumber, `{"a":{"B":"*secret*"}}`: attribute.NotBase64,
		`{"a":{"BOOL":"true"}}`: attribute.Malformed, `{"a":{"NULL":false}}`: attribute.NullNotTrue,
		`{"a":{"FLOAT":"secret"}}`: attribute.UnknownType, `{"a":{"s":"secret"}}`: attribute.UnknownType, `{"a":{"none":"secret"}}`: attribute.UnknownType,
		`{"a":{"S":"secret","N":"1"}}`: attribute.SecondType, `{"a":{"S":"secret","S":"secret"}}`: attribute.SecondType,
		`{"a":{"S":"secret"},"a":{"S":"other"}}`:            attribute.RepeatedName,
		`{"a":{"M":{"b":{"NULL":true},"b":{"NULL":true}}}}`: attribute.RepeatedName,
		`{"a":{"SS":[]}}`: attribute.EmptySet, `{"a":{"SS":["secret","secret"]}}`: attribute.RepeatedMember,
		`{"a":{"NS":["1","1.0"]}}`: attribute.RepeatedMember, `{"a":{"SS":[null]}}`: attribute.Malformed, `{"a":{"L":[null]}}`: attribute.Malformed,
		`{"a":{"L":{"S":"x"}}}`: attribute.Malformed, `{"a":{"L":["secret"]}}`: attribute.Malformed, `{"a":{"M":[]}}`: attribute.Malformed,
		"{\"a\":{\"S\":\"\xff\"}}": attribute.NotUTF8, "{\"a\":{\"S\":\"\\n\xff\"}}": attribute.NotUTF8, `{"a":{"S":"secret`: attribute.Malformed,
		"{\"a\":{\"S\":\"secret\n\"}}": attribute.Malformed, `{"a":{"S":"\q"}}`: attribute.Malformed,
		`{"a":{"S":"x"},}`: attribute.Malformed, `{"a":{"SS":["x",]}}`: attribute.Malformed, `{"a" {"S":"x"}}`: attribute.Malformed,
		`{"a":` + strings.Repeat(`{"L":[`, 5000) + strings.Repeat(`]}`, 5000) + `}`: attribute.TooDeep,
	} {
		got, err := attribute.UnmarshalItem([]byte(text))
		var fault *attribute.JSONError
		if !errors.As(err, &fault) || !errors.Is(err, attribute.ErrDynamoDBJSON) || fault.Problem != want || got.Exists() {
			t.Errorf("%.60s: %v, %v", text, got, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%.60s: the error holds data: %v", text, err)
		}
	}
	for _, text := range []string{`{}}`, `{} {}`, `{}x`} {
		if _, err := attribute.UnmarshalItem([]byte(text)); !errors.Is(err, attribute.ErrDynamoDBJSON) || !strings.Contains(err.Error(), "after the end") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := attribute.UnmarshalItem([]byte(`{"a":{"FLOAT":"1"}}`)); !strings.Contains(fmt.Sprint(err), `"FLOAT"`) {
		t.Errorf("the unknown type is not named: %v", err)
	}
	if _, err := attribute.UnmarshalItem([]byte(`{"a":{"N":"1e999"}}`)); !errors.Is(err, attribute.ErrNumberOverflow) {
		t.Errorf("what is wrong with the number is lost: %v", err)
	}
	one := item("a", attributetest.Must(attribute.Number("1.5")))
	if got, err := attribute.UnmarshalItem([]byte(" { \"a\" : { \"N\" : \"01.50\" } } \n")); err != nil || !got.Equal(one) {
		t.Errorf("spaces and another notation: %v, %v", got, err)
	}
}

func TestLastNameCounts(t *testing.T) {
	got, err := attribute.Decoder{LastNameCounts: true}.Item([]byte(`{"b":{"S":"1"},"a":{"S":"2"},"b":{"S":"3"}}`))
	if err != nil || string(attribute.AppendItem(nil, got)) != `{"a":{"S":"2"},"b":{"S":"3"}}` {
		t.Errorf("%s, %v", attribute.AppendItem(nil, got), err)
	}
	v, err := attribute.Decoder{}.Value([]byte(` {"L":[{"BOOL":false}]} `))
	if err != nil || !v.Equal(attribute.List([]attribute.Value{attribute.Bool(false)})) {
		t.Errorf("%v, %v", v, err)
	}
}

// H65: whatever verb prints them, values and items show no data.
func TestH65PrintingShowsNoData(t *testing.T) {
	printed := attribute.NewItem([]attribute.Attribute{
		{Name: "a", Value: attribute.String("secret")}, {Name: "b", Value: attribute.List([]attribute.Value{attribute.Binary([]byte("secret"))})},
	})
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, v := range []any{printed, printed.Attributes(), printed.Attributes()[1].Value} {
			if text := fmt.Sprintf(verb, v); strings.Contains(text, "secret") || strings.Contains(text, fmt.Sprintf("%x", "secret")) {
				t.Errorf("%s prints %s", verb, text)
			}
		}
	}
}

func FuzzUnmarshalItem(f *testing.F) {
	f.Add(attributetest.Must(attribute.MarshalItem(attributetest.EveryType())), true)
	f.Add([]byte(`{"a":{"N":"1e5"},"b":{"L":[{"NULL":true}]}}`), true)
	f.Add([]byte(`{"a":{"B":"AA=="},"a":{"NULL":true}}`), false)
	f.Add([]byte(`{"a":{"S":"\ud800"}}`), true)
	f.Fuzz(func(t *testing.T, text []byte, last bool) {
		read, err := attribute.Decoder{LastNameCounts: last}.Item(text)
		if err != nil {
			return
		}
		if !json.Valid(text) {
			t.Fatalf("read, though it is no JSON: %q", text)
		}
		again, err := attribute.MarshalItem(read)
		if err != nil {
			t.Fatalf("read, but not written: %v", err)
		}
		back, err := attribute.UnmarshalItem(again)
		if err != nil || !back.Equal(read) {
			t.Fatalf("%s came back unequal, %v", again, err)
		}
	})
}
