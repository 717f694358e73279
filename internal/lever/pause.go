// Package lever runs pause, resume and failover. These commands work from any machine. The commands
// only change the ledger, and every worker reads the ledger within seconds.
package lever

import (
	"context"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/environment"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// schemaName identifies the schema of the document.
const schemaName = "replicator.pause/v1"

// mostReason is the maximum length of a stored reason, in bytes.
const mostReason = 200

// Document is the state of a table after the command.
type Document struct {
	Schema string     `json:"schema"`
	Table  string     `json:"table"`
	Paused bool       `json:"paused"`
	Since  *time.Time `json:"since"`  // null if the table is not paused
	Reason *string    `json:"reason"` // null if no reason was given
}

// Operator runs a command that pauses or resumes a table.
type Operator struct {
	*terminal.Console
	Cfg     *config.Config
	Allowed environment.Allowed
	With    string // flags to append to commands in messages
	Table   string
	Reason  string
	Ends    desk.Ends
}

// Pause pauses the table. While the table is paused, no worker reads its stream, or copies, sweeps
// or verifies it.
func (o *Operator) Pause(ctx context.Context) error {
	if len(o.Reason) > mostReason {
		return diag.BadUsage(fmt.Sprintf("--reason has %d bytes", len(o.Reason)), fmt.Sprintf("give at most %d bytes: the ledger stores it, and status shows it", mostReason))
	}
	return o.pull(ctx, "pause", func(ctx context.Context, m *desk.Migration) (checkpoint.TableState, error) {
		return m.Ledger.PauseTable(ctx, o.Table, o.Reason, m.Now(ctx))
	})
}

// Resume makes the table continue from its checkpoints.
func (o *Operator) Resume(ctx context.Context) error {
	return o.pull(ctx, "resume", func(ctx context.Context, m *desk.Migration) (checkpoint.TableState, error) {
		return m.Ledger.ResumeTable(ctx, o.Table)
	})
}

// pull changes the record of a table that the ledger knows, and shows the result.
func (o *Operator) pull(ctx context.Context, command string, change func(context.Context, *desk.Migration) (checkpoint.TableState, error)) error {
	if o.Table == "" {
		return diag.BadUsage("pause and resume need the name of a table", "add --table TABLE")
	}
	m, err := o.Ends.Open(ctx, o.Console, o.Cfg, desk.Request{Command: command, Table: o.Table, Allowed: o.Allowed, With: o.With})
	if err != nil {
		return err
	}
	defer m.Close()
	ctx, cancel := preflight.Reading(ctx)
	defer cancel()
	_, found, err := m.Ledger.Table(ctx, o.Table)
	if err == nil && !found {
		return m.NotStarted(o.Table)
	}
	var state checkpoint.TableState
	if err == nil {
		state, err = change(ctx, m)
	}
	if err != nil {
		return preflight.ReadingFailed(ctx, "cannot change the record of table "+o.Table+" in table "+o.Cfg.State.Table, err)
	}
	return o.write(state)
}

func (o *Operator) write(s checkpoint.TableState) error {
	d := Document{Schema: schemaName, Table: o.Table, Paused: s.Paused()}
	if s.Paused() {
		since := s.Pause.Since.UTC()
		d.Since = &since
	}
	if s.Pause.Reason != "" {
		d.Reason = &s.Pause.Reason
	}
	if o.AsJSON() {
		return o.WriteJSON(d)
	}
	text := o.Table + ": resumed"
	if d.Paused {
		text = fmt.Sprintf("%s: paused since %s; workers stop within seconds. The stream keeps changes for only 24 hours; resume in time: replicator resume --table %s%s", o.Table, d.Since.Format(time.RFC3339), o.Table, o.With)
	}
	_, err := fmt.Fprintln(o.Stdout, text)
	return err
}
