package config

import (
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// written is how a value stands in the file, so that what is wrong within it has a place.
type written struct {
	at    diag.Position
	style yaml.Style
	text  string
	lines []string // of the file, from the value's on
}

// place is where a text begins of which so many bytes are before the offset. What cannot be told, because the text stands in the file in
// another form than it has (folded, with escapes or variables), is where the value begins.
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

// inBlock is the place behind a part of a block, whose lines follow that of its sign, indented.
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

// line is a line of the file, counted from the value's.
func (w written) line(n int) string {
	if n >= len(w.lines) {
		return ""
	}
	return strings.TrimSuffix(w.lines[n], "\r")
}
