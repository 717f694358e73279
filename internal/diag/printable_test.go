package diag

import (
	"bytes"
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

func TestPrintable(t *testing.T) {
	for text, want := range map[string][3]string{ // on one line, on several lines, quoted
		"":                     {"", "", `""`},
		"größer 語 🎩":           {"größer 語 🎩", "größer 語 🎩", "größer 語 🎩"},
		`a\x1b"b`:              {`a\x1b"b`, `a\x1b"b`, `a\x1b"b`},
		"\x1b[2J":              {`\x1b[2J`, `\x1b[2J`, `"\x1b[2J"`},
		"\u009b2J\x7f":         {`\u009b2J\x7f`, `\u009b2J\x7f`, `"\u009b2J\x7f"`},
		"a\n\tb\r":             {`a\n\tb\r`, "a\n\tb" + `\r`, `"a\n\tb\r"`},
		"\u202eknil\u2028\x00": {`\u202eknil\u2028\x00`, `\u202eknil\u2028\x00`, `"\u202eknil\u2028\x00"`},
		"\xff\ufffd":           {`\xff` + "\ufffd", `\xff` + "\ufffd", `"\xff` + "\ufffd" + `"`},
	} {
		if got := [3]string{Printable(text), PrintableLines(text), Quoted(text)}; got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// Text for programs stays equal, and contains nothing that controls a terminal.
func TestPrintableJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text") + rapid.SampledFrom([]string{"", "\x1b[2J", "\u009b", "\x7f", "\u2028", "\U000e0001", "\r\n\t"}).Draw(t, "hostile")
		var out bytes.Buffer
		encoder := json.NewEncoder(PrintableJSON(&out))
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode([]string{text}); err != nil {
			t.Fatal(err)
		}
		if PrintableLines(out.String()) != out.String() {
			t.Errorf("%q", out.String())
		}
		var back []string
		if err := json.Unmarshal(out.Bytes(), &back); err != nil || len(back) != 1 || back[0] != text {
			t.Errorf("%q came back as %q, %v", text, back, err)
		}
	})
}
