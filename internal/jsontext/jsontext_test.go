package jsontext

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// read is any value, decoded as encoding/json decodes it into an interface.
func read(r *Reader) any {
	switch r.peek() {
	case '{':
		object := map[string]any{}
		for r.Object(); ; {
			name, ok := r.Member()
			if !ok {
				return object
			}
			object[name] = read(r)
		}
	case '[':
		list := []any{}
		for r.Array(); r.Element(); {
			list = append(list, read(r))
		}
		return list
	case '"':
		return r.Text()
	case 't', 'f':
		return r.Bool()
	case 'n':
		if r.Skip() != "null" {
			return "no null"
		}
		return nil
	}
	return r.Float()
}

var texts = []string{
	`{}`, `[]`, `null`, `true`, `false`, `0`, `-0`, `-12.5e+3`, `1E2`, `""`, `"a"`, `"ü "`, `"\"\\\/\b\f\n\r\t\u00e4\ud83d\ude00\ud800"`,
	` { "a" : [ 1 , {"b":null} , [ ] ] , "" : "x" } `, `{"a":1,"a":2}`, "\t[\r\n1]",
	``, ` `, `{`, `[`, `{]`, `[}`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{"a":1 "b":2}`, `[1,]`, `[,1]`, `[1 2]`, `{"a":1}}`, `[] []`, `01`, `-`, `1.`, `.5`, `1e`,
	`1e+`, `+1`, `tru`, `truex`, `nul`, `falsy`, `"`, `"a`, `"\`, `"\"`, `"\x"`, `"\u12"`, "\"\n\"", "\"\xff\"", "\"\\n\xff\"", `{a:1}`, `{'a':1}`, `{1:1}`,
	`{"a":1]`, `[1}`, `1 2`, "\ufeff1", `"a"b`, `[1,,2]`, `{"a"::1}`, `nulll`, `1x`, "\"\u2028\"", "\x00", "1\x00", `{"\u0061":1}`,
}

// agrees holds a reader against encoding/json.
func agrees(t *testing.T, text string) {
	t.Helper()
	var want any
	wrong := json.Unmarshal([]byte(text), &want)
	r := New(text)
	have := read(&r)
	r.End()
	if !utf8.ValidString(text) && wrong == nil { // encoding/json puts another character in its place
		wrong = ErrUTF8
	}
	var beyond *json.UnmarshalTypeError // a number beyond what a float64 holds is read by neither, for another reason
	if errors.As(wrong, &beyond) {
		wrong = ErrType
	}
	if (r.Err() == nil) != (wrong == nil) {
		t.Fatalf("%q: %v, encoding/json says %v", text, r.Err(), wrong)
	}
	if wrong == nil && !reflect.DeepEqual(have, want) {
		t.Fatalf("%q is read as %v, not %v", text, have, want)
	}
	s := New(text)
	skipped := s.Skip()
	s.End()
	if numbers := errors.Is(wrong, ErrType); !numbers && (s.Err() == nil) != (wrong == nil) || s.Err() == nil && skipped != strings.Trim(text, " \t\r\n") {
		t.Fatalf("%q: skipped as %q, %v; encoding/json says %v", text, skipped, s.Err(), wrong)
	}
}

func TestReadsWhatEncodingJSONReads(t *testing.T) {
	for _, text := range texts {
		agrees(t, text)
	}
}

func FuzzReader(f *testing.F) {
	for _, text := range texts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Count(text, "[")+strings.Count(text, "{") < maxDepth {
			agrees(t, text)
		}
	})
}

// What is there but of another type is told from what is no JSON; and nothing is read after a failure.
func TestAnotherTypeIsNoSyntax(t *testing.T) {
	for name, ask := range map[string]func(r *Reader){
		"object": (*Reader).Object, "array": (*Reader).Array, "text": func(r *Reader) { r.Text() },
		"bool": func(r *Reader) { r.Bool() }, "uint": func(r *Reader) { r.Uint() }, "float": func(r *Reader) { r.Float() },
	} {
		for _, text := range []string{`{}`, `[]`, `"a"`, `true`, `false`, `null`, `7`, `-7`, `7.5`} {
			r := New(text)
			ask(&r)
			fits := strings.Contains(map[string]string{
				"object": "{", "array": "[", "text": `"`, "bool": "tf", "uint": "7", "float": "7-",
			}[name], text[:1]) && (name != "uint" || text != "7.5")
			if want := map[bool]error{true: nil, false: ErrType}[fits]; r.Err() != want {
				t.Errorf("%s of %s: %v", name, text, r.Err())
			}
		}
		r := New("}")
		if ask(&r); r.Err() != ErrSyntax || r.Skip() != "" || r.Text() != "" || r.Bool() || r.Element() {
			t.Errorf("%s of what is no JSON: %v", name, r.Err())
		}
	}
	for _, text := range []string{`18446744073709551616`, `-1`, `1e2`} {
		if r := New(text); r.Uint() != 0 || r.Err() != ErrType {
			t.Errorf("%s: %v", text, r.Err())
		}
	}
}

func TestDepthIsBounded(t *testing.T) {
	for _, open := range []string{"[", `{"a":`} {
		if r := New(strings.Repeat(open, 1_000_000)); r.Skip() != "" || r.Err() != ErrSyntax {
			t.Error(r.Err())
		}
	}
	deep := strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth)
	if r := New(deep); r.Skip() != deep || r.Err() != nil {
		t.Error(r.Err())
	}
}
