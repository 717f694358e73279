package desk

import (
	"fmt"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// NotStarted returns the error for a table that the ledger does not know, or for the migration if
// table is "".
func (m *Migration) NotStarted(table string) error {
	what, cause := "the migration is ", "no ledger with the name "+m.cfg.Name+" is in table "+m.cfg.State.Table
	if table != "" {
		what = "table " + table + " is "
	}
	if m.Ledger != nil {
		cause = "it has no record in ledger " + m.cfg.Name + " of table " + m.cfg.State.Table
	}
	fix := "start the workers: replicator run"
	if m.needs.Hint != "" {
		fix = m.needs.Hint
	}
	return &diag.Error{Code: m.needs.Begun, What: what + terminal.NotStarted, Cause: cause, Fix: fix + m.request.With}
}

// refused returns the beginning of a refusal for a table, or for the migration if table is "".
func (m *Migration) refused(table string) string {
	of := m.cfg.Name
	if table != "" {
		of = "table " + table
	}
	return "cannot " + fmt.Sprintf(m.needs.Does, of)
}

// of names the group of a cutover, if there are several.
func (m *Migration) of(c *checkpoint.Cutover) string {
	if c.Row == "" {
		return ""
	}
	return " of " + c.Row
}

// early refuses a command if a cutover has passed the last stage in which the command is allowed.
func (m *Migration) early(c *checkpoint.Cutover) error {
	step := c.Step
	unfrozen := step == checkpoint.CutoverRequested || step == checkpoint.CutoverChecks
	switch {
	case m.needs.Cutover == BeforeSwitch, step.Over(), unfrozen && m.needs.Cutover == BeforeFreeze:
		return nil
	}
	fix := "wait for its end: replicator cutover status" + m.request.With
	if step.Cancellable() {
		fix = "replicator cutover cancel" + m.request.With + ", or wait for its end"
	}
	return &diag.Error{Code: diag.CutoverRefused, What: m.refused(m.request.Table), Cause: "a cutover" + m.of(c) + " is running, at step " + string(step), Fix: fix}
}
