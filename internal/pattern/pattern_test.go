package pattern

import (
	"maps"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestMatch(t *testing.T) {
	const months = "Keyword_Search_Result_{keyword}_{year:4}_{month:2}"
	for _, test := range []struct {
		pattern, name string
		want          map[string]string // nil: no match
	}{
		{months, "Keyword_Search_Result_iPhone_2015_01", map[string]string{"keyword": "iPhone", "year": "2015", "month": "01"}},
		{months, "Keyword_Search_Result_phone_case_2015_01", map[string]string{"keyword": "phone_case", "year": "2015", "month": "01"}},
		{months, "Keyword_Search_Result_2014_12_2015_01", map[string]string{"keyword": "2014_12", "year": "2015", "month": "01"}},
		{months, "Keyword_Search_Result___2015_01", map[string]string{"keyword": "_", "year": "2015", "month": "01"}},
		{months, "Keyword_Search_Result__2015_01", nil},        // no keyword
		{months, "Keyword_Search_Result_iPhone_2015_1", nil},   // one digit
		{months, "Keyword_Search_Result_iPhone_20l5_01", nil},  // a letter
		{months, "Keyword_Search_Result_iPhone_2015_011", nil}, // what follows
		{months, "keyword_Search_Result_iPhone_2015_01", nil},
		{months, "Keyword_Search_Result_", nil},
		{"T_{year:4}", "T_2015", map[string]string{"year": "2015"}},
		{"T_{year:4}", "T_20156", nil},
		{"T_{year:4}", "T_", nil},
		{"{tenant}-orders", "a.b-orders", map[string]string{"tenant": "a.b"}},
		{"{tenant}-orders", "-orders", nil},
		{"{y:4}{m:2}{rest}", "201501x", map[string]string{"y": "2015", "m": "01", "rest": "x"}},
		{"{y:4}{m:2}{rest}", "201501", nil},
		{"a{x}a", "aa", nil},
		{"a{x}a", "aaa", map[string]string{"x": "a"}},
	} {
		p, wrong := Parse(test.pattern)
		if wrong != nil {
			t.Fatalf("%s: %+v", test.pattern, wrong)
		}
		got, ok := p.Match(test.name)
		if ok != (test.want != nil) || ok && !maps.Equal(got, test.want) {
			t.Errorf("%s matches %s as %v, %v; want %v", test.pattern, test.name, got, ok, test.want)
		}
	}
}

// What a pattern was filled with is what it gives back, whatever the parts hold.
func TestInvertible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var text, name strings.Builder
		want := map[string]string{}
		open := rapid.IntRange(0, 4).Draw(t, "open")
		for i := range rapid.IntRange(1, 4).Draw(t, "parts") {
			literal := rapid.StringMatching(`[a-z_.1-]{0,3}`).Draw(t, "literal")
			key := string(rune('a' + i))
			value := rapid.StringMatching(`[0-9]{1,4}`).Draw(t, "digits")
			capture := key + ":" + string(rune('0'+len(value)))
			if i == open {
				value, capture = rapid.StringMatching(`[a-z0-9_.-]{1,5}`).Draw(t, "text"), key
			}
			want[key] = value
			text.WriteString(literal + "{" + capture + "}")
			name.WriteString(literal + value)
		}
		p, wrong := Parse(text.String())
		if wrong != nil {
			t.Fatalf("%s: %+v", text.String(), wrong)
		}
		if got, ok := p.Match(name.String()); !ok || !maps.Equal(got, want) {
			t.Fatalf("%s matches %s as %v, %v; want %v", text.String(), name.String(), got, ok, want)
		}
	})
}
