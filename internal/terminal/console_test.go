package terminal

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
)

func TestWrap(t *testing.T) {
	text := "one two\nthree four\n\nsuch as:\n  an example that stays\n\nEnde gut, alles gut, größer"
	for width, want := range map[int]string{
		0:  text,
		14: "one two three\nfour\n\nsuch as:\n  an example that stays\n\nEnde gut,\nalles gut,\ngrößer",
		3:  "one\ntwo\nthree\nfour\n\nsuch as:\n  an example that stays\n\nEnde\ngut,\nalles\ngut,\ngrößer",
	} {
		if got := Wrap(text, width); got != want {
			t.Errorf("%d: %q, want %q", width, got, want)
		}
	}
}

// Verdicts are coloured on a terminal, unless colours are disabled, and nowhere else.
func TestShow(t *testing.T) {
	const text = "error R1204: cannot read\nTABLE   VERIFY\nOrders  clean, 4m ago\nBills   2 rows differ\n✓ copy\nnot ready: 1 check fails\n"
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pty.Close()
	for name, c := range map[string]struct {
		to      io.Writer
		env     string
		noColor bool
		want    bool
	}{
		"a terminal":          {to: pty, want: true},
		"NO_COLOR":            {to: pty, env: "1"},
		"--no-color":          {to: pty, noColor: true},
		"what is no terminal": {to: &bytes.Buffer{}},
	} {
		console := &Console{NoColor: c.noColor, Env: func(string) (string, bool) { return c.env, c.env != "" }}
		if got := console.Colored(c.to); got != c.want {
			t.Errorf("%s: coloured: %t", name, got)
		}
	}
	var out bytes.Buffer
	console := &Console{Env: func(string) (string, bool) { return "", false }}
	if err := console.Show(&out, func(w io.Writer) error { _, err := io.WriteString(w, text); return err }); err != nil || out.String() != text {
		t.Errorf("%v: %q", err, out.String())
	}
	// External data in a document cannot control the terminal, neither in text nor in JSON, which
	// stays equal.
	out.Reset()
	console.Stdout = &out
	if err := console.Show(&out, func(w io.Writer) error { _, err := io.WriteString(w, "a\x1b[2J\u009b\rb\n"); return err }); err != nil || out.String() != `a\x1b[2J\u009b\rb`+"\n" {
		t.Errorf("%v: %q", err, out.String())
	}
	out.Reset()
	if err := console.WriteJSON("a\u009b\x7f<"); err != nil || out.String() != `"a\u009b\u007f<"`+"\n" {
		t.Errorf("%v: %q", err, out.String())
	}
	painted := string(Paint([]byte(text)))
	for _, want := range []string{"\x1b[31merror R1204\x1b[0m: cannot", "\x1b[32mclean\x1b[0m, 4m ago", "\x1b[31m2 rows differ\x1b[0m\n", "\x1b[32m✓\x1b[0m copy", "\x1b[31mnot ready\x1b[0m:"} {
		if !strings.Contains(painted, want) {
			t.Errorf("no %q in %q", want, painted)
		}
	}
}
