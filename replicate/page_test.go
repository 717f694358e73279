package replicate_test

import (
	"go/parser"
	"os"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/replicate"
)

// The page shows a program of the examples, which the compiler checks, and a configuration that New
// accepts. The program is short.
func TestPage(t *testing.T) {
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var blocks []string
	for _, rest := range strings.Split(read("../docs/how-to/use-as-a-library.md"), "```go\n")[1:] {
		block, _, _ := strings.Cut(rest, "```\n")
		blocks = append(blocks, block)
	}
	if len(blocks) != 2 {
		t.Fatalf("%d blocks of Go", len(blocks))
	}
	_, program, _ := strings.Cut(read("../examples/library/main.go"), "\n")
	if blocks[0] != program {
		t.Errorf("the page shows\n%s\nand examples/library is\n%s", blocks[0], program)
	}
	if n := strings.Count(program, "\n"); n > 40 {
		t.Errorf("the program has %d lines", n)
	}
	shown, tested := strings.TrimSpace(blocks[1]), read("page_test.go")
	if _, err := parser.ParseExpr(shown); err != nil {
		t.Errorf("%v in\n%s", err, shown)
	}
	if flat := strings.Join(strings.Fields(shown), " "); !strings.Contains(strings.Join(strings.Fields(tested), " "), flat) {
		t.Errorf("the configuration of the page is not that of this test: %s", flat)
	}
	if _, err := replicate.New(configuration(), replicate.AllowEmulators()); err != nil {
		t.Error(err)
	}
}

// configuration returns the configuration of the page.
func configuration() replicate.Config {
	return replicate.Config{
		YAML:   "version: 1\nverify: { every: 1m }",
		Target: replicate.Target{Project: "my-project", Instance: "my-instance"},
		Tables: []replicate.Table{{
			From:    "Orders",
			RowKey:  "{customer}#{order}",
			Columns: []replicate.Column{{Attribute: "total", To: "d:total", As: "float64"}, {Attribute: "*", To: "d"}},
			YAML:    "owned: true",
		}},
	}
}
