package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// sampleTime bounds the sample of one table, which is a hundred small requests.
const sampleTime = 30 * time.Second

// pollOfRun is how often a run asks a quiet shard (pipeline.Timing).
const pollOfRun = time.Second

// shownKeys is how many row keys plan shows of each table.
const shownKeys = 10

// examineSource looks at a source table, its stream, and a sample of its items.
func (pl *planner) examineSource(ctx context.Context, t config.Table, all preflight.Samples) {
	found, ok := pl.Describe(ctx, t)
	if !ok {
		return
	}
	pl.sources[t.From] = found.Description
	out := planTable{Source: t.From, Target: t.TargetNames(), Items: found.Description.Items, Bytes: found.Description.Bytes,
		Billing: found.Description.BillingMode, RowKeys: []string{}, Unmappable: map[string]int{}, Unmapped: []string{}}
	if pl.Ask(ctx, preflight.ProbeTime, "stream of "+t.From, func(ctx context.Context) (string, error) { return pl.Stream(ctx, found) }) {
		pl.Ask(ctx, preflight.ProbeTime, "records of "+t.From, func(ctx context.Context) (string, error) {
			return pl.examineRecords(ctx, found, &out)
		})
		pl.warnReaders(found)
	}
	if e := preflight.ExplainExpiry(found); e != nil {
		pl.warn(e)
	}
	if t.ExpiresByGC() {
		pl.Ask(ctx, preflight.ProbeTime, "time to live of "+t.From, func(ctx context.Context) (string, error) { return pl.expiry(ctx, t), nil })
	}
	for _, e := range t.Warnings(found.Description.PrimaryKey) {
		if e.Code == diag.ItemsMove { // what needs the key schema; the rest was told before
			pl.warn(e)
		}
	}
	if pl.flags.sample > 0 {
		pl.Ask(ctx, sampleTime, "items of "+t.From, func(ctx context.Context) (string, error) {
			s, err := preflight.SampleTable(ctx, pl.Source.Tables, found, pl.flags.sample)
			if err != nil {
				return "", preflight.ExplainSource("cannot read items of table "+t.From, t.From, err)
			}
			all.Add(found, s)
			pl.addSample(&out, s)
			pl.tryKey(ctx, found, s.Items)
			if rows, each := s.Wide(found.Description.Bytes); rows > 0 {
				pl.warn(&diag.Error{Code: diag.WideRows, What: fmt.Sprintf("table %s becomes few rows, of about %s each", t.From, cost.Size(each)),
					Cause: fmt.Sprintf("%s of a sample of %s share %s; Bigtable allows 256 MB in a row and recommends less than 100 MB", terminal.Plural(s.Sharing(), "item"),
						terminal.Plural(len(s.Items), "item"), terminal.Plural(rows, "row"))})
			}
			if names := s.Unmapped(found); len(names) > 0 {
				out.Unmapped = names
				pl.warn(&diag.Error{Code: diag.AttributesUnmapped, What: "attributes of table " + t.From + " reach no cell of the target",
					Cause: strings.Join(names, ", ")})
			}
			return fmt.Sprintf("%s sampled", terminal.Plural(len(s.Items), "item")), nil
		})
	}
	pl.estimate(&out, found)
	pl.report.Tables = append(pl.report.Tables, out)
}

// tryKey reads one of the items by its key, as `parked retry` does: a run does not, and would not tell that it may not.
func (pl *planner) tryKey(ctx context.Context, t preflight.Table, items []attribute.Item) {
	if len(items) == 0 {
		return
	}
	_, _, err := pl.Source.Tables.Get(ctx, t.Config.From, t.Mapping.Keys(items[0]))
	var e *diag.Error
	if err != nil && errors.As(preflight.ExplainSource("cannot read an item of table "+t.Config.From+" by its key", t.Config.From, err), &e) {
		pl.warn(e)
	}
}

// examineRecords lists the shards and reads a page of one, which takes the permissions that only a run would use.
func (pl *planner) examineRecords(ctx context.Context, t preflight.Table, out *planTable) (string, error) {
	what := "cannot read the stream of table " + t.Config.From
	stream := pl.Source.Stream(t.Description.StreamARN)
	listing, err := cdc.ListShards(ctx, stream, "")
	if err != nil {
		return "", preflight.ExplainSource(what, "", err)
	}
	open, shard := 0, ""
	for _, s := range listing.Shards {
		if shard == "" || !s.Closed {
			shard = s.ID
		}
		if !s.Closed {
			open++
		}
	}
	out.OpenShards = &open
	if shard == "" {
		return "no shard yet", nil
	}
	at, err := stream.Seek(ctx, shard, cdc.Position{})
	if err == nil {
		_, err = stream.Read(ctx, at)
	}
	if err != nil {
		return "", preflight.ExplainSource(what, "", err)
	}
	return fmt.Sprintf("readable; %s", terminal.Plural(open, "open shard")), nil
}

