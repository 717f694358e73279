package deadletter

import (
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/apply"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// leastRef is the least number of digits of a reference. The digits must identify one message.
const leastRef = 8

// Selection selects the messages for a command.
type Selection struct {
	Refs  []string // positional arguments
	Table string
	State string // fate of the selected messages
	All   bool
}

var states = []string{string(apply.Missing), string(apply.Applied), string(apply.Refused), string(apply.Foreign)}

// Check refuses selections that are contradictory or empty. So a command without arguments never
// drops all messages.
func (s *Selection) Check(command string) error {
	switch named := len(s.Refs) > 0; {
	case s.State != "" && !slices.Contains(states, s.State):
		return diag.BadUsage("--state "+s.State+" is not a state", "write one of "+strings.Join(states, ", "))
	case !named && !s.All && s.State == "":
		return diag.BadUsage(command+" needs the messages to work on", "name them as `replicator relay dead-letter list` shows them, or give --state or --all")
	case named && (s.All || s.State != ""):
		return diag.BadUsage("references, and --all or --state exclude each other", "give one of them")
	}
	return nil
}

// find returns the selected messages. Each named reference must match exactly one message.
func (s *Selection) find(all []*entry) ([]*entry, error) {
	var found []*entry
	for _, e := range all {
		named := len(s.Refs) == 0 || slices.ContainsFunc(s.Refs, func(word string) bool { return names(word, e) })
		if named && (s.Table == "" || e.Table == s.Table) && (s.State == "" || string(e.State) == s.State) {
			found = append(found, e)
		}
	}
	for _, word := range s.Refs {
		n := 0
		for _, e := range found {
			if names(word, e) {
				n++
			}
		}
		switch {
		case n == 0:
			return nil, &diag.Error{Code: diag.Usage, What: "no message has the reference " + word, Cause: "another command may have dropped it, or another reader holds it",
				Fix: "take one from `replicator relay dead-letter list`", Exit: diag.ExitNo}
		case n > 1:
			return nil, diag.BadUsage("several messages begin with "+word, "give more digits")
		}
	}
	return found, nil
}

func names(word string, e *entry) bool {
	return len(word) >= leastRef && strings.HasPrefix(e.Ref, word)
}
