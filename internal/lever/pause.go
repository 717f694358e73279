// Package lever is what an operator does to a running migration at once, from any machine and
// through the ledger alone: every worker reads it within seconds, and it survives their restarts.
package lever

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// schemaName names the form of the document.
const schemaName = "replicator.pause/v1"

// mostReason is how many bytes of a reason are kept.
const mostReason = 200

// Document is where a table stands after the command.
type Document struct {
	Schema string     `json:"schema"`
	Table  string     `json:"table"`
	Paused bool       `json:"paused"`
	Since  *time.Time `json:"since"`  // null unless it is paused
	Reason *string    `json:"reason"` // null if none was given
}

// Operator is somebody at a machine who pauses a table, or lets it go on.
type Operator struct {
	*terminal.Console
	Cfg     *config.Config
	Allowed config.Allowed
	With    string // flags of the commands that are named
	Table   string
	Reason  string
}

// Pause lets the table stand still: no worker reads its stream, copies, sweeps or verifies it.
func (o *Operator) Pause(ctx context.Context) error {
	if len(o.Reason) > mostReason {
		return diag.BadUsage(fmt.Sprintf("--reason has %d bytes", len(o.Reason)), fmt.Sprintf("give at most %d: it is kept in the ledger and shown by status", mostReason))
	}
	return o.pull(ctx, func(ctx context.Context, ledger *checkpoint.Ledger) (checkpoint.TableState, error) {
		c, err := ledger.Cutover(ctx)
		if err != nil {
			return checkpoint.TableState{}, err
		}
		if c.Step.Active() {
			return checkpoint.TableState{}, &diag.Error{Code: diag.CutoverRefused, What: "table " + o.Table + " cannot be paused", Cause: "a cutover is under way: " + string(c.Step),
				Fix: "replicator cutover cancel" + o.With + ", or wait for its end"}
		}
		return ledger.PauseTable(ctx, o.Table, o.Reason, time.Now())
	})
}

// Resume lets the table go on from its checkpoints.
func (o *Operator) Resume(ctx context.Context) error {
	return o.pull(ctx, func(ctx context.Context, ledger *checkpoint.Ledger) (checkpoint.TableState, error) {
		return ledger.ResumeTable(ctx, o.Table)
	})
}

// pull changes the record of a table that a migration knows, and shows what it is then.
func (o *Operator) pull(ctx context.Context, change func(context.Context, *checkpoint.Ledger) (checkpoint.TableState, error)) error {
	if o.Table == "" {
		return diag.BadUsage("a table is paused and resumed by name", "add --table TABLE")
	}
	if err := preflight.KnownTable(o.Cfg, o.Table); err != nil {
		return err
	}
	if err := config.CheckEnvironment(o.Env, o.Allowed).Err(); err != nil {
		return err
	}
	t, err := preflight.OpenTarget(ctx, o.Cfg)
	if err != nil {
		return err
	}
	defer func() { _ = t.Close() }()
	ctx, cancel := context.WithTimeoutCause(ctx, preflight.ReadTime, preflight.ErrReadTime)
	defer cancel()
	state, err := o.change(ctx, t, change)
	if err != nil {
		return err
	}
	return o.write(state)
}

func (o *Operator) change(ctx context.Context, t *preflight.Target, change func(context.Context, *checkpoint.Ledger) (checkpoint.TableState, error)) (checkpoint.TableState, error) {
	what := "cannot change the record of table " + o.Table + " in table " + o.Cfg.State.Table
	ledger, err := preflight.OpenLedger(ctx, preflight.LedgerStore(t, o.Cfg), o.Cfg, "operator", "")
	found := false
	if ledger != nil {
		if err = preflight.SameCluster(ctx, ledger, t.Cluster); err != nil {
			return checkpoint.TableState{}, preflight.Explain(what, err)
		}
		_, found, err = ledger.Table(ctx, o.Table)
	}
	switch {
	case err != nil:
		return checkpoint.TableState{}, preflight.ReadingFailed(ctx, what, err)
	case !found:
		return checkpoint.TableState{}, &diag.Error{Code: diag.LoadRefused, What: "table " + o.Table + " is " + terminal.NotStarted, Cause: "no record of it is in ledger " + o.Cfg.Name + " of table " + o.Cfg.State.Table,
			Fix: "replicator run" + o.With + " begins it"}
	}
	state, err := change(ctx, ledger)
	if known := (*diag.Error)(nil); err == nil || errors.As(err, &known) {
		return state, err
	}
	return state, preflight.ReadingFailed(ctx, what, err)
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
	text := o.Table + ": goes on from its checkpoints, within seconds"
	if d.Paused {
		text = fmt.Sprintf("%s: paused since %s; workers stop within seconds. Its stream keeps changes for 24 hours only: replicator resume --table %s%s", o.Table, d.Since.Format(time.RFC3339), o.Table, o.With)
	}
	_, err := fmt.Fprintln(o.Stdout, text)
	return err
}
