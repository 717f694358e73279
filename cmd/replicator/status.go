package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/sink"
)

func newStatus(p *program) *cobra.Command {
	var table string
	var shards bool
	c := &cobra.Command{
		Use:     "status [flags]",
		Short:   "Phase, lag, headroom, progress and what to do next",
		GroupID: groupOperate,
		Long: `Show where the migration stands, from the ledger alone: no worker needs to run, and nothing is changed.

Lag is the age of the last applied change while there are more, and otherwise the time since the stream was last found empty,
which is marked with ~. Headroom is what is left of the 24 hours that a stream keeps. What cannot be told is -, in JSON null.
The exit status is 0 whenever it could be told.`,
		Example: `  replicator status
  replicator status --table Orders --shards
  replicator status -o json | jq -r '.next_steps[].command'`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := p.within(c.Context())
			defer cancel()
			return p.status(ctx, table, shards)
		},
	}
	c.Flags().StringVar(&table, "table", "", "only this source `TABLE`")
	c.Flags().BoolVar(&shards, "shards", false, "every shard as well")
	allowEmulatorOfReader(c)
	return c
}

// allowEmulatorOfReader adds a flag that commands which only read accept, so that a script can pass it to all of them, but do
// not demand: they say EMULATOR where it matters.
func allowEmulatorOfReader(c *cobra.Command) {
	c.Flags().Bool("allow-emulator", false, "accepted as by run; a command that only reads names an emulator, and does not refuse it")
}

func (p *program) status(ctx context.Context, table string, shards bool) error {
	cfg, err := p.load()
	if err != nil {
		return err
	}
	if err := knownTable(cfg, table); err != nil {
		return err
	}
	t, err := openTarget(ctx, cfg)
	if err != nil {
		return err
	}
	defer t.Close()
	s, err := gather(ctx, cfg, t, p.env, table, time.Now())
	if err != nil {
		return err
	}
	if !shards {
		s.Shards = nil
	}
	if p.asJSON() {
		return p.writeJSON(s)
	}
	return s.write(p.stdout, shards)
}

// knownTable refuses a --table that the configuration does not name.
func knownTable(cfg *config.Config, table string) error {
	if table == "" {
		return nil
	}
	var names []string
	for _, t := range cfg.Tables {
		if t.From == table {
			return nil
		}
		names = append(names, t.From)
	}
	fix := "use one of " + strings.Join(names, ", ")
	if near := diag.Suggest(table, names); near != "" {
		fix = "did you mean " + near + "?"
	}
	return usage(fmt.Sprintf("the configuration has no source table %q", table), fix)
}

// gather reads the ledger and makes the status of it. Without a ledger the migration has not begun, which is a status too.
func gather(ctx context.Context, cfg *config.Config, t *target, env config.Lookup, table string, now time.Time) (*migration, error) {
	s := newMigration(cfg, env, now)
	ctx, cancel := context.WithTimeoutCause(ctx, readTime, errReadTime)
	defer cancel()
	ledger, err := checkpoint.Open(ctx, ledgerStore(t, cfg), cfg.Name, checkpoint.Options{ReadOnly: true, Lease: cfg.State.Lease})
	began := err == nil
	if err != nil && !errors.Is(err, checkpoint.ErrNoLedger) && status.Code(err) != codes.NotFound {
		return nil, readingFailed(ctx, "cannot read the ledger in table "+cfg.State.Table, err)
	}
	parking := sink.NewParking(t.data.Records(cfg.State.Table), cfg.Name)
	for _, c := range cfg.Tables {
		if table != "" && c.From != table {
			continue
		}
		var in tableInput
		if began {
			if in, err = readTable(ctx, ledger, parking, c.From); err != nil {
				return nil, readingFailed(ctx, "cannot read the ledger in table "+cfg.State.Table, err)
			}
		}
		s.add(c, in)
	}
	s.conclude()
	return s, nil
}

// readTime bounds what a command reads of Bigtable: an unreachable endpoint would hold it for ever.
const readTime = 20 * time.Second

