package repair

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"text/tabwriter"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/verify"
)

const (
	// atOnce is the number of items that are repaired concurrently. It is small, so that a repair
	// does not slow down the replication.
	atOnce = 8
	// tries is the maximum number of attempts of a step. firstWait is the wait between the first
	// two attempts.
	tries     = 5
	firstWait = 500 * time.Millisecond
	// mostRows is the maximum number of rows that a document lists.
	mostRows = 1000
)

// schemaName identifies the form of the document.
const schemaName = "replicator.repair/v1"

// Document is the outcome of a repair of one table's differences.
type Document struct {
	Schema   string `json:"schema"` // replicator.repair/v1
	Table    string `json:"table"`
	DryRun   bool   `json:"dry_run"`  // true for a dry run, which writes nothing
	Findings int    `json:"findings"` // number of findings to repair
	// Repaired is the number of repaired findings. In a dry run, it is the number that would be
	// repaired.
	Repaired int            `json:"repaired"`
	Outcomes []OutcomeCount `json:"outcomes"` // one for each outcome that occurred
	// NotReached is the number of findings that were not processed because of an earlier failure.
	NotReached int `json:"not_reached"`
	// AtMost is the limit that kept the repair from starting, because more rows differ; null if no
	// limit did.
	AtMost *int  `json:"at_most"`
	Left   []Row `json:"left"` // findings that were not repaired, at most 1,000
}

// OutcomeCount is the number of findings with an outcome.
type OutcomeCount struct {
	Outcome string `json:"outcome"`
	Rows    int    `json:"rows"`
	Text    string `json:"text"` // one sentence
	// Different reports whether rows with this outcome still differ, so that an operator must act.
	Different bool `json:"different"`
}

// Row is a finding that was not repaired.
type Row struct {
	KeyHash string `json:"key_hash"` // of the item; empty for foreign rows
	RowHash string `json:"row_hash"`
	Kind    string `json:"kind"` // kind of the difference, by its name in verify
	Outcome string `json:"outcome"`
}

// outcomes are the descriptions of outcomes, in the order of the document.
var outcomes = []struct {
	outcome   sink.Outcome
	text      string
	different bool
}{
	{sink.Mended, "repaired", false},
	{sink.Equal, "equal meanwhile", false},
	{sink.MovedOn, "changed since the comparison; the next comparison checks them", false},
	{sink.Expired, "of expired items, which DynamoDB is about to remove", false},
	{sink.KeptAlive, "of expired items, kept because of expire: keep", false},
	{sink.InFlight, "in flight: not yet written a second time (dual_writes)", false},
	{sink.Foreign, "not written by this migration, left alone; remove them with --remove-foreign, or set owned: true if nothing else writes this table", true},
	{sink.Unmappable, "of items that cannot be stored", true},
	{sink.Exhausted, "repaired too often at the same version; the item's next change repairs it", true},
	{sink.Unreadable, "with a version that another program wrote", true},
}

// Findings repairs the findings of a comparison. It changes a row only if the row is the same as
// when it was read. Temporary errors of the source and the target are retried for some time. An
// error that does not pass ends the repair, and the document shows the progress so far.
func Findings(ctx context.Context, r *sink.Repairer, found []verify.Finding, log *slog.Logger) (Document, error) {
	items := byItem(r, found)
	results := make([]sink.Outcome, len(found))
	g := task.NewGroup(ctx, atOnce)
	for i := range items {
		g.Go("repair an item", func(ctx context.Context) error { return items[i].repair(ctx, r, found, results) })
	}
	err := g.Wait()
	d := document(r, found, results)
	log.Info("finished repair", admin.KeyTable, r.Mapping.Source, "findings", d.Findings, "repaired", d.Repaired, "not_reached", d.NotReached, "dry_run", d.DryRun)
	if err != nil && ctx.Err() == nil {
		err = Failed(ctx, "cannot repair an item of table "+r.Mapping.Source, r.Mapping.Source, err)
	}
	return d, err
}

// itemFindings are the findings of one item.
type itemFindings struct {
	keys      attribute.Item
	sightings []sink.Sighting
	of        [][]int // findings of each row
}

// byItem groups findings by item, in the order of each item's first finding. Findings without an
// item form groups without a key.
func byItem(r *sink.Repairer, found []verify.Finding) []itemFindings {
	var items []itemFindings
	index := map[string]int{}
	for n, f := range found {
		name := ""
		if f.Keys.Exists() {
			name = r.Mapping.ItemKey(f.Keys)
		}
		i, known := index[name]
		if !known {
			i = len(items)
			index[name] = i
			items = append(items, itemFindings{keys: f.Keys})
		}
		items[i].add(sink.Sighting{Table: f.Table, Row: f.Row, Owner: f.Owner, Held: f.Version}, n)
	}
	return items
}

func (f *itemFindings) add(s sink.Sighting, finding int) {
	for i, known := range f.sightings {
		if known == s {
			f.of[i] = append(f.of[i], finding)
			return
		}
	}
	f.sightings, f.of = append(f.sightings, s), append(f.of, []int{finding})
}

