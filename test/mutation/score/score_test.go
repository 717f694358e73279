package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestInstrument plants each kind of bug in a text that keeps its line numbers.
func TestInstrument(t *testing.T) {
	const source = `package p

type pair struct{ a int }

func f(list []int, x, y int) (bool, error) {
	for _, v := range list {
		if v > 1 && x < y {
			continue
		}
		x += g(x)
	}
	g(pair{a: x}.a)
	return x == y, e
}

var e error

func g(a int) int { return a }
`
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "p.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := load(listed{ImportPath: "p", Dir: dir, GoFiles: []string{"p.go"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	files[0].first = 1
	text := string(files[0].instrument())
	for _, want := range []string{
		`package p; import "github.com/dynamodb-bigtable/replicator/test/mutation/score/byrule"`,
		"if byrule.Is(3, true, byrule.Is(4, false, byrule.Is(5, true, !byrule.LessEqual(7, v, byrule.Plus[int](8, 1))) && byrule.Is(6, true, byrule.Less(9, x, y)))) {",
		"if byrule.Kept(10) { continue }",
		"if byrule.Kept(2) { x += g(x) }",
		"if byrule.Kept(1) { g(pair{a: byrule.Zero(11, x)}.a) }",
		"return byrule.Not(12, x == y), byrule.Err(13, e)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("missing: %s\n%s", want, text)
		}
	}
}

func TestAPackageBuildsWithItsBugs(t *testing.T) {
	overlay, sites, err := instrument("../../..", t.TempDir(), "expression")
	if err != nil || len(sites) < 100 {
		t.Fatalf("%d sites: %v", len(sites), err)
	}
	c := exec.Command("go", "build", "-overlay", overlay, "./expression")
	c.Dir = "../../.."
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	// The sample of a package stays the same when its other code changes.
	drawn := draw(sites, 20, 1)
	slices.Reverse(sites)
	if again := draw(sites, 20, 1); len(drawn) != 20 || again[0].text() != drawn[0].text() || again[19].text() != drawn[19].text() {
		t.Errorf("%v and %v", drawn, again)
	}
}
