package item_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/dynamodbtest/item"
)

func parse(t *testing.T, text string) attribute.Item {
	t.Helper()
	var it item.Item
	if err := json.Unmarshal([]byte(text), &it); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return it.Item
}

func TestCanonicalWireForm(t *testing.T) {
	in := `{
		"z": {"NULL": true}, "s": {"S": "a\u0041\n\"\\é"}, "n": {"N": "1.50e1"}, "b": {"B": "AP8="},
		"t": {"BOOL": false}, "ss": {"SS": ["b", "a"]}, "ns": {"NS": ["10", "9", "-1.0"]}, "bs": {"BS": ["/w==", "AA=="]},
		"l": {"L": [{"N": "1e0"}, {"L": []}]}, "m": {"M": {"y": {"S": ""}, "x": {"M": {}}}}
	}`
	want := `{"b":{"B":"AP8="},"bs":{"BS":["AA==","/w=="]},"l":{"L":[{"N":"1"},{"L":[]}]},"m":{"M":{"x":{"M":{}},"y":{"S":""}}},` +
		`"n":{"N":"15"},"ns":{"NS":["-1","9","10"]},"s":{"S":"aA\u000a\"\\é"},"ss":{"SS":["a","b"]},"t":{"BOOL":false},"z":{"NULL":true}}`
	got := string(attribute.AppendItem(nil, parse(t, in)))
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if again := string(attribute.AppendItem(nil, parse(t, got))); again != got {
		t.Errorf("not a fixed point: %s", again)
	}
}

func TestDuplicateMemberKeepsTheLast(t *testing.T) {
	if got := string(attribute.AppendItem(nil, parse(t, `{"b":{"S":"1"},"a":{"S":"2"},"b":{"S":"3"}}`))); got != `{"a":{"S":"2"},"b":{"S":"3"}}` {
		t.Error(got)
	}
}

func TestRefusedValues(t *testing.T) {
	invalid := map[string]string{
		`{"a":{}}`:                                "Supplied AttributeValue is empty",
		`{"a":{"X":"1"}}`:                         "Supplied AttributeValue is empty",
		`{"a":{"S":"x","N":"1"}}`:                 "more than one datatypes",
		`{"a":{"NULL":false}}`:                    "Null attribute value types must have the value of true",
		`{"a":{"SS":[]}}`:                         "string set  may not be empty",
		`{"a":{"NS":[]}}`:                         "number set  may not be empty",
		`{"a":{"BS":[]}}`:                         "Binary sets should not be empty",
		`{"a":{"SS":["x","y","x"]}}`:              "contains duplicates",
		`{"a":{"NS":["1","1.0"]}}`:                "contains duplicates",
		`{"a":{"BS":["AA==","AA=="]}}`:            "contains duplicates",
		`{"a":{"N":"one"}}`:                       "numeric",
		`{"a":{"L":[{"M":{"x":{"N":"1e999"}}}]}}`: "overflow",
	}
	for text, want := range invalid {
		var it item.Item
		var refused *item.ValidationError
		if err := json.Unmarshal([]byte(text), &it); !errors.As(err, &refused) || !strings.Contains(refused.Message, want) {
			t.Errorf("%s gives %v, want %q", text, err, want)
		}
	}
	malformed := []string{
		`{"a":{"S":1}}`, `{"a":{"N":1}}`, `{"a":"x"}`, `{"a":{"BOOL":"true"}}`, `{"a":{"SS":"x"}}`, `{"a":{"L":{}}}`, `{"a":{"M":[]}}`, `{"a":{"B":"?"}}`, `{"a":{"B":"A"}}`, `[]`, `{"a":{"S":"\ud800` + "\xff" + `"}}`,
	}
	for _, text := range malformed {
		var it item.Item
		var syntax *item.SyntaxError
		if err := json.Unmarshal([]byte(text), &it); !errors.As(err, &syntax) {
			t.Errorf("%s gives %v, want a SyntaxError", text, err)
		}
	}
}

