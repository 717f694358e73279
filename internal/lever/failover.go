package lever

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/environment"
	"github.com/dynamodb-bigtable/replicator/internal/failover"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// Failover continues a migration in the cluster to which the app profile routes now, or with the
// source tables of another region.
type Failover struct {
	*terminal.Console
	Cfg     *config.Config
	Allowed environment.Allowed
	With    string // flags to append to commands in messages
	// SourceRegion is the region in which the source tables are read from now on. If it is "", the
	// migration moves to another cluster.
	SourceRegion string
	// StillFor is how long no process may have written the ledger before a failover. 0 means the
	// duration of a lease, plus the time in which a worker notices a change of cluster.
	StillFor     time.Duration
	StoppedFirst bool
	// Switched is the operator's answer to the question whether a cutover has switched the
	// application: "yes", "no", or "" if not given.
	Switched string
	DryRun   bool
	Yes      bool
	// Confirm asks for confirmation, which only the answer "yes" gives. It is nil if there is no
	// terminal.
	Confirm func(ctx context.Context, question string) error
	Ends    desk.Ends
}

// FailedOver is the result of a failover.
type FailedOver struct {
	Schema string `json:"schema"`
	// Moves is what the failover moves: "target" to another cluster, or "source" to another region.
	Moves   string `json:"moves" doc:"target: to another cluster; source: to another region"`
	From    string `json:"from"` // the former cluster or region; "" if no table needs a move
	To      string `json:"to"`   // the cluster to which the app profile routes, or the new region
	Outcome string `json:"outcome" doc:"nothing: both are the same; positions: every table resumes from its checkpoints; loads: every table is loaded again; cut_over: the application has switched, and nothing is loaded"`
	DryRun  bool   `json:"dry_run"`
	// Loads are the source tables that are loaded again.
	Loads []string `json:"loads"`
	// Cutover is the step at which a running cutover continues or was ended. It is null if no
	// cutover was running.
	Cutover *string `json:"cutover"`
	// FormerDeleted is true if the former cluster was deleted. Then the last rows that it accepted
	// may be missing in the new cluster.
	FormerDeleted bool `json:"former_deleted"`
	// MissingTables are replicated source tables that the new region does not have. A pattern matched
	// them.
	MissingTables []string `json:"missing_tables"`
	// FrozenPolicies are the source tables whose resource policy in the former region may still have
	// the statement of a freeze.
	FrozenPolicies []string `json:"frozen_policies"`
}

// What a failover moves.
const (
	movesTarget = "target"
	movesSource = "source"
)

// Run fails over to the cluster to which the app profile routes, or to the region of the source.
func (o *Failover) Run(ctx context.Context) error {
	if err := o.check(); err != nil {
		return err
	}
	m, err := o.open(ctx)
	if err != nil {
		return err
	}
	defer m.Close()
	if !o.Yes && !o.DryRun {
		if err := o.Confirm(ctx, o.question()); err != nil {
			return err
		}
	}
	plan := failover.Plan{State: o.Cfg.State.Table, Still: o.StillFor, StoppedFirst: o.StoppedFirst, Switched: failover.Answer(o.Switched), Rehearsal: o.DryRun,
		Tell: func(line string) { _, _ = fmt.Fprintln(o.Stderr, line) }}
	if plan.Still == 0 {
		plan.Still = o.Cfg.State.Lease + engine.NoticeTime
	}
	var r failover.Result
	if o.SourceRegion != "" {
		r, err = failover.RunRegion(ctx, m.Ledger, plan, o.region(m))
	} else {
		r, err = failover.Run(ctx, m.Ledger, m.To, plan)
	}
	if err != nil {
		return o.explain(ctx, err)
	}
	return o.write(r)
}

func (o *Failover) open(ctx context.Context) (*desk.Migration, error) {
	if o.SourceRegion != "" {
		return o.openRegion(ctx)
	}
	return o.Ends.Open(ctx, o.Console, o.Cfg, desk.Request{Command: "failover", Allowed: o.Allowed, With: o.With})
}

// check refuses flags that contradict each other.
func (o *Failover) check() error {
	if lease := o.Cfg.State.Lease; o.StillFor != 0 && o.StillFor < lease {
		return diag.BadUsage(fmt.Sprintf("--still-for is %s", o.StillFor), fmt.Sprintf("give at least state.lease, %s, or remove the flag", lease))
	}
	if !slices.Contains([]failover.Answer{failover.NotAsked, failover.Yes, failover.No}, failover.Answer(o.Switched)) {
		return diag.BadUsage("--switched is "+o.Switched, "give yes or no")
	}
	if !o.Yes && !o.DryRun && o.Confirm == nil {
		return diag.BadUsage("replicator failover needs confirmation, but there is no terminal", "add --yes")
	}
	return o.checkRegion()
}

