package attribute_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// An item is read as UnmarshalItem reads it, whatever items were read before it: with the same
// names in the same order, fewer, more, others, or names that the text writes differently.
func TestScannedItemsDoNotDependOnEarlierOnes(t *testing.T) {
	names := []string{`a`, `b`, `\u0061`, `c`, `d`, `\"`, `a\"b`, `é`, `\\`, ``}
	rapid.Check(t, func(t *rapid.T) {
		var texts []string
		for range rapid.IntRange(1, 6).Draw(t, "items") {
			texts = append(texts, members(t, names, 2))
		}
		s := attribute.NewScanner(strings.Join(texts, ""))
		again := rapid.Bool().Draw(t, "each text by itself")
		var items, wanted []attribute.Item
		for i, text := range texts {
			if again {
				s.Reset(text)
			}
			want, err := attribute.UnmarshalItem([]byte(text))
			read := s.Item
			if rapid.Bool().Draw(t, "keys") {
				read = s.Keys
			}
			if item, ok := read(); !ok || err != nil || !item.Equal(want) {
				t.Fatalf("item %d of %q differs: %v, %v", i, texts, ok, err)
			} else {
				items, wanted = append(items, item), append(wanted, want)
			}
		}
		for i, item := range items { // later texts do not change earlier items
			if !item.Equal(wanted[i]) {
				t.Fatalf("item %d of %q was changed", i, texts)
			}
		}
	})
	for _, text := range []string{`{"a\"b":{"S":"x"}}{"a"b":{"S":"x"}}`, `{"a":{"S":"x"}}{"a":{"S":"x"},"a":{"S":"y"}}`, `{"a":{"S":"x"},"b":{"S":"x"}}{"a":{"S":"x"},}`} {
		s := attribute.NewScanner(text)
		if _, ok := s.Item(); !ok {
			t.Fatalf("%s: the first item is well-formed", text)
		}
		if _, ok := s.Item(); ok {
			t.Errorf("%s: the second item is not well-formed", text)
		}
	}
}

// members draws the text of an item or a map.
func members(t *rapid.T, names []string, depth int) string {
	var list []string
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 5, decoded).Draw(t, "names") {
		value := fmt.Sprintf(`{"N":"%d"}`, rapid.IntRange(0, 9).Draw(t, "value"))
		if depth > 0 && rapid.Bool().Draw(t, "map") {
			value = `{"M":` + members(t, names, depth-1) + `}`
		}
		list = append(list, `"`+name+`":`+value)
	}
	return "{" + strings.Join(list, rapid.SampledFrom([]string{",", " , "}).Draw(t, "comma")) + "}"
}

func decoded(name string) string { return strings.Replace(name, `\u0061`, "a", 1) }

// Verbatim finds the first byte that a JSON string writes in another form.
func TestVerbatim(t *testing.T) {
	plain := strings.Repeat("x", 30)
	for _, c := range []string{`"`, `\`, "\x00", "\x1f", "é", "\xff", "\n"} {
		for at := range plain {
			if n := attribute.Verbatim(plain[:at] + c + plain[at:]); n != at {
				t.Errorf("%q at %d: %d", c, at, n)
			}
		}
	}
	for _, text := range []string{"", plain, " ~!#[]^\x7f", plain[:8], plain[:7]} {
		if n := attribute.Verbatim(text); n != len(text) {
			t.Errorf("%q: %d", text, n)
		}
	}
}

// An object that nobody needs ends where it ends, whatever its strings contain.
func TestSkipObject(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := members(t, []string{`a`, `}`, `{`, `\"`, `a\"}`, `\\`, `\\\"{`, `é`, ``}, 3)
		s := attribute.NewScanner(" " + text + "}")
		if !s.SkipObject() || s.Offset() != len(text)+1 {
			t.Fatalf("%s: %d bytes", text, s.Offset())
		}
		if cut := attribute.NewScanner(text[:len(text)-1]); cut.SkipObject() {
			t.Fatalf("%s without its end is an object", text)
		}
	})
	for _, text := range []string{"", "[]", `"{}"`, `{"a`, `{"a\"}`, "1"} {
		if attribute.NewScanner(text).SkipObject() {
			t.Errorf("%s is skipped as an object", text)
		}
	}
}

// A Scanner that reads many texts can be used again after an unusual text, learns names once, and
// then makes no more than an item's own memory.
func TestScannersReadManyTexts(t *testing.T) {
	text := `{"id":{"S":"x"},"zip":{"N":"1"},"at":{"S":"y"},"more":{"M":{"b":{"S":"1"},"a":{"S":"2"}}}}`
	s := attribute.NewScanner(text)
	for range 3 {
		if _, ok := s.Item(); !ok {
			t.Fatal("a well-formed item is refused")
		}
		s.Reset(`{"id":{"S":"x"},"zip":{"L":[{"S":"y"},{"S":`)
		if _, ok := s.Item(); ok {
			t.Fatal("an item without an end is read")
		}
		s.Reset(text)
	}
	if n := testing.AllocsPerRun(100, func() {
		s.Reset(text)
		if _, ok := s.Item(); !ok {
			t.Error("a well-formed item is refused")
		}
	}); n > 2 { // the attributes, and the parts of the map
		t.Errorf("%v allocations", n)
	}
}
