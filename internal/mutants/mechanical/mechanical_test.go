package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestInstrumented: each operator, in a text that otherwise stays as it is.
func TestInstrumented(t *testing.T) {
	const source = `package p

import "time"

type pair struct {
	a int
	b time.Duration
}

func f(list []int, x, y int, at, now time.Time) (bool, error) {
	for _, v := range list {
		if v > 1 && x < y {
			continue
		}
		x += g(x, y)
	}
	h()
	now = now.Add(time.Hour)
	_ = pair{a: min(x, y)}
	return at.Before(now), e
}

var e error

func g(a, b int) int { return a }
func h() {}
`
	dir := t.TempDir()
	name := filepath.Join(dir, "p.go")
	if err := os.WriteFile(name, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "list", "-export", "-f", "{{.Export}}", "time").Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := load(listed{ImportPath: "p", Dir: dir, GoFiles: []string{"p.go"}}, map[string]listed{"time": {Export: strings.TrimSpace(string(out))}})
	if err != nil {
		t.Fatal(err)
	}
	files[0].first = 1
	text := string(files[0].instrument())
	for _, want := range []string{
		`package p; import "github.com/dynamodb-bigtable/replicator/internal/mutants/mechanical/planted"`,
		"if planted.Early(1) { h() }; for _, v := range planted.Most(5, list) {",
		"if planted.Is(8, true, planted.Is(9, false, planted.Is(10, true, !planted.LessEqual(12, v, planted.Plus[int](13, planted.Plus[int](14, 1, -1), 1))) && planted.Is(11, true, planted.Less(15, x, y)))) {",
		"{ continue }",
		"if planted.Kept(6) { if planted.Kept(7) { x += g(planted.Either(17, x, y), planted.Either(17, y, x)) } }",
		"planted.Plus[time.Duration](19, time.Hour, time.Hour), -(time.Hour)/2))",
		"_ = pair{a: planted.Zero(20, planted.Min(21, x, y))}",
		"return planted.Not(22, planted.Before(24, at, now)), planted.Err(23, e)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("missing: %s", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
	if lines := strings.Count(text, "\n"); lines != strings.Count(source, "\n") {
		t.Errorf("%d lines", lines)
	}
}

// TestPlantedPackageBuilds: what comes of a whole package compiles.
func TestPlantedPackageBuilds(t *testing.T) {
	overlay, points, err := plant("../../..", t.TempDir(), []string{"checkpoint"})
	if err != nil {
		t.Fatal(err)
	}
	if len(points) < 500 {
		t.Errorf("%d points", len(points))
	}
	c := exec.Command("go", "build", "-overlay", overlay, "./checkpoint")
	c.Dir = "../../.."
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