// question describes the effects of the failover and asks for confirmation. It asks because Run can
// check that no worker runs, but cannot see writes that the former cluster still accepts.
func (o *Failover) question() string {
	if o.SourceRegion != "" {
		return "Is every worker stopped? The tables will be read in region " + o.SourceRegion + ", and every table will be loaded again."
	}
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
	d := FailedOver{Schema: "replicator.failover/v1", From: r.From, To: r.To, Outcome: string(r.Outcome), DryRun: o.DryRun, Loads: r.Loads,
		Cutover: terminal.Known(string(r.Cutover)), FormerDeleted: r.Gone, Moves: movesTarget, FrozenPolicies: append([]string{}, r.Policies...), MissingTables: append([]string{}, r.Missing...)}
	if o.SourceRegion != "" {
		d.Moves = movesSource
	}
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
		nothing := "the ledger and the app profile use cluster " + d.To
		if d.Moves == movesSource {
			nothing = "no table is read in another region than " + d.To
		}
		_, err := fmt.Fprintln(w, strings.Join(append([]string{"nothing to do: " + nothing}, d.missing()...), "\n"))
		return err
	}
	cancelled := "is"
	if d.DryRun {
		cancelled = "would be"
	}
	lines := []string{d.moved() + "; " + d.tables()}
	switch d.step() {
	case checkpoint.CutoverCancelling:
		lines = append(lines, "the cutover "+cancelled+" cancelled; the application stays frozen until a worker has called hook unfreeze_writes")
	case checkpoint.CutoverCancelled:
		lines = append(lines, "the cutover "+cancelled+" cancelled")
	}
	if d.FormerDeleted && d.Outcome == string(failover.CutOver) {
		lines = append(lines, "cluster "+d.From+" was deleted: rows that it accepted last may be missing, and replicator loads nothing after the switch")
	}
	if len(d.FrozenPolicies) > 0 {
		lines = append(lines, "resource policies in region "+d.From+" may still deny writes to "+strings.Join(d.FrozenPolicies, ", ")+": remove the statement of the freeze there by hand")
	}
	lines = append(lines, d.missing()...)
	if next := d.next(with); next != "" && !d.DryRun {
		lines = append(lines, next)
	}
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}

// missing describes the tables that the new region does not have.
func (d FailedOver) missing() (lines []string) {
	if len(d.MissingTables) > 0 {
		lines = append(lines, "not in region "+d.To+", and not replicated there; the rows stay: "+strings.Join(d.MissingTables, ", "))
	}
	return lines
}

// step returns the step of the cutover; "" if no cutover was running.
func (d FailedOver) step() checkpoint.CutoverStep {
	if d.Cutover == nil {
		return ""
	}
	return checkpoint.CutoverStep(*d.Cutover)
}

// moved describes what the failover moved.
func (d FailedOver) moved() string {
	switch {
	case d.Moves == movesTarget && d.DryRun:
		return fmt.Sprintf("the migration would use cluster %s instead of %s", d.To, d.From)
	case d.Moves == movesTarget:
		return fmt.Sprintf("the migration uses cluster %s instead of %s", d.To, d.From)
	case d.DryRun:
		return fmt.Sprintf("the source would be read in region %s instead of %s", d.To, d.From)
	case d.From == "": // an interrupted run moved all tables
		return "the source is read in region " + d.To
	}
	return fmt.Sprintf("the source is read in region %s instead of %s", d.To, d.From)
}

// tables describes the effect of the failover on the tables.
func (d FailedOver) tables() string {
	switch failover.Outcome(d.Outcome) {
	case failover.Positions:
		return "every table resumes from its checkpoints"
	case failover.CutOver:
		return "the application has switched, so nothing is loaded"
	}
	return terminal.Plural(len(d.Loads), "table") + " must be loaded again"
}

// next returns the command to run next; "" if there is none.
func (d FailedOver) next(with string) string {
	start := "start the workers: replicator run" + with
	if d.Moves == movesSource {
		start = "set source.region: " + d.To + " in the configuration (and the region in the ARNs of tables); then " + start
	}
	switch {
	case d.Outcome == string(failover.Loads):
		return start + "; then: replicator backfill start --repair-gap" + with
	case d.step() == checkpoint.CutoverDone:
		return ""
	case d.Outcome == string(failover.CutOver):
		return start + ", which watches for late writers"
	}
	return start
}