func TestErrorsHoldNoItemData(t *testing.T) {
	for _, text := range []string{`{"a":{"N":"secret"}}`, `{"a":{"SS":["secret","secret"]}}`, `{"a":{"B":"!secret!"}}`, `{"a":{"S":"secret","N":"secret"}}`} {
		var it item.Item
		if err := json.Unmarshal([]byte(text), &it); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// nested returns a value of n nested lists.
func nested(n int) string {
	return `{"a":` + strings.Repeat(`{"L":[`, n) + `{"S":"x"}` + strings.Repeat(`]}`, n) + `}`
}

func TestNestingLimit(t *testing.T) {
	it := parse(t, nested(32))
	if err := item.CheckDepth(it); err != nil {
		t.Error(err)
	}
	if _, err := item.Parse([]byte(nested(33))); err == nil || !strings.Contains(err.Error(), "Nesting") {
		t.Errorf("33 levels give %v", err)
	}
	inner, _ := parse(t, nested(32)).Get("a")
	if err := item.CheckDepth(attribute.NewItem([]attribute.Attribute{{Name: "a", Value: attribute.List([]attribute.Value{inner})}})); err == nil {
		t.Error("33 levels built from parts are accepted")
	}
}

func TestSize(t *testing.T) {
	cases := map[string]int{
		`{"name":{"S":"é"}}`:                              4 + 2,
		`{"n":{"N":"12345"}}`:                             1 + 3 + 1,
		`{"n":{"N":"-12345e10"}}`:                         1 + 3 + 2,
		`{"b":{"B":"AP8="}}`:                              1 + 2,
		`{"t":{"BOOL":true}}`:                             2,
		`{"z":{"NULL":true}}`:                             2,
		`{"s":{"SS":["ab","c"]}}`:                         1 + 3,
		`{"s":{"NS":["1","22"]}}`:                         1 + 4,
		`{"l":{"L":[{"S":"abc"},{"BOOL":true}]}}`:         1 + 3 + 2 + 3 + 1,
		`{"m":{"M":{"k":{"S":"v"},"l":{"S":""}}}}`:        1 + 3 + 2 + 2 + 1,
		`{"m":{"M":{}},"l":{"L":[]},"b":{"BS":["AA=="]}}`: 4 + 4 + 2,
	}
	for text, want := range cases {
		if got := item.Size(parse(t, text)); got != want {
			t.Errorf("size of %s is %d, want %d", text, got, want)
		}
	}
}

func TestGiven(t *testing.T) {
	var request struct{ Absent, Null, Empty item.Item }
	if err := json.Unmarshal([]byte(`{"Null":null,"Empty":{}}`), &request); err != nil {
		t.Fatal(err)
	}
	if request.Absent.Given || request.Null.Given || !request.Empty.Given {
		t.Errorf("given: %t %t %t", request.Absent.Given, request.Null.Given, request.Empty.Given)
	}
}

func TestValues(t *testing.T) {
	var request struct{ Absent, Null, Empty, Some item.Values }
	text := `{"Absent":null,"Null":null,"Empty":{},"Some":{":a":{"N":"1.0"},":b":{"S":"x"}}}`
	if err := json.Unmarshal([]byte(text), &request); err != nil {
		t.Fatal(err)
	}
	if request.Absent != nil || request.Null != nil || request.Empty == nil || len(request.Some) != 2 || request.Some[":a"].Text() != "1" {
		t.Error("values are not what the request holds")
	}
	again, err := json.Marshal(request)
	if err != nil || string(again) != `{"Absent":null,"Null":null,"Empty":{},"Some":{":a":{"N":"1"},":b":{"S":"x"}}}` {
		t.Errorf("%s, %v", again, err)
	}
}

// FuzzItem checks that the canonical form of any accepted text is a fixed point, and that no text
// makes the reader panic.
func FuzzItem(f *testing.F) {
	f.Add([]byte(`{"a":{"S":"x"},"b":{"L":[{"M":{"c":{"NS":["1","2"]}}}]}}`))
	f.Add([]byte(`{"a":{"B":"AA=="},"a":{"NULL":true}}`))
	f.Add([]byte(`{"a":{"S":"\u00e9\n"`))
	f.Fuzz(func(t *testing.T, data []byte) {
		it, err := item.Parse(data)
		if err != nil {
			return
		}
		wire := attribute.AppendItem(nil, it)
		if !json.Valid(wire) || !utf8.Valid(wire) {
			t.Fatalf("canonical form is not JSON: %q", wire)
		}
		again, err := item.Parse(wire)
		if err != nil {
			t.Fatalf("canonical form does not parse: %v", err)
		}
		if string(attribute.AppendItem(nil, again)) != string(wire) || item.Size(again) != item.Size(it) {
			t.Fatalf("not a fixed point: %q", wire)
		}
	})
}