// repair repairs the rows of one item, and records the outcomes.
func (f *itemFindings) repair(ctx context.Context, r *sink.Repairer, found []verify.Finding, results []sink.Outcome) error {
	note := func(i int, o sink.Outcome) {
		for _, n := range f.of[i] {
			results[n] = o
		}
	}
	if !f.keys.Exists() {
		for i := range f.sightings {
			note(i, sink.Foreign)
		}
		return nil
	}
	return again(ctx, func(ctx context.Context) error {
		ctx, cancel := preflight.Reading(ctx)
		defer cancel()
		done, err := r.RepairSeen(ctx, f.keys, f.sightings)
		for i, o := range done {
			switch before := results[f.of[i][0]]; {
			case o == "":
			// An earlier attempt repaired the row, but its answer was lost.
			case before == sink.Mended && (o == sink.Equal || o == sink.MovedOn):
			default:
				note(i, o)
			}
		}
		return err
	})
}

// again calls op, and retries it after a temporary error.
func again(ctx context.Context, op func(ctx context.Context) error) error {
	wait := firstWait
	for i := 1; ; i++ {
		err := op(ctx)
		if err == nil || i == tries || !passing(err) || ctx.Err() != nil {
			return err
		}
		if err := task.Sleep(ctx, wait); err != nil {
			return err
		}
		wait *= 2
	}
}

// passing reports whether an error may be temporary.
func passing(err error) bool {
	return sink.Repeatable(err) || cdc.Is(err, cdc.Throttled) || cdc.Is(err, cdc.Unavailable)
}

func document(r *sink.Repairer, found []verify.Finding, results []sink.Outcome) Document {
	d := Document{Schema: schemaName, Table: r.Mapping.Source, DryRun: r.DryRun, Findings: len(found), Outcomes: []OutcomeCount{}, Left: []Row{}}
	counts := map[sink.Outcome]int{}
	for i, o := range results {
		if o == "" {
			d.NotReached++
			continue
		}
		counts[o]++
		if o == sink.Mended || len(d.Left) == mostRows {
			continue
		}
		row := Row{RowHash: sink.HashOf(found[i].Table + "/" + found[i].Row), Kind: string(found[i].Kind), Outcome: string(o)}
		if found[i].Keys.Exists() {
			row.KeyHash = sink.HashOf(r.Mapping.ItemKey(found[i].Keys))
		}
		d.Left = append(d.Left, row)
	}
	d.Repaired = counts[sink.Mended]
	for _, o := range outcomes {
		if n := counts[o.outcome]; n > 0 {
			d.Outcomes = append(d.Outcomes, OutcomeCount{string(o.outcome), n, o.text, o.different})
		}
	}
	return d
}

// Stopped returns the document of a repair that did not start: more rows of the table differ than the
// limit allows.
func Stopped(table string, rows, atMost int, dryRun bool) Document {
	return Document{Schema: schemaName, Table: table, DryRun: dryRun, Findings: rows, Outcomes: []OutcomeCount{}, NotReached: rows, AtMost: &atMost, Left: []Row{}}
}

// Render writes the document as text.
func (d Document) Render(w io.Writer) error {
	done := "repaired"
	if d.DryRun {
		done = "would be repaired (dry run)"
	}
	if _, err := fmt.Fprintf(w, "%s: %d of %s %s\n", d.Table, d.Repaired, terminal.Plural(d.Findings, "row"), done); err != nil {
		return err
	}
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, o := range d.Outcomes {
		if o.Outcome != string(sink.Mended) {
			_, _ = fmt.Fprintf(tab, "  %d\t%s\n", o.Rows, o.Text)
		}
	}
	if d.AtMost != nil {
		_, _ = fmt.Fprintf(tab, "  %d\tnot repaired, because --at-most allows %d\n", d.NotReached, *d.AtMost)
	} else if d.NotReached > 0 {
		_, _ = fmt.Fprintf(tab, "  %d\tnot reached\n", d.NotReached)
	}
	return tab.Flush()
}

// Verdict returns nil if no finding is left for which an operator must act.
func (d Document) Verdict() error {
	left := d.NotReached
	for _, o := range d.Outcomes {
		if o.Different {
			left += o.Rows
		}
	}
	switch {
	case d.AtMost != nil:
		return &diag.Error{Code: diag.RowsDiffer, What: fmt.Sprintf("no row of table %s was repaired", d.Table),
			Cause: fmt.Sprintf("%s, and --at-most allows a repair of %d", terminal.RowsDiffer(d.NotReached, "the table"), *d.AtMost),
			Fix:   "see what differs, then repeat the command with a higher --at-most or without it"}
	case d.DryRun && d.Repaired > 0:
		return &diag.Error{Code: diag.RowsDiffer, What: fmt.Sprintf("%s of table %s would be repaired", terminal.Plural(d.Repaired, "row"), d.Table),
			Cause: "a dry run writes nothing", Fix: "remove --dry-run to repair them"}
	case left > 0:
		return &diag.Error{Code: diag.RowsDiffer, What: fmt.Sprintf("%s of table %s could not be repaired", terminal.Plural(left, "row"), d.Table),
			Cause: "the reasons are listed above", Fix: "`replicator explain` shows one item; remove the cause, then compare again"}
	}
	return nil
}
