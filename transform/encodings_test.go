package transform

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

func TestParseFamily(t *testing.T) {
	for text, want := range map[string]string{
		"maxversions=1":                                   "maxversions=1",
		"maxversions=1||maxage=30d":                       "maxversions=1 || maxage=30d",
		"(maxversions=2 && maxage=36h) || maxage=400d":    "(maxversions=2 && maxage=36h) || maxage=400d",
		"maxversions=1 or (maxage=90m and maxage=1500ms)": "maxversions=1 || (maxage=90m && maxage=1500ms)",
		"never":                "never",
		"never:intsum":         "never",
		"maxversions=1:intmax": "maxversions=1",
		"":                     "!", "maxversions": "!", "maxversions=0": "!", "maxage=30": "!", "maxage=0d": "!", "never || maxage=1d": "!",
		"(maxage=1d": "!", "maxage=1d)": "!", "maxage=1d maxage=2d": "!", "maxversions=1:float": "!", "maxage=1d ||": "!", "maxage=-1h": "!",
	} {
		f, err := ParseFamily("d", text)
		if want == "!" {
			if !errors.Is(err, ErrMapping) {
				t.Errorf("%q: %v", text, err)
			}
		} else if err != nil || f.GC.String() != want {
			t.Errorf("%q: %q, %v", text, f.GC, err)
		} else if again, err := ParseFamily("d", want); err != nil || again.GC.String() != want {
			t.Errorf("%q does not read what it writes: %v", want, err)
		}
	}
	for _, c := range []struct {
		one, other string
		same       bool
	}{
		{"maxversions=1 || maxage=30d", "maxage=720h or maxversions=1", true},
		{"maxversions=1 || (maxage=30d || maxversions=3)", "maxversions=3 || maxage=30d || maxversions=1 || maxage=30d", true},
		{"maxage=30d && (maxversions=1 || maxage=90d)", "(maxage=90d || maxversions=1) && maxage=30d", true},
		{"maxversions=1 || maxversions=1", "maxversions=1", true},
		{"maxversions=1 || maxage=30d", "maxversions=1 && maxage=30d", false},
		{"maxversions=1 || maxage=30d && maxversions=9", "(maxversions=1 || maxage=30d) && maxversions=9", false},
		{"maxversions=1 || maxage=30d && maxversions=9", "maxversions=1 || maxage=30d || maxversions=9", false},
		{"maxversions=1", "never", false},
	} {
		one, err := ParseFamily("d", c.one)
		other, otherErr := ParseFamily("d", c.other)
		if err != nil || otherErr != nil || one.GC.Same(other.GC) != c.same || other.GC.Same(one.GC) != c.same {
			t.Errorf("%s and %s: %v, %v, want %v", c.one, c.other, err, otherErr, c.same)
		}
	}
	for _, name := range []string{"", "a b", "_cdc", "_cdcx", strings.Repeat("f", 65), "a:b"} {
		if _, err := ParseFamily(name, "never"); !errors.Is(err, ErrMapping) {
			t.Errorf("family %q: %v", name, err)
		}
	}
	for text, want := range map[string]string{"maxage=2d": "48h", "maxage=1d || maxage=2d": "24h", "maxage=1d && maxage=2d": "48h", "maxversions=1 && maxage=2d": "", "maxversions=1": "", "never": "", "maxversions=1 || maxage=3d": "72h"} {
		f, _ := ParseFamily("d", text)
		age, ok := f.GC.expiry()
		if got := strings.TrimSuffix(age.String(), "0m0s"); ok != (want != "") || ok && got != want {
			t.Errorf("%s: %s, %v", text, got, ok)
		}
	}
}

// An encoding refuses a value that it would change.
func TestEncodings(t *testing.T) {
	number := func(text string) attribute.Value { return number(text) }
	vector := func(texts ...string) attribute.Value {
		var elements []attribute.Value
		for _, text := range texts {
			elements = append(elements, number(text))
		}
		return attribute.List(elements)
	}
	numbers, err := attribute.NumberSet([]string{"1", "2"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		as    Encoding
		value attribute.Value
		want  string // "!": refused
	}{
		{AsText, attribute.Binary([]byte{0, 255}), `"AP8="`}, {AsText, number("1e3"), `"1000"`}, {AsText, attribute.Null(), `"null"`},
		{AsJSON, attribute.String("x"), `"\"x\""`}, {AsJSON, number("1e3"), `"1000"`},
		{AsDynamoDBJSON, attribute.String("x"), `"{\"S\":\"x\"}"`}, {AsDynamoDBJSON, attribute.StringSet([]string{"b", "a"}), `"{\"SS\":[\"a\",\"b\"]}"`},
		{AsInt64, number("-1"), `"\xff\xff\xff\xff\xff\xff\xff\xff"`}, {AsInt64, number("9223372036854775807"), `"\x7f\xff\xff\xff\xff\xff\xff\xff"`},
		{AsInt64, number("9223372036854775808"), "!"}, {AsInt64, number("1.5"), "!"}, {AsInt64, attribute.String("1"), "!"},
		{AsFloat64, number("1.5"), `"?\xf8\x00\x00\x00\x00\x00\x00"`}, {AsFloat64, attribute.String("1"), "!"}, {AsFloat64, number("1e125"), `"Y\xec\x9b\xf0!\xbc\xf5\xe0"`},
		{AsBytes, attribute.Binary([]byte{0, 255}), `"\x00\xff"`}, {AsBytes, attribute.String("x"), `"x"`}, {AsBytes, number("1"), "!"},
		{AsFloat32s, vector("1.5", "-2", "0"), `"?\xc0\x00\x00\xc0\x00\x00\x00\x00\x00\x00\x00"`}, {AsFloat32s, vector(), `""`},
		{AsFloat32s, vector("0.1"), `"=\xcc\xcc\xcd"`}, {AsFloat32s, vector("16777217"), `"K\x80\x00\x00"`}, {AsFloat32s, vector("1e-60"), `"\x00\x00\x00\x00"`},
		{AsFloat32s, vector("3e38"), `"\x7fa\xb1\xe6"`}, {AsFloat32s, vector("1", "3.5e38"), "!"}, {AsFloat32s, vector("-1e125"), "!"},
		{AsFloat32s, attribute.List([]attribute.Value{number("1"), attribute.String("2")}), "!"}, {AsFloat32s, number("1"), "!"}, {AsFloat32s, attribute.Null(), "!"},
		{AsFloat32s, numbers, "!"}, {AsFloat32s, attribute.List([]attribute.Value{vector("1")}), "!"},
		{AsCounter, number("7"), `"\x00\x00\x00\x00\x00\x00\x00\a"`}, {AsCounter, number("0.5"), "!"},
	} {
		b, err := appendAs(nil, c.as, c.value)
		if got := fmt.Sprintf("%q", b); c.want == "!" && err == nil || c.want != "!" && c.as != AsFloat64 && got != c.want || c.as == AsFloat64 && (err != nil) != (c.want == "!") {
			t.Errorf("%s of %s: %s, %v", c.as, c.value.Kind(), got, err)
		}
	}
	for i, name := range append([]string{""}, EncodingNames()...) {
		if e, ok := ParseEncoding(name); !ok || e.String() != name || int(e) != i {
			t.Error(name)
		}
	}
}
