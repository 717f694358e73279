package architecture

import (
	"flag"
	"fmt"
	"go/doc"
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the map of ARCHITECTURE.md")

// mostMapped is the maximum length of a package's duty in the map, in bytes.
const mostMapped = 64

// TestMapIsGenerated: the map of ARCHITECTURE.md has each package with the first sentence of its
// doc comment. A stranger must understand that sentence alone. go test ./test/architecture -run
// MapIsGenerated -update writes the map.
func TestMapIsGenerated(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", "{{.ImportPath}}\t{{.Doc}}", module+"/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for line := range strings.Lines(string(out)) {
		name, comment, _ := strings.Cut(strings.TrimSpace(line), "\t")
		name = strings.TrimPrefix(name, module+"/")
		if unmapped(name) {
			continue
		}
		duty := new(doc.Package).Synopsis(comment)
		for _, word := range []string{"Package ", "Command ", path.Base(name) + " ", strings.ToUpper(path.Base(name)[:1]) + path.Base(name)[1:] + " "} {
			duty = strings.TrimPrefix(duty, word)
		}
		duty = strings.TrimRight(duty, ".:")
		if duty == "" || len(duty) > mostMapped {
			t.Errorf("%s: the first sentence of the doc comment says the duty of the package in 1 to %d bytes, not %d: %q", name, mostMapped, len(duty), duty)
		}
		fmt.Fprintf(&lines, "%-20s %s\n", name, duty)
	}
	const begin, end = "## Map\n\n```\n", "```\n"
	text := document(t, "ARCHITECTURE.md")
	before, rest, found := strings.Cut(text, begin)
	was, after, closed := strings.Cut(rest, end)
	switch {
	case !found || !closed:
		t.Fatal("ARCHITECTURE.md has no map")
	case was == lines.String():
	case *update:
		if err := os.WriteFile("../../ARCHITECTURE.md", []byte(before+begin+lines.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Error("the map of ARCHITECTURE.md is not what the doc comments say: run go test ./test/architecture -run MapIsGenerated -update")
	}
}

// unmapped reports whether a package is left out: programs that measure or prove, packages for
// tests, and examples.
func unmapped(name string) bool {
	first, _, nested := strings.Cut(name, "/")
	return name == "test/kit" || name == "test/known" || first == "bench" || first == "examples" || strings.HasSuffix(name, "test") && name != "dynamodbtest" && !strings.HasPrefix(name, "internal/") ||
		first == "test" && nested && strings.Count(name, "/") > 1
}
