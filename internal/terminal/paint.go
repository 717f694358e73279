package terminal

import (
	"bytes"
	"io"
	"regexp"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// Colours of a terminal.
// Source of the sequences: ECMA-48, SGR (select graphic rendition).
const (
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	red    = "\x1b[31m"
	plain  = "\x1b[0m"
)

// verdicts are the words for states that are coloured. The words are also clear without colours.
var verdicts = []struct {
	words *regexp.Regexp
	color string
}{
	{regexp.MustCompile(`(?m)^(?:✓|ready$|source and target are identical)|\b(?:clean|in sync)\b`), green},
	{regexp.MustCompile(`(?m)^(?:✗|error R\d{4}|not ready|source and target differ)|\b\d+ (?:rows?|examples?)(?: of a sample)? differs?\b|\bneeds a load\b|\bgap\b`), red},
	{regexp.MustCompile(`(?m)^(?:\?|!|warning R\d{4})|\b(?:Throttled|Trouble|Old|Waiting):|\bis paused\b`), yellow},
}

// Paint colours the verdicts in a text. Lines keep their width, so tables stay aligned.
func Paint(text []byte) []byte {
	for _, v := range verdicts {
		text = v.words.ReplaceAll(text, []byte(v.color+"${0}"+plain))
	}
	return text
}

// Show writes the output of render. It escapes characters that a terminal would interpret, because
// a document contains foreign text. The output has colours if Colored allows them.
func (c *Console) Show(to io.Writer, render func(io.Writer) error) error {
	var text bytes.Buffer
	if err := render(&text); err != nil {
		return err
	}
	shown := []byte(diag.PrintableLines(text.String()))
	if c.Colored(to) {
		shown = Paint(shown)
	}
	_, err := to.Write(shown)
	return err
}
