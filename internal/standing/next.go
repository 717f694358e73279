package standing

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// NextStep is a command to run next, and the reason, as every document shows it.
type NextStep struct {
	Command string `json:"command"`
	Why     string `json:"why"`
}

// Command returns a complete command line. It adds the first word, puts the table into "--table
// TABLE", and appends the flags by which the command finds the same configuration.
func Command(command, table, flags string) string {
	return "replicator " + strings.Replace(command, "--table TABLE", "--table "+table, 1) + flags
}

// WriteNext writes next steps for people, one line each, and nothing if there are none. The error
// comes from the writer.
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
