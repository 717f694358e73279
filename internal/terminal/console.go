package terminal

import (
	"strings"
	"time"
	"unicode/utf8"

	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// Console holds the outputs of a command and their format.
type Console struct {
	Stdout, Stderr io.Writer
	Env            config.Lookup
	Output         string // text or json
	NoColor        bool
}

// Signalled is the cause of a context that a signal ended.
type Signalled struct{ os.Signal }

func (s Signalled) Error() string { return "received " + s.String() }

// Ended returns the error of a command after a signal or --timeout has ended its context.
func Ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	var s Signalled
	if errors.As(cause, &s) {
		return &diag.Error{Code: diag.Interrupted, What: "interrupted", Cause: cause.Error(), Err: cause}
	}
	return cause
}

// AsJSON reports whether the output is JSON.
func (c *Console) AsJSON() bool { return c.Output == "json" }

// WriteJSON writes one document to stdout.
func (c *Console) WriteJSON(document any) error {
	encoder := json.NewEncoder(diag.PrintableJSON(c.Stdout))
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(document)
}

// Colored reports whether text for people may have colours on a writer. The writer must be a
// terminal, and the user must not have disabled colours (no-color.org).
func (c *Console) Colored(to io.Writer) bool {
	if c.NoColor || terminal(to) == nil {
		return false
	}
	no, _ := c.Env("NO_COLOR")
	return no == ""
}

// terminal returns the file of a writer if that is a terminal, otherwise nil.
func terminal(w io.Writer) *os.File {
	if file, ok := w.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return file
	}
	return nil
}

// Width returns a function that returns stderr's width in characters; nil if stderr is not a
// terminal.
func (c *Console) Width() func() int {
	file := terminal(c.Stderr)
	if file == nil {
		return nil
	}
	return func() int {
		width, _, err := term.GetSize(int(file.Fd()))
		if err != nil {
			return 0
		}
		return width
	}
}

// Columns returns stdout's width in characters; 0 if stdout is not a terminal.
func (c *Console) Columns() int {
	if file := terminal(c.Stdout); file != nil {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil {
			return width
		}
	}
	return 0
}

// Wrap wraps the paragraphs of a text at the given width; 0 leaves them. Paragraphs with an
// indented line, such as examples, stay as they are.
func Wrap(text string, width int) string {
	if width <= 0 {
		return text
	}
	paragraphs := strings.Split(text, "\n\n")
	for i, paragraph := range paragraphs {
		if strings.HasPrefix(paragraph, " ") || strings.Contains(paragraph, "\n ") {
			continue
		}
		var b strings.Builder
		at := 0
		for _, word := range strings.Fields(paragraph) {
			n := utf8.RuneCountInString(word)
			switch {
			case at == 0:
			case at+1+n > width:
				b.WriteByte('\n')
				at = 0
			default:
				b.WriteByte(' ')
				at++
			}
			b.WriteString(word)
			at += n
		}
		paragraphs[i] = b.String()
	}
	return strings.Join(paragraphs, "\n\n")
}

// NotStarted is the text that is shown for a migration, a table, a load, a verify or a cutover that
// has not begun.
const NotStarted = "not started yet"

// Known returns a pointer to a value for a document. For the zero value, which means unknown, it
// returns nil.
func Known[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

// KnownTime returns a pointer to a time in UTC; nil for the zero time.
func KnownTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}

// Plural formats a count with its noun.
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Are formats a count with its noun and the verb "is" or "are": 1 row is, 2 rows are.
func Are(n int, noun string) string {
	if n == 1 {
		return "1 " + noun + " is"
	}
	return Plural(n, noun) + " are"
}

// RowsDiffer formats the number of differing rows: 1 row of T differs, 2 rows of T differ.
func RowsDiffer(n int, of string) string {
	if n == 1 {
		return "1 row of " + of + " differs"
	}
	return fmt.Sprintf("%d rows of %s differ", n, of)
}