func (pl *planner) warnReaders(t preflight.Table) {
	cause := "DynamoDB does not list the readers of a stream; list Lambda triggers with: aws lambda list-event-source-mappings --event-source-arn " + t.Description.StreamARN
	if len(t.Description.Replicas) > 0 {
		cause = "the table is a global table with replicas in " + strings.Join(t.Description.Replicas, ", ") + "; " + cause
	}
	pl.warn(&diag.Error{Code: diag.StreamReaders, What: "a shard of the stream of table " + t.Config.From + " supports two readers; replicator is one of them", Cause: cause})
}

// expiry compares what the source's items expire by with what their cells do. No run asks that, so that a plan which may not is none the worse.
func (pl *planner) expiry(ctx context.Context, t config.Table) string {
	attr, err := pl.Source.Expiry.Attribute(ctx, t.From)
	switch {
	case err != nil:
		return "unknown"
	case attr == t.TTL.Attribute:
		return attr
	}
	e := &diag.Error{Code: diag.ExpiryDiffers, What: fmt.Sprintf("cells of table %s expire by %s, and its items do not", t.From, t.TTL.Attribute),
		Cause: "the table's time to live is off", Fix: "turn it on for this attribute, or leave ttl out"}
	told := "off"
	if attr != "" {
		told = attr
		e.Cause, e.Fix = "the table's time to live uses "+attr, "write attribute: "+attr
	}
	pl.warn(e)
	return told
}

func (pl *planner) addSample(out *planTable, s preflight.Sampled) {
	out.Sampled, out.Unmappable = len(s.Items), s.Unmappable
	// Spread over the sample, which is in the order of segments.
	for table, rows := range s.Rows {
		of := ""
		if len(s.Rows) > 1 {
			of = table + ": "
		}
		for i := range min(shownKeys, len(rows)) {
			out.RowKeys = append(out.RowKeys, of+shownKey(rows[i*len(rows)/min(shownKeys, len(rows))]))
		}
	}
	slices.Sort(out.RowKeys)
	if n := total64(s.Unmappable); n > 0 {
		var reasons []string
		for reason, count := range s.Unmappable {
			reasons = append(reasons, fmt.Sprintf("%d: %s", count, reason))
		}
		slices.Sort(reasons)
		pl.warn(&diag.Error{Code: diag.SampleUnmappable, Cause: strings.Join(reasons, "\n"),
			What: fmt.Sprintf("%s of %d sampled of table %s cannot be mapped", terminal.Plural(n, "item"), len(s.Items), out.Source)})
	}
}

func total64(counts map[string]int) int {
	n := 0
	for _, c := range counts {
		n += c
	}
	return n
}

// estimate adds time and cost.
func (pl *planner) estimate(out *planTable, t preflight.Table) {
	in := cost.Table{Items: t.Description.Items, Bytes: t.Description.Bytes, ReadCapacity: t.Description.ReadCapacity,
		RowsPerSecond: float64(pl.Cfg.Backfill.MaxRowsPerSecond) / float64(pl.tables), Share: 1 / float64(pl.tables)}
	if out.OpenShards != nil {
		in.OpenShards = *out.OpenShards
	}
	copying := pl.prices.Copying(in, pl.cluster)
	out.Copy = planCopy{copying.RowsPerSecond, copying.LimitedBy, copying.Time.Seconds()}
	pl.copies = append(pl.copies, copying)
	out.Cost = pl.prices.Estimate(in, pl.cluster, pollOfRun)
	if copying.TooSlow() {
		pl.warn(&diag.Error{Code: diag.SlowCopy, What: fmt.Sprintf("the copy of table %s would take about %s", out.Source, backfill.FormatDuration(copying.Time)),
			Cause: fmt.Sprintf("about %.0f rows a second, limited by %s; the stream keeps changes for 24 hours", copying.RowsPerSecond, copying.LimitedBy)})
	}
}
