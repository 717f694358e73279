package main

import (
	"bytes"
	"os"
	"testing"
)

// Colours are for the terminal that a text goes to: a file beside a terminal has none.
func TestColoursAreForTheWriter(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	file, err := os.Create(t.TempDir() + "/plan.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	environment := map[string]string{}
	p := &program{stdout: file, stderr: terminal, env: func(name string) (string, bool) { v, ok := environment[name]; return v, ok }}
	if !p.colored(terminal) || p.colored(file) || p.colored(&bytes.Buffer{}) {
		t.Error("a terminal has colours, and nothing else")
	}
	environment["NO_COLOR"] = "1"
	if p.colored(terminal) {
		t.Error("colours although somebody objects")
	}
}
