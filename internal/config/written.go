package config

import (
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// written is the form of a value in the file, from which place derives positions within the value.
type written struct {
	at    diag.Position
	style yaml.Style
	text  string
	value string   // before variables are expanded
	lines []string // lines of the file, beginning with the value's line
}

// place returns the position of an offset within a value. If the file has the text in another form
// (folded, with escapes or variables), it returns the position of the value.
func (w written) place(offset int) diag.Position {
	before := w.text[:min(offset, len(w.text))]
	if w.style&yaml.LiteralStyle != 0 {
		return w.inBlock(before)
	}
	pos := w.at
	if w.style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
		pos.Column++
	}
	if line := []rune(w.line(0)); len(line) >= pos.Column && strings.HasPrefix(string(line[pos.Column-1:]), before) {
		pos.Column += utf8.RuneCountInString(before)
	}
	return pos
}

// inBlock returns the position after a given beginning of a block scalar. The indented lines of a
// block scalar follow the line of its indicator.
func (w written) inBlock(before string) diag.Position {
	number := strings.Count(before, "\n")
	line := strings.Split(w.text, "\n")[number]
	source := w.line(number + 1)
	if !strings.HasSuffix(source, line) {
		return w.at
	}
	indent := strings.TrimSuffix(source, line)
	within := before[strings.LastIndexByte(before, '\n')+1:]
	return diag.Position{File: w.at.File, Line: w.at.Line + number + 1, Column: utf8.RuneCountInString(indent+within) + 1}
}

// line returns a line of the file, counted from the value's line.
func (w written) line(n int) string {
	if n >= len(w.lines) {
		return ""
	}
	return strings.TrimSuffix(w.lines[n], "\r")
}
