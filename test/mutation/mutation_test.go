package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestEachBugApplies: the removed text of each bug occurs once in the product, within a function.
// Each hazard that a bug names is in HAZARDS.md.
func TestEachBugApplies(t *testing.T) {
	all, err := load("planted")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../HAZARDS.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^(?:- )?\*\*([HI]\d+)\*\* `).FindAllStringSubmatch(string(text), -1) {
		known[row[1]] = true
	}
	dir := t.TempDir()
	for _, b := range all {
		for _, h := range b.hazards {
			if !known[h] {
				t.Error(b.errorf(b.line, "bug %q: HAZARDS.md has no %s", b.name, h))
			}
		}
		// One by one, so that each stale bug is named.
		if _, err := plant("../..", dir, []bug{b}); err != nil {
			t.Error(err)
		}
	}
}

const entry = `# a comment

bug: no hop
hazards: H11 I2
why: versions of a child do not order after its parent's
-	hop := s.Hop
-	return  hop
+	return 0

bug: no end
hazards: H17
why: the last page is lost
found: seed 12
-	if page.End {
+	if false {
`

func TestParse(t *testing.T) {
	all, err := parse("p.go.txt", "p.go", entry)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || all[0].name != "no hop" || all[0].old != "hop := s.Hop\n\treturn  hop" || all[0].new != "return 0" || all[0].seed != nil ||
		strings.Join(all[0].hazards, " ") != "H11 I2" || all[0].line != 3 || *all[1].seed != 12 || all[1].line != 10 {
		t.Errorf("%+v", all)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"bug: no hop\n", "", "p.go.txt:3: an entry without bug"},
		{"why: versions", "because: versions", "p.go.txt:5: \"because: versions of a child do not order after its parent's\" is no field here"},
		{"hazards: H11 I2\n", "", "an entry without hazards"},
		{"H11 I2", "H11, I2", `p.go.txt:3: "H11," is no number of a hazard`},
		{"found: seed 12", "found: by tests", `p.go.txt:13: found by "by tests"`},
		{"+\tif false", "+\tif page.End", "p.go.txt:10: what comes is what goes"},
		{"-\thop := s.Hop\n-\treturn  hop\n", "", "p.go.txt:6: \"+\\treturn 0\" is no field here"},
		{"+\treturn 0", "+\treturn 0\n-\tx", "lines that go begin with -"},
		{"+\treturn 0", "# none", "p.go.txt:8: a comment within an entry"},
		{entry, "# nothing\n", "no bug is planted"},
	} {
		if _, err := parse("p.go.txt", "p.go", strings.Replace(entry, c.old, c.new, 1)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q in place of %q: %v, want %q", c.new, c.old, err, c.want)
		}
	}
}

func TestSeedsAreWritten(t *testing.T) {
	all, err := parse("p.go.txt", "p.go", entry)
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(7)
	all[0].seed, *all[1].seed = &seed, 9
	want := strings.Replace(strings.Replace(entry, "seed 12", "seed 9", 1), "parent's\n", "parent's\nfound: seed 7\n", 1)
	if got := withSeeds(entry, all); got != want {
		t.Error(got)
	}
}

func TestPlantFile(t *testing.T) {
	const source = `package p

func (r *reader) read(at int, more ...int) (int, error) {
	return at + 1, nil
}

func _(int) { unreachable() }
`
	b := bug{name: "one too many", file: "p.go", old: "at + 1", new: "at + 2", text: "p.go.txt", line: 4}
	got, name, err := plantFile("p.go", []byte(source), []bug{b}, []int{0})
	want := strings.Replace(source, "error) {\n", "error) { if plantedBug == 1 { return r.read__bug1(at, more...) };\n", 1) + `
// p.go.txt:4
func (r *reader) read__bug1(at int, more ...int) (int, error) {
	return at + 2, nil
}
`
	if err != nil || name != "p" || string(got) != want {
		t.Errorf("%v %s %s", err, name, got)
	}
	for old, want := range map[string]string{
		"int":         "occurs 4 times in p.go",
		"package p":   "is not within the body of one function",
		"unreachable": "a parameter or a receiver without a name",
	} {
		b.old = old
		if _, _, err := plantFile("p.go", []byte(source), []bug{b}, []int{0}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", old, err, want)
		}
	}
}

func TestChosen(t *testing.T) {
	all := []bug{{name: "a", file: "sink/guard.go"}, {name: "b", file: "cdc/reader.go"}, {name: "c", file: "sink/guard.go"}, {name: "d", file: "cdc/shard.go"}}
	for _, c := range []struct {
		o    options
		want string
	}{
		{options{}, "abcd"},
		{options{files: "sink/guard.go README.md"}, "ac"},
		{options{files: "README.md"}, ""},
		{options{share: "1/3"}, "b"},
		{options{share: "0/3"}, "ad"},
		{options{files: "sink/guard.go", share: "1/3"}, "abc"},
	} {
		chosen, err := c.o.chosen(all)
		names := ""
		for _, b := range chosen {
			names += b.name
		}
		if err != nil || names != c.want {
			t.Errorf("%+v: %s, wanted %s (%v)", c.o, names, c.want, err)
		}
	}
	for _, share := range []string{"3", "3/3", "-1/3", "x/y"} {
		if _, err := (options{share: share}).chosen(all); err == nil {
			t.Errorf("-share %s is taken", share)
		}
	}
}
