package standing

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// NextStep is a command that leads on, and why, as every document shows it.
type NextStep struct {
	Command string `json:"command"`
	Why     string `json:"why"`
}

// Command is a command of this program as it can be typed: with its first word, with the table in
// "--table TABLE", and behind it the flags by which it finds the same configuration.
func Command(command, table, flags string) string {
	return "replicator " + strings.Replace(command, "--table TABLE", "--table "+table, 1) + flags
}

// WriteNext writes next steps for people, one line each; nothing if there are none. The error is the
// writer's.
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
