package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/source"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// sampleTime is the time limit for the sample of one table. A sample takes about a hundred small
// requests.
const sampleTime = 30 * time.Second

// shownKeys is the number of row keys that plan shows for each table.
const shownKeys = 10

func (out *sourceTable) warn(e *diag.Error) { warn(&out.warnings, e) }

// examineSource checks a source table, its stream, and a sample of its items.
func (in *Input) examineSource(ctx context.Context, t config.Table, all preflight.Samples) {
	found, ok := in.Describe(ctx, t)
	if !ok {
		return
	}
	out := sourceTable{found: found, Table: Table{Source: t.From, Target: t.TargetNames(), Items: found.Description.Items, Bytes: found.Description.Bytes,
		Billing: found.Description.BillingMode, Key: found.Description.KeyARN, RowKeys: []string{}, Unmappable: map[string]int{}, Unmapped: []string{}}, wayBack: preflight.WayBackOf(found)}
	if way, ok := in.Cfg.DualWay(t); ok {
		out.DualWrites = &way
	}
	if in.Ask(ctx, preflight.ProbeTime, "stream of "+t.From, func(ctx context.Context) (string, error) { return in.Stream(ctx, found) }) {
		in.Ask(ctx, preflight.ProbeTime, "records of "+t.From, func(ctx context.Context) (string, error) {
			return in.examineRecords(ctx, &out)
		})
		out.warnReaders()
	}
	in.Ask(ctx, preflight.ProbeTime, "point-in-time recovery of "+t.From, func(ctx context.Context) (string, error) { return in.recovery(ctx, &out) })
	if e := preflight.ExplainExpiry(found); e != nil {
		out.warn(e)
	}
	if e := preflight.ExplainShare("backfill.max_read_capacity", in.Cfg.Backfill.MaxReadCapacity, t.From, found.Description); e != nil {
		e.Pos = in.Cfg.Where("backfill.max_read_capacity")
		out.warn(e)
	}
	if t.ExpiresByGC() || in.Cfg.Cutover.KeepFallback {
		in.Ask(ctx, preflight.ProbeTime, "time to live of "+t.From, func(ctx context.Context) (string, error) { return in.expiry(ctx, &out) })
	}
	for _, e := range t.Warnings(found.Description.PrimaryKey) {
		// Lint, without the key schema, cannot report this warning; it reports all others.
		if e.Code == diag.ItemsMove {
			out.warn(e)
		}
	}
	if in.question.Sample > 0 {
		in.Ask(ctx, sampleTime, "items of "+t.From, func(ctx context.Context) (string, error) {
			s, err := preflight.SampleTable(ctx, in.Source.Tables, found, in.question.Sample)
			if err != nil {
				return "", preflight.ExplainSource("cannot read items of table "+t.From, t.From, err)
			}
			all.Add(found, s)
			out.addSample(s)
			out.items = s.Items
			out.wayBack.AddTypes(s.Items)
			in.tryKey(ctx, &out, s.Items)
			if rows, each := s.Wide(found.Description.Bytes); rows > 0 {
				out.warn(&diag.Error{Code: diag.WideRows, What: fmt.Sprintf("table %s maps to few rows, of about %s each", t.From, cost.Size(each)),
					Cause: fmt.Sprintf("%s of a sample of %s share %s; Bigtable allows 256 MB per row and recommends less than 100 MB", terminal.Plural(s.Sharing(), "item"),
						terminal.Plural(len(s.Items), "item"), terminal.Plural(rows, "row"))})
			}
			if cause, fix := s.NoExpiry(found, found.Description.At); cause != "" {
				out.warn(&diag.Error{Code: diag.ExpiryIgnored, What: "no sampled item of table " + t.From + " expires", Cause: cause, Fix: fix})
			}
			if names := s.Unmapped(found); len(names) > 0 {
				out.Unmapped = names
				out.warn(&diag.Error{Code: diag.AttributesUnmapped, What: "attributes of table " + t.From + " are written to no cell of the target",
					Cause: strings.Join(names, ", ")})
			}
			return fmt.Sprintf("%s sampled", terminal.Plural(len(s.Items), "item")), nil
		})
	}
	if address := in.Cfg.LoadsFrom(t); address != "" {
		in.Ask(ctx, manifestTime, source.Noun(address)+" of "+t.From, func(ctx context.Context) (string, error) { return in.export(ctx, &out) })
	}
	if in.Cfg.Cutover.KeepFallback {
		in.Ask(ctx, preflight.ProbeTime, "fallback of "+t.From, func(context.Context) (string, error) { return out.fallback() })
	} else {
		_, _ = out.fallback() // the document says whether one would be possible
	}
	in.sources = append(in.sources, out)
}

// fallback adds to the document whether a fallback is possible, and refuses a table that gets none.
func (out *sourceTable) fallback() (string, error) {
	out.NoWayBack, out.Losses = append([]string{}, out.wayBack.Obstacles...), append([]string{}, out.wayBack.Losses...)
	if len(out.NoWayBack) > 0 {
		return "", &diag.Error{Code: diag.FallbackRefused, What: "table " + out.Source + " cannot follow its rows after a cutover", Cause: strings.Join(out.NoWayBack, "\n"),
			Fix: "change the mapping, or remove cutover.keep_fallback"}
	}
	if len(out.Losses) > 0 {
		return "possible, with losses", nil
	}
	return "possible", nil
}

