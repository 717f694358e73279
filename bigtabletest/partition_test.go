package bigtabletest

import (
	"fmt"
	"strings"
	"testing"

	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
)

// ranges parses partitions of the form "a:m m:".
func ranges(text string) []Partition {
	var all []Partition
	for _, word := range strings.Fields(text) {
		from, to, _ := strings.Cut(word, ":")
		all = append(all, Partition{Start: from, End: to})
	}
	return all
}

// text is the inverse of ranges.
func text(all []Partition) string {
	var words []string
	for _, p := range all {
		words = append(words, p.Start+":"+p.End)
	}
	return strings.Join(words, " ")
}

func TestCovers(t *testing.T) {
	for _, test := range []struct {
		whole, parts string
		want         bool
	}{
		{":", ":", true},
		{"a:c", "a:b b:c", true},
		{"a:c", "b:c a:b", true},
		{"a:", "b: a:b", true},
		{"a:d", "a:c b:d", true},
		{"a:d", "a:d b:c", true},
		{"a:c", "", false},
		{"a:c", "a:b", false},
		{"a:c", "b:c", false},
		{"a:d", "a:b c:d", false},
		{"a:c", "a:b b:d", false},
		{"a:c", ":c", false},
		{"a:c", "a:", false},
		{"a:", "a:b", false},
	} {
		if got := covers(ranges(test.whole)[0], ranges(test.parts)); got != test.want {
			t.Errorf("%s covers %s: got %t", test.parts, test.whole, got)
		}
	}
}

func TestOverlap(t *testing.T) {
	for _, test := range []struct{ a, b, want string }{
		{":", ":", ":"},
		{"a:c", "b:d", "b:c"},
		{"a:", "b:d", "b:d"},
		{":c", "b:", "b:c"},
		{"a:b", "b:c", ""},
		{"b:", "a:b", ""},
	} {
		for _, pair := range [][2]string{{test.a, test.b}, {test.b, test.a}} {
			both, ok := ranges(pair[0])[0].overlap(ranges(pair[1])[0])
			if got := text([]Partition{both}); ok != (test.want != "") || ok && got != test.want {
				t.Errorf("%s and %s: got %s, %t", pair[0], pair[1], got, ok)
			}
		}
	}
}

func TestPartitionsOfRequests(t *testing.T) {
	closed := func(key string) *bigtablepb.RowRange_StartKeyClosed {
		return &bigtablepb.RowRange_StartKeyClosed{StartKeyClosed: []byte(key)}
	}
	open := func(key string) *bigtablepb.RowRange_EndKeyOpen {
		return &bigtablepb.RowRange_EndKeyOpen{EndKeyOpen: []byte(key)}
	}
	for _, test := range []struct {
		r    *bigtablepb.RowRange
		want string // empty for an error
	}{
		{&bigtablepb.RowRange{}, ":"},
		{&bigtablepb.RowRange{StartKey: closed("a"), EndKey: open("b")}, "a:b"},
		{&bigtablepb.RowRange{StartKey: closed("a"), EndKey: open("")}, "a:"},
		{nil, ""},
		{&bigtablepb.RowRange{StartKey: closed("b"), EndKey: open("b")}, ""},
		{&bigtablepb.RowRange{StartKey: &bigtablepb.RowRange_StartKeyOpen{StartKeyOpen: []byte("a")}}, ""},
		{&bigtablepb.RowRange{EndKey: &bigtablepb.RowRange_EndKeyClosed{EndKeyClosed: []byte("b")}}, ""},
	} {
		p, err := partitionOf(&bigtablepb.StreamPartition{RowRange: test.r})
		if got := text([]Partition{p}); (err == nil) != (test.want != "") || err == nil && got != test.want {
			t.Errorf("%v: got %s, %v", test.r, got, err)
		}
	}
}

// TestLayout splits and merges, and looks for partitions by range and by key.
func TestLayout(t *testing.T) {
	l := newLayout([]string{"m", "d", "m"})
	apply := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	shows := func(want string) {
		t.Helper()
		if got := text(l.partitions()); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
		for i, p := range l.partitions() {
			if l.owner(p.Start) != i || p.End != "" && l.owner(p.End) != i+1 {
				t.Errorf("%v: its keys are found elsewhere", p)
			}
		}
	}
	shows(":d d:m m:")
	first, second, third := l.id(l.at(0)), l.id(l.at(1)), l.id(l.at(2))
	apply(l.split("g"))
	shows(":d d:g g:m m:")
	if l.id(l.at(0)) != first || l.id(l.at(3)) != third {
		t.Error("a split changes other partitions")
	}
	if l.id(Partition{Start: "d", End: "m"}) != 0 {
		t.Error("a partition that was split is found")
	}
	apply(l.merge("g"))
	shows(":d d:m m:")
	if l.id(l.at(1)) == second || l.id(l.at(1)) == 0 {
		t.Error("after a split and a merge the partition is the same")
	}
	apply(l.merge("d"))
	shows(":m m:")
	for _, key := range []string{"", "a", "z", "d"} {
		if l.merge(key) == nil {
			t.Errorf("merged at %q", key)
		}
	}
	for _, key := range []string{"", "m"} {
		if l.split(key) == nil {
			t.Errorf("split at %q", key)
		}
	}
	shows(":m m:")
}

// TestPieces divides a range in the way of the example in the API's documentation.
func TestPieces(t *testing.T) {
	l := newLayout([]string{"A", "C", "E"})
	for _, test := range []struct{ of, want string }{
		{"B:D", "B:C of A:C, C:D of C:E"},
		{"A:C", "A:C of A:C"},
		{"D:", "D:E of C:E, E: of E:"},
		{":", ":A of :A, A:C of A:C, C:E of C:E, E: of E:"},
	} {
		var words []string
		for _, p := range l.pieces(ranges(test.of)[0]) {
			words = append(words, fmt.Sprintf("%s of %s", text([]Partition{p.part}), text([]Partition{p.of})))
		}
		if got := strings.Join(words, ", "); got != test.want {
			t.Errorf("%s: got %s, want %s", test.of, got, test.want)
		}
	}
}
