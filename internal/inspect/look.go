package inspect

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/itemkey"
	"github.com/dynamodb-bigtable/replicator/internal/parked"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/status"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Explain compares one item of a table in both databases. The argument `key` is the item's primary
// key in JSON. If values is true, the explanation includes the values of differing cells.
func Explain(ctx context.Context, p *terminal.Console, cfg *config.Config, ends desk.Ends, with string, t config.Table, key string, values bool) (*Explanation, error) {
	m, err := ends.Open(ctx, p, cfg, desk.Request{Command: "explain", Table: t.From, With: with})
	if err != nil {
		return nil, err
	}
	defer m.Close()
	if err := m.Connect(ctx); err != nil {
		return nil, err
	}
	keys, err := itemkey.Parse(key, m.Tables[0].Description.PrimaryKey)
	if err != nil {
		return nil, err
	}
	l := &look{Console: p, cfg: cfg, migration: m, table: m.Tables[0], keys: keys, values: values}
	return l.twice(ctx)
}

// look compares one item.
type look struct {
	*terminal.Console
	cfg       *config.Config
	migration *desk.Migration
	table     preflight.Table
	keys      attribute.Item
	values    bool
}

// longestWait is the maximum wait before a second read.
const longestWait = 10 * time.Second

// twice reads the item and its rows. If the rows differ from the item, and a worker may soon apply
// the missing change, it reads the item and the rows again.
func (l *look) twice(ctx context.Context) (*Explanation, error) {
	e, again, err := l.once(ctx)
	if err != nil || again <= 0 {
		return e, err
	}
	if task.Sleep(ctx, min(again, longestWait)) != nil {
		return nil, terminal.Ended(ctx)
	}
	if err := l.migration.Refresh(ctx); err != nil {
		return nil, err
	}
	e, _, err = l.once(ctx)
	return e, err
}

// once reads the item and judges it. The duration is the time after which a second read may have
// another result; 0 if it cannot.
func (l *look) once(ctx context.Context) (*Explanation, time.Duration, error) {
	f, err := l.read(ctx)
	if err != nil {
		return nil, 0, err
	}
	verdict, again := judge(f)
	return l.explanation(&f, verdict), again, nil
}

// read reads the ledger, the rows, the item and the rows to which it maps, in this order. In this
// order, a change between two reads cannot appear as a difference.
func (l *look) read(ctx context.Context) (itemFindings, error) {
	ctx, cancel := preflight.Reading(ctx)
	defer cancel()
	source := l.table.Config.From
	in, err := status.Of(ctx, l.cfg, l.migration)
	if err != nil {
		return itemFindings{}, err
	}
	s := in.Judge(l.Env, "", l.migration.Now(ctx))
	f := itemFindings{status: &s.Tables[0], leases: s.Leases, shards: s.Shards, ageing: ageingFamilies(l.table.Config)}
	lot := sink.NewParking(l.migration.To.Records(l.cfg.State.Table), l.cfg.Name)
	m := l.table.Mapping
	if err := lot.OfItem(ctx, source, m.ItemKey(l.keys), func(ref sink.Ref, record transform.Parked) error {
		f.parked = append(f.parked, parked.Record{Ref: ref, Parked: record})
		return nil
	}); err != nil && !missing(err) {
		return itemFindings{}, parked.Explain(ctx, l.cfg, err)
	}
	if err := l.looks(ctx, &f); err != nil {
		return itemFindings{}, err
	}
	f.placed = transform.Placement{Rule: -1}
	if f.present {
		// If the item cannot be mapped, looks has recorded the reason.
		f.placed, _ = m.Map(f.image, f.readAt)
	}
	f.ignored, f.moves = f.placed.Ignored, !m.DependsOnKeyOnly()
	return f, nil
}

// explanation returns the document of the findings.
func (l *look) explanation(f *itemFindings, verdict itemVerdict) *Explanation {
	e := &Explanation{Schema: "replicator.explain/v1", At: f.readAt.UTC(), Table: l.table.Config.From, KeyHash: sink.HashOf(l.table.Mapping.ItemKey(l.keys)),
		Source: sourceItem{Present: f.present, Attributes: len(f.image.Attributes()), Unmappable: terminal.Known(f.unmappable)},
		Rule:   ruleOf(l.cfg, l.table.Config, f.placed), Rows: []explainedRow{}, Parked: []parked.Entry{}, Lag: f.status.LagSeconds, LagEstimated: f.status.LagEstimated, Verdict: verdict, Likely: reasonOf(*f, verdict)}
	for _, row := range f.rows {
		e.Rows = append(e.Rows, row.explain(l.values))
	}
	for _, record := range f.parked {
		e.Parked = append(e.Parked, parked.EntryOf(record.Ref, record.Parked))
	}
	e.Shard = shardOf(f.held(), f.shards)
	return e
}

// looks reads the rows and the item.
func (l *look) looks(ctx context.Context, f *itemFindings) error {
	m := l.table.Mapping
	var images []attribute.Item
	for _, record := range f.parked {
		images = append(images, record.Change.Old, record.Change.New)
	}
	seen := map[[2]string]sink.Row{}
	lookAt := func(table, row string) error {
		at := [2]string{table, row}
		if _, known := seen[at]; known {
			return nil
		}
		seen[at] = sink.Row{Key: row}
		err := l.migration.To.ReadRows(ctx, table, sink.Single(row), func(r sink.Row) error { seen[at] = r; return nil })
		if err != nil && !missing(err) {
			return preflight.ReadingFailed(ctx, "cannot read table "+table, err)
		}
		return nil
	}
	for _, row := range sink.Removals(m, l.keys, images) {
		if err := lookAt(row.Table, row.Row); err != nil {
			return err
		}
	}
	var err error
	f.readAt = l.migration.Now(ctx)
	if f.image, f.present, err = l.migration.From.Get(ctx, m.Source, l.keys); err != nil {
		return preflight.ExplainSource("cannot read an item of table "+m.Source, m.Source, err)
	}
	wanted, err := sink.Wanted(m, l.keys, images, f.image, f.readAt)
	var bad *sink.BadItem
	if errors.As(err, &bad) {
		f.unmappable = bad.Reason
		wanted = sink.Removals(m, l.keys, append(images, f.image))
	} else if err != nil {
		return err
	}
	f.expired, f.outlives = m.Collected(f.image, f.readAt), m.Outlives()
	for _, want := range wanted {
		if err := lookAt(want.Table, want.Row); err != nil {
			return err
		}
		f.rows = append(f.rows, itemRow{want: want, seen: seen[[2]string{want.Table, want.Row}]})
	}
	return nil
}

// missing reports whether a table does not exist, as before the first run.
func missing(err error) bool {
	var failed *sink.Error
	return errors.As(err, &failed) && failed.Code == codes.NotFound.String()
}
