package worker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"golang.org/x/sync/errgroup"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/loads"
	"github.com/dynamodb-bigtable/replicator/internal/pipeline"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// Rehearsal is the result of a dry run for one table, in the form of JSON.
type Rehearsal struct {
	Source  string `json:"source"`
	Target  string `json:"target"`
	Items   int64  `json:"items"`
	Rows    int64  `json:"rows"`
	Cells   int64  `json:"cells"`
	Shards  int    `json:"shards"`
	Changes int64  `json:"changes"`
	// Unmappable is the number of items that cannot be mapped, by reason.
	Unmappable map[string]int64 `json:"unmappable"`
}

// rehearsalPoll is the wait after an empty page. A shard allows five reads per second for all its
// readers together. Source:
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Limits.html
const rehearsalPoll = 250 * time.Millisecond

// Rehearse reads and maps the items and changes of every table, and reports what a run would do. It
// writes nothing.
func (w *Worker) Rehearse(ctx context.Context) error {
	if err := w.connect(ctx, true); err != nil {
		return err
	}
	defer w.target.Close()
	reports, err := w.rehearse(ctx)
	if err != nil {
		return err
	}
	if err := writeRehearsal(w.Console, reports); err != nil {
		return err
	}
	return rehearsalVerdict(reports, w.found.Suspended)
}

// rehearse makes a dry run of one table after another, and draws the progress.
func (w *Worker) rehearse(ctx context.Context) ([]Rehearsal, error) {
	o := w.observe(task.Clock(ctx))
	options := engine.Options{Database: w.source.Tables, Events: o.events(), Open: func(arn string) cdc.Source { return w.source.Stream(arn) },
		Folders: w.openFolder, Timing: engine.Timing{Poll: rehearsalPoll}}
	var reports []Rehearsal
	g, gctx := errgroup.WithContext(ctx)
	drawn, stop := context.WithCancel(gctx)
	g.Go(func() error { o.draw(drawn); return nil })
	g.Go(func() error {
		defer stop()
		for _, t := range w.found.Tables {
			if w.Config.LoadsFrom(t.Config) != "" {
				if _, _, err := loads.OfConfiguration(w.Config, w.source, w.Console.Env).Read(gctx, t.Config); err != nil {
					return err
				}
			}
			r, err := pipeline.DryRun(gctx, options, engine.Spec{Mapping: t.Mapping, Segments: w.Config.Backfill.Segments,
				From: w.named(t.Config), Limits: loads.Configured(w.Config.Backfill), SkipExpired: w.Config.Backfill.SkipExpired})
			if err != nil {
				return preflight.Explain("cannot read table "+t.Config.From, err)
			}
			reports = append(reports, Rehearsal{r.Table, t.Config.TargetNames(), r.Items, r.Rows, r.Cells, r.Shards, r.Changes, r.Unmappable})
		}
		return nil
	})
	err := g.Wait()
	if ctx.Err() != nil {
		err = terminal.Ended(ctx)
	}
	return reports, err
}

func writeRehearsal(c *terminal.Console, reports []Rehearsal) error {
	if c.AsJSON() {
		return c.WriteJSON(struct {
			Schema string      `json:"schema"`
			Tables []Rehearsal `json:"tables"`
		}{"replicator.dry_run/v1", reports})
	}
	tab := tabwriter.NewWriter(c.Stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(tab, "TABLE\tTARGET\tITEMS\tROWS\tCELLS\tSHARDS\tCHANGES\tUNMAPPABLE")
	for _, r := range reports {
		_, _ = fmt.Fprintf(tab, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\n", r.Source, r.Target, r.Items, r.Rows, r.Cells, r.Shards, r.Changes, total(r.Unmappable))
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	for _, r := range reports {
		for _, reason := range slices.Sorted(maps.Keys(r.Unmappable)) {
			_, _ = fmt.Fprintf(c.Stdout, "%s: %d unmappable: %s\n", r.Source, r.Unmappable[reason], diag.Printable(reason))
		}
	}
	_, err := fmt.Fprintln(c.Stdout, "nothing was written")
	return err
}

func total(counts map[string]int64) int64 {
	var n int64
	for _, c := range counts {
		n += c
	}
	return n
}

// rehearsalVerdict returns nil if every item can be mapped. The argument `aside` holds the tables
// that could not be read.
func rehearsalVerdict(reports []Rehearsal, aside []string) error {
	var found diag.List
	for _, name := range aside {
		found = append(found, &diag.Error{Code: diag.TableSetAside, What: "table " + name + " was not read, and would be suspended", Cause: "it is marked ✗ above"})
	}
	for _, r := range reports {
		if n := total(r.Unmappable); n > 0 {
			found = append(found, &diag.Error{Code: diag.ItemsParked, What: fmt.Sprintf("%s and changes of table %s cannot be mapped", terminal.Plural(int(n), "item"), r.Source),
				Cause: "the reasons are listed above", Fix: "correct the items in the source; a run would park them"})
		}
	}
	return found.Err()
}
