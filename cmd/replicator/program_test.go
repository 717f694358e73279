package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// Colours go only to a terminal: a file beside a terminal gets none.
func TestColoursAreForTheWriter(t *testing.T) {
	tty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	file, err := os.Create(t.TempDir() + "/plan.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	environment := map[string]string{}
	p := &program{Console: terminal.Console{Stdout: file, Stderr: tty, Env: func(name string) (string, bool) { v, ok := environment[name]; return v, ok }}}
	if !p.Colored(tty) || p.Colored(file) || p.Colored(&bytes.Buffer{}) {
		t.Error("a terminal has colours, and nothing else")
	}
	environment["NO_COLOR"] = "1"
	if p.Colored(tty) {
		t.Error("colours although somebody objects")
	}
}
