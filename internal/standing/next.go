package standing

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// NextStep is a command to run next, with the reason. All documents show next steps in this form.
type NextStep struct {
	Command string `json:"command"`
	Why     string `json:"why"`
}

// Command returns a complete command line. It adds the word replicator in front, replaces the
// word TABLE after another word, and appends the flags that name the configuration.
func Command(command, table, flags string) string {
	return "replicator " + strings.Replace(command, " TABLE", " "+table, 1) + flags
}

// Quote returns a name as one word of a command line.
func Quote(name string) string {
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("_-.", c)
	}
	if name != "" && strings.IndexFunc(name, func(c rune) bool { return !plain(c) }) < 0 {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}

// WriteNext writes next steps as text, one line each. It returns the error of the writer.
func WriteNext(w io.Writer, steps []NextStep) error {
	if len(steps) == 0 {
		return nil
	}
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(tab, "\nNext:")
	for _, step := range steps {
		_, _ = fmt.Fprintf(tab, "  %s\t%s\n", step.Command, step.Why)
	}
	return tab.Flush()
}
