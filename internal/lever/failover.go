package lever

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/failover"
	"github.com/dynamodb-bigtable/replicator/internal/pipeline"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// Failover continues a migration in the cluster to which the app profile routes now.
type Failover struct {
	*terminal.Console
	Cfg     *config.Config
	Allowed config.Allowed
	With    string // flags for the commands in messages
	// StillFor is how long no process may write the ledger before a failover; 0: a lease, plus the
	// time in which a worker notices a change of cluster.
	StillFor     time.Duration
	StoppedFirst bool
	DryRun       bool
	Yes          bool
	// Confirm asks a question that only "yes" affirms; nil: there is no terminal.
	Confirm func(ctx context.Context, question string) error
	Ends    desk.Ends
}

// FailedOver is the result of a failover.
type FailedOver struct {
	Schema  string `json:"schema"`
	From    string `json:"from"` // the ledger's cluster before
	To      string `json:"to"`   // the cluster to which the app profile routes
	Outcome string `json:"outcome" doc:"nothing: both use the same cluster; positions: every table resumes from its checkpoints; loads: every table is loaded again"`
	DryRun  bool   `json:"dry_run"`
	// Loads are the source tables that are loaded again.
	Loads []string `json:"loads"`
}

// Run fails over.
func (o *Failover) Run(ctx context.Context) error {
	if lease := o.Cfg.State.Lease; o.StillFor != 0 && o.StillFor < lease {
		return diag.BadUsage(fmt.Sprintf("--still-for is %s", o.StillFor), fmt.Sprintf("give at least state.lease, %s, or remove the flag", lease))
	}
	if !o.Yes && !o.DryRun && o.Confirm == nil {
		return diag.BadUsage("replicator failover needs confirmation, but there is no terminal", "add --yes")
	}
	m, err := o.Ends.Open(ctx, o.Console, o.Cfg, desk.Request{Command: "failover", Allowed: o.Allowed, With: o.With})
	if err != nil {
		return err
	}
	defer m.Close()
	if !o.Yes && !o.DryRun {
		if err := o.Confirm(ctx, o.question()); err != nil {
			return err
		}
	}
	plan := failover.Plan{State: o.Cfg.State.Table, Still: o.StillFor, StoppedFirst: o.StoppedFirst, Rehearsal: o.DryRun,
		Tell: func(line string) { _, _ = fmt.Fprintln(o.Stderr, line) }}
	if plan.Still == 0 {
		plan.Still = o.Cfg.State.Lease + pipeline.NoticeTime
	}
	r, err := failover.Run(ctx, m.Ledger, m.To, plan)
	if err != nil {
		return o.explain(ctx, err)
	}
	return o.write(r)
}

// question describes what will happen. Run also checks that no worker runs, but it cannot see
// writes that the former cluster still accepts.
func (o *Failover) question() string {
	if o.StoppedFirst {
		return "Did every worker stop before the app profile was rerouted? Every table will resume from its checkpoints."
	}
	return "Is every worker stopped? Every table will be loaded again, because rows may be missing in this cluster."
}

func (o *Failover) explain(ctx context.Context, err error) error {
	var refused *failover.RefusedError
	if errors.As(err, &refused) {
		return &diag.Error{Code: diag.FailoverRefused, What: "the migration " + o.Cfg.Name + " cannot fail over yet", Cause: refused.Cause, Fix: refused.Cure, Err: err}
	}
	return preflight.ReadingFailed(ctx, "cannot fail over", err)
}

func (o *Failover) write(r failover.Result) error {
	d := FailedOver{Schema: "replicator.failover/v1", From: r.From, To: r.To, Outcome: string(r.Outcome), DryRun: o.DryRun, Loads: r.Loads}
	if d.Loads == nil {
		d.Loads = []string{}
	}
	if o.AsJSON() {
		return o.WriteJSON(d)
	}
	return o.Console.Show(o.Stdout, func(w io.Writer) error { return d.render(w, o.With) })
}

func (d FailedOver) render(w io.Writer, with string) error {
	if d.Outcome == string(failover.Nothing) {
		_, err := fmt.Fprintf(w, "nothing to do: the ledger and the app profile use cluster %s\n", d.To)
		return err
	}
	will := "the migration uses cluster"
	if d.DryRun {
		will = "the migration would use cluster"
	}
	text := fmt.Sprintf("%s %s instead of %s; ", will, d.To, d.From)
	if d.Outcome == string(failover.Positions) {
		text += "every table resumes from its checkpoints"
	} else {
		text += terminal.Plural(len(d.Loads), "table") + " must be loaded again"
	}
	if _, err := fmt.Fprintln(w, text); err != nil || d.DryRun {
		return err
	}
	next := "start the workers: replicator run" + with
	if d.Outcome == string(failover.Loads) {
		next += "; then: replicator backfill start --repair-gap" + with
	}
	_, err := fmt.Fprintln(w, next)
	return err
}