var errReadTime = fmt.Errorf("no answer within %s", config.FormatDuration(readTime))

// readingFailed explains an error of reading, saying so if the time was up.
func readingFailed(ctx context.Context, what string, err error) error {
	if errors.Is(context.Cause(ctx), errReadTime) {
		return &diag.Error{Code: diag.TargetUnreachable, What: what, Err: errReadTime}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return explainLedger(what, err)
}

func readTable(ctx context.Context, ledger *checkpoint.Ledger, parking *sink.Parking, source string) (tableInput, error) {
	var in tableInput
	var err error
	if in.state, in.found, err = ledger.Table(ctx, source); err != nil {
		return in, err
	}
	if in.shards, err = ledger.Shards(ctx, source); err != nil {
		return in, err
	}
	seat, err := ledger.Seat(ctx, source)
	if err != nil {
		return in, err
	}
	in.copied = copiedOf(seat, in.state.Generation)
	in.parked, err = parking.CountOf(ctx, source)
	return in, err
}

// copiedOf is how many items a running load has made durable, from the progress that the keeper saves in its row. Nothing else is
// taken from there: it holds keys of items.
func copiedOf(seat checkpoint.Seat, generation uint32) int64 {
	var row struct {
		Scan struct {
			Generation uint32 `json:"generation"`
			Items      int64  `json:"items"`
		} `json:"scan"`
	}
	if json.Unmarshal(seat.Row.Data, &row) != nil || row.Scan.Generation != generation {
		return 0
	}
	return row.Scan.Items
}

// write tells the status to people.
func (m *migration) write(w io.Writer, shards bool) error {
	step := slices.Index(phases, m.Phase) + 1
	title := map[string]string{phaseCopy: "copy + stream", phaseInSync: "in sync"}[m.Phase]
	if title == "" {
		title = m.Phase
	}
	_, _ = fmt.Fprintf(w, "%s   phase %d of %d: %s   %s → %s   %s, %s\n\n", m.Name, step, len(phases), title,
		m.Source, m.Target, plural(m.Workers, "worker"), plural(m.Leases, "lease"))
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(tab, "TABLE\tCOPY\tLAG\tHEADROOM\tCHANGES/s\tPARKED\tVERIFY")
	for _, t := range m.Tables {
		_, _ = fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t-\t%d\t-\n", t.Source, t.Copy, t.lagText(), seconds(t.HeadroomSeconds), t.Parked)
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	if shards {
		_, _ = fmt.Fprintln(w)
		_, _ = fmt.Fprintln(tab, "TABLE\tSHARD\tSTATE\tHOP\tOWNER\tREAD AT\tREASON")
		for _, s := range m.Shards {
			_, _ = fmt.Fprintf(tab, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", s.Source, s.ID, s.State, s.Hop, orDash(s.Owner), timeText(s.ReadAt), orDash(s.Reason))
		}
		if err := tab.Flush(); err != nil {
			return err
		}
	}
	for _, t := range m.Tables {
		if t.NeedsLoad {
			_, _ = fmt.Fprintf(w, "\n%s needs a load: %s\n", t.Source, orDash(t.NeedsLoadReason))
		}
	}
	if len(m.NextSteps) == 0 {
		return nil
	}
	_, _ = fmt.Fprintln(w, "\nNext:")
	for _, step := range m.NextSteps {
		_, _ = fmt.Fprintf(tab, "  %s\t%s\n", step.Command, step.Why)
	}
	return tab.Flush()
}

func (t *tableStatus) lagText() string {
	text := seconds(t.LagSeconds)
	if t.LagEstimated {
		return "~" + text
	}
	return text
}

func seconds(s *float64) string {
	if s == nil {
		return "-"
	}
	return backfill.FormatDuration(time.Duration(*s * float64(time.Second)))
}

func orDash(text *string) string {
	if text == nil || *text == "" {
		return "-"
	}
	return *text
}

func timeText(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}
