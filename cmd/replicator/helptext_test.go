package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// listed returns the commands that the help lists.
func listed() (out []*cobra.Command) {
	for _, c := range all(newRoot(process())) {
		if hasPage(c) && (!c.HasParent() || c.Parent().Name() != "completion") {
			out = append(out, c)
		}
	}
	return out
}

// A help begins with a summary of at most two lines, and no paragraph has more than four, in a
// terminal of 80 columns.
func TestHelpIsShort(t *testing.T) {
	for _, c := range listed() {
		for i, paragraph := range strings.Split(strings.TrimSpace(c.Long), "\n\n") {
			most := 4
			if i == 0 {
				most = 2
			}
			if strings.HasPrefix(paragraph, " ") { // a list, or an example
				continue
			}
			if n := strings.Count(terminal.Wrap(paragraph, helpWidth), "\n") + 1; n > most {
				t.Errorf("%s: %d lines, at most %d: %s", c.CommandPath(), n, most, paragraph)
			}
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if n := len(strings.Fields(f.Usage)); n > 20 {
				t.Errorf("%s --%s: %d words: %s", c.CommandPath(), f.Name, n, f.Usage)
			}
		})
	}
}

// A help is as wide as its terminal, except for examples, and 80 columns wide without a terminal.
func TestHelpFitsItsTerminal(t *testing.T) {
	for _, c := range listed() {
		for width, most := range map[int]int{0: helpWidth, 80: 80, 120: 120} {
			var out bytes.Buffer
			writeHelp(&out, c, width)
			for line := range strings.Lines(strings.Replace(out.String(), c.Example, "", 1)) {
				line = strings.TrimSuffix(line, "\n")
				if one := !strings.Contains(strings.TrimSpace(line), " "); utf8.RuneCountInString(line) > most && !one {
					t.Errorf("%s at %d columns: %s", c.CommandPath(), width, line)
				}
			}
		}
	}
}

// Every command has an example that fits a narrow terminal, and its usage wraps at any width.
func TestHelpHasExamples(t *testing.T) {
	for _, c := range listed() {
		if !c.HasExample() && c.HasParent() {
			t.Errorf("%s has no example", c.CommandPath())
		}
		for line := range strings.Lines(c.Example) {
			if line = strings.TrimSuffix(line, "\n"); utf8.RuneCountInString(line) > 78 {
				t.Errorf("%s: %d columns: %s", c.CommandPath(), utf8.RuneCountInString(line), line)
			}
		}
		var out bytes.Buffer
		writeHelp(&out, c, 40)
		_, usage, _ := strings.Cut(out.String(), "\nUsage: ")
		usage, _, _ = strings.Cut(usage, "\n\n")
		for line := range strings.Lines("Usage: " + usage) {
			if line = strings.TrimSuffix(line, "\n"); utf8.RuneCountInString(line) > 40 && strings.Contains(strings.TrimSpace(line), " ") {
				t.Errorf("%s at 40 columns: %s", c.CommandPath(), line)
			}
		}
	}
}

// unclear matches words that readers of the help had to read twice.
var unclear = regexp.MustCompile(`(?i)\b(what is ours|nobody's|somebody|of before|goes on|go on|going on|stands?|stood|is told|tells?|told|mends?|mended|of late|is meant|could be had|let alone|led|keeper)\b`)

// No help contains these words.
func TestHelpIsClear(t *testing.T) {
	for _, c := range listed() {
		var out bytes.Buffer
		writeHelp(&out, c, 0)
		for line := range strings.Lines(out.String()) {
			if found := unclear.FindString(line); found != "" {
				t.Errorf("%s: %q in %s", c.CommandPath(), found, strings.TrimSpace(line))
			}
		}
	}
}