// tryKey reads one of the items by its key, as `parked retry` does. A run does not read items by
// key. Without tryKey, a missing permission would be noticed only when it is needed.
func (in *Input) tryKey(ctx context.Context, out *sourceTable, items []attribute.Item) {
	if len(items) == 0 {
		return
	}
	table := out.found.Config.From
	_, err := preflight.AskSource(ctx, func(ctx context.Context) (item attribute.Item, err error) {
		item, _, err = in.from.Get(ctx, table, out.found.Mapping.Keys(items[0]))
		return item, err
	})
	var e *diag.Error
	if err != nil && errors.As(preflight.ExplainSource("cannot read an item of table "+table+" by its key", table, err), &e) {
		out.warn(e)
	}
}

// examineRecords lists the shards and reads a page of one shard. So it tests permissions that
// otherwise only a run would use.
func (in *Input) examineRecords(ctx context.Context, out *sourceTable) (string, error) {
	t := out.found
	what := "cannot read the stream of table " + t.Config.From
	stream := in.from.Open(t.Description.StreamARN)
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

func (out *sourceTable) warnReaders() {
	t := out.found
	cause := "DynamoDB does not list the readers of a stream; list Lambda triggers with: aws lambda list-event-source-mappings --event-source-arn " + t.Description.StreamARN
	if len(t.Description.Replicas) > 0 {
		cause = "the table is a global table with replicas in " + strings.Join(t.Description.Replicas, ", ") + "; " + cause
	}
	out.warn(&diag.Error{Code: diag.StreamReaders, What: "a shard of the stream of table " + t.Config.From + " supports two readers; replicator is one of them", Cause: cause})
}

// expiry compares the time-to-live attribute of the source table with the attribute in the
// configuration. A run does not make this request, so a missing permission is a failure only if a
// fallback is to be kept.
func (in *Input) expiry(ctx context.Context, out *sourceTable) (string, error) {
	t := out.found.Config
	attr, err := in.from.Attribute(ctx, t.From)
	if err != nil && in.Cfg.Cutover.KeepFallback { // a way back would write items that DynamoDB removes again
		return "", preflight.ExplainSource("cannot read the time to live of table "+t.From, t.From, err)
	}
	if err != nil {
		return "unknown", nil
	}
	if in.Cfg.Cutover.KeepFallback {
		if out.wayBack, err = preflight.WayBackExpiring(out.found, attr); err != nil {
			return "", err
		}
	}
	if attr == t.TTL.Attribute || !t.ExpiresByGC() {
		return cmp.Or(attr, "off"), nil
	}
	e := &diag.Error{Code: diag.ExpiryDiffers, What: fmt.Sprintf("cells of table %s expire by %s, but its items do not", t.From, t.TTL.Attribute),
		Cause: "the table's time to live is off", Fix: "turn it on for this attribute, or remove ttl"}
	attributed := "off"
	if attr != "" {
		attributed = attr
		e.Cause, e.Fix = "the table's time to live uses "+attr, "write attribute: "+attr
	}
	out.warn(e)
	return attributed, nil
}

// recovery warns if point-in-time recovery is off, because the repair of a loss would then be
// costly. A run does not make this request, so a missing permission is not a failure.
func (in *Input) recovery(ctx context.Context, out *sourceTable) (string, error) {
	table := out.found.Config.From
	r, err := in.from.Recovery(ctx, table)
	switch {
	case cdc.Is(err, cdc.Denied):
		return "", preflight.Untold("unknown: this identity lacks dynamodb:DescribeContinuousBackups")
	case err != nil:
		return "", errors.Join(preflight.Untold("unknown: "+err.Error()), err) // temporary failures are retried
	case r.On:
		return "on", nil
	}
	out.warn(&diag.Error{Code: diag.RecoveryOff, What: "point-in-time recovery of table " + table + " is off",
		Cause: "only a copy of the whole table could repair a gap, and the table cannot be exported", Fix: preflight.RecoveryCommand(out.found.Config.Address())})
	return "off", nil
}

func (out *sourceTable) addSample(s preflight.Sampled) {
	out.Sampled, out.Unmappable = len(s.Items), s.Unmappable
	// The sample is ordered by segment, so keys are taken from all parts of it.
	for table, rows := range s.Rows {
		of := ""
		if len(s.Rows) > 1 {
			of = table + ": "
		}
		for i := range min(shownKeys, len(rows)) {
			out.RowKeys = append(out.RowKeys, of+diag.Printable(rows[i*len(rows)/min(shownKeys, len(rows))]))
		}
	}
	slices.Sort(out.RowKeys)
	if n := total64(s.Unmappable); n > 0 {
		var reasons []string
		for reason, count := range s.Unmappable {
			reasons = append(reasons, fmt.Sprintf("%d: %s", count, reason))
		}
		slices.Sort(reasons)
		out.warn(&diag.Error{Code: diag.SampleUnmappable, Cause: strings.Join(reasons, "\n"),
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
