package cdc

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

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

func TestMarshalChangeText(t *testing.T) {
	change := Change{
		Event: Remove, Sequence: must(ParseSequenceNumber("4700000000012345678901")), Time: time.Unix(1732175999, 0), Expired: true,
		Keys: attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("a")}}), Old: attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("a")}, {Name: "x", Value: attribute.Null()}}),
	}
	text := must(MarshalChange(change))
	want := `{"v":1,"event":"REMOVE","sequence":"4700000000012345678901","time":"2024-11-21T07:59:59Z","expired":true,` +
		`"keys":{"pk":{"S":"a"}},"old":{"pk":{"S":"a"},"x":{"NULL":true}}}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

func TestUnmarshalChangeRefuses(t *testing.T) {
	for _, text := range []string{
		``, `{}`, `[]`, `{"v":2,"event":"INSERT"}`, `{"v":1}`, `{"v":1,"event":"insert"}`, `{"v":1,"event":"INSERT","more":1}`, "{\"v\":1,\"event\":\"INSERT\",\"new\":{\"a\":{\"S\":\"\xff\"}}}",
		`{"v":1,"event":"INSERT","sequence":"x"}`, `{"v":1,"event":"INSERT","sequence":1}`, `{"v":1,"event":"INSERT","time":"today"}`,
		`{"v":1,"event":"INSERT","new":{"a":{"X":1}}}`, `{"v":1,"event":"INSERT"} 1`, `{"v":1,"event":"INSERT","expired":"yes"}`,
	} {
		if c, err := UnmarshalChange([]byte(text)); !errors.Is(err, attribute.ErrDynamoDBJSON) || c.Event != 0 {
			t.Errorf("%s: %v, %v", text, c, err)
		}
	}
}

// H65: whatever verb prints it, a change shows no data.
func TestH65PrintingAChangeShowsNoData(t *testing.T) {
	item := attribute.NewItem([]attribute.Attribute{{Name: "a", Value: attribute.String("secret")}})
	change := Change{Event: Insert, Keys: item, New: item}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, v := range []any{change, &change, []Change{change}} {
			if text := fmt.Sprintf(verb, v); strings.Contains(text, "secret") || strings.Contains(text, fmt.Sprintf("%x", "secret")) {
				t.Errorf("%s prints %s", verb, text)
			}
		}
	}
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

func TestMarshalChangeRefuses(t *testing.T) {
	for name, c := range map[string]Change{
		"no event":     {},
		"not UTF-8":    {Event: Insert, New: attribute.NewItem([]attribute.Attribute{{Name: "a", Value: attribute.String("\xff")}})},
		"year of five": {Event: Insert, Time: time.Date(12026, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		if text, err := MarshalChange(c); !errors.Is(err, attribute.ErrDynamoDBJSON) || text != nil {
			t.Errorf("%s: %s, %v", name, text, err)
		}
	}
}
