package hook

import "strings"

// most is the maximum number of bytes of an output that are kept.
const most = 4 << 10

// tail is a writer that keeps the end of the text that is written to it.
type tail struct {
	kept []byte
	cut  bool
}

// Write implements io.Writer. It never fails and never waits, so a hook with much output is not
// delayed.
func (t *tail) Write(text []byte) (int, error) {
	n := len(text)
	if n > most {
		text, t.cut = text[n-most:], true
	}
	if over := len(t.kept) + len(text) - most; over > 0 {
		t.kept, t.cut = append(t.kept[:0], t.kept[over:]...), true
	}
	t.kept = append(t.kept, text...)
	return n, nil
}

// lastLine returns the last non-empty line of a text, shortened to 300 bytes.
func lastLine(text string) string {
	const longest = 300
	text = strings.TrimSpace(text)
	text = strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return text
}

// String returns the text, without characters that a terminal would interpret.
func (t *tail) String() string {
	text := strings.ToValidUTF8(string(t.kept), "�")
	text = strings.TrimSpace(strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (r < ' ' || r >= 0x7f && r < 0xa0) {
			return -1
		}
		return r
	}, text))
	if t.cut {
		text = "…" + text
	}
	return text
}
