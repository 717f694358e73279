package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/parked"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/status"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

func newExplain(p *program) *cobra.Command {
	var table, key string
	var values bool
	c := &cobra.Command{
		Use:     "explain [flags]",
		Short:   "Compare one item on both sides, and explain differences",
		GroupID: groupOperate,
		Long: `Show one item on both sides: whether the source holds it, the row it maps to, the row in the target with its version taken apart, the
columns that differ, its parked changes, and a verdict in one sentence.

Nothing is changed, and no worker needs to run. The row is read before the item; if they differ while a worker follows
the stream, both are read again after the lag has passed. Values are shown only with --show-values; the row key, which is
item data, always. The exit status is 0 if both sides could be read.`,
		Example: `  replicator explain --table Orders --key '{"PK":"hats","SK":"fedoras"}'
  replicator explain --table Orders --key '{"PK":"hats","SK":"fedoras"}' --show-values -o json`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			if key == "" {
				return diag.BadUsage("explain needs the key of an item", `give --key '{"PK":"…","SK":"…"}'`)
			}
			ctx, cancel := p.within(c.Context())
			defer cancel()
			return p.explainItem(ctx, table, key, values)
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVar(&table, "table", "", "source `TABLE`; may be left out if the configuration has only one")
	flags.StringVar(&key, "key", "", preflight.KeyHelp)
	flags.BoolVar(&values, "show-values", false, "show the values of cells, which are item data")
	allowEmulatorOfReader(c)
	return c
}

// explanation is what is known of an item: the document of `explain -o json`. What cannot be told is null.
type explanation struct {
	Schema       string         `json:"schema"` // replicator.explain/v1
	At           time.Time      `json:"at"`     // the item was read
	Table        string         `json:"table"`
	KeyHash      string         `json:"key_hash"`
	Source       sourceItem     `json:"source"`
	Rule         rule           `json:"rule"`
	Rows         []explainedRow `json:"rows"`
	Parked       []parked.Entry `json:"parked"`
	Shard        explainedShard `json:"shard"`
	Lag          *float64       `json:"lag_seconds"`
	LagEstimated bool           `json:"lag_estimated"`
	Verdict      itemVerdict    `json:"verdict"`
}

// sourceItem is the item as the source holds it.
type sourceItem struct {
	Present    bool    `json:"present"`
	Attributes int     `json:"attributes"`
	Unmappable *string `json:"unmappable"` // why it has no row; null if it has or if it is absent
}

// explainedRow is a row that is, or was, the item's.
type explainedRow struct {
	Table     string        `json:"table"`
	Row       octets        `json:"row"`
	Wanted    bool          `json:"wanted"` // the item maps to it now
	Live      *heldVersion  `json:"live"`
	Tombstone *heldVersion  `json:"tombstone"`
	Cells     int           `json:"cells"` // that the target holds of the item
	Differs   []differingAt `json:"differences"`
	// Equal tells that the row is as it should be: alive with the item's cells, or without anything of it.
	Equal bool `json:"equal"`
}

// heldVersion is a version taken apart.
type heldVersion struct {
	Version    string     `json:"version"`
	Generation uint32     `json:"generation"`
	Hop        uint32     `json:"hop"`
	Sequence   string     `json:"sequence"`
	Count      uint16     `json:"count"`
	LoadedAt   *time.Time `json:"loaded_at"`  // when a load read it; null for a change of the stream
	WrittenAt  *time.Time `json:"written_at"` // of a tombstone, by the server's clock
}

// differingAt is a column that is not as it should be. Sizes are in bytes; null is no such cell.
type differingAt struct {
	Column    octets `json:"column"`
	WantBytes *int   `json:"want_bytes"`
	HaveBytes *int   `json:"have_bytes"`
	Want      octets `json:"want,omitempty"` // with --show-values
	Have      octets `json:"have,omitempty"`
}

// explainedShard is where the row's version came from, and who brings the next change, as far as DynamoDB lets it be known.
type explainedShard struct {
	Carried *string `json:"carried"` // the shard that the live version or the tombstone came from
	AtHop   int     `json:"at_hop"`  // how many shards of the ledger it could have been
	Next    *string `json:"next"`    // the shard that would bring the next change, if only one is open
	Open    int     `json:"open"`    // how many are
}

func (p *program) explainItem(ctx context.Context, table, key string, values bool) error {
	cfg, err := p.load()
	if err != nil {
		return err
	}
	t, err := chosenTable(cfg, table)
	if err != nil {
		return err
	}
	src, found, err := p.openTable(ctx, cfg, t)
	if err != nil {
		return err
	}
	keys, err := preflight.ParseKey(key, found.Description.PrimaryKey)
	if err != nil {
		return err
	}
	target, err := preflight.OpenTarget(ctx, cfg)
	if err != nil {
		return err
	}
	defer target.Close()
	_, _ = fmt.Fprintln(p.Stderr, preflight.BothEnds(cfg, src.Region, p.Env))
	look := &itemLook{cfg: cfg, source: src, target: target, table: found, keys: keys, program: p, values: values}
	e, err := look.twice(ctx)
	if err != nil {
		return err
	}
	if p.AsJSON() {
		return p.WriteJSON(e)
	}
	return e.write(p.Stdout)
}

// itemLook looks at one item.
type itemLook struct {
	*program
	cfg    *config.Config
	source *preflight.Source
	target *preflight.Target
	table  preflight.Table
	keys   attribute.Item
	values bool
}

// longestWait bounds the wait before a second look.
const longestWait = 10 * time.Second

// twice looks again if the ends differ while a worker may be about to bring them together.
func (l *itemLook) twice(ctx context.Context) (*explanation, error) {
	e, again, err := l.once(ctx)
	if err != nil || again <= 0 {
		return e, err
	}
	timer := time.NewTimer(min(again, longestWait))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, terminal.Ended(ctx)
	}
	e, _, err = l.once(ctx)
	return e, err
}

// once looks at the ledger, the rows, the item and the rows that it maps to, in this order: what differs afterwards was not
// brought by a change between the looks. The duration is after how long a second look could tell more, 0 if it could not.
func (l *itemLook) once(ctx context.Context) (*explanation, time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, preflight.ReadTime, preflight.ErrReadTime)
	defer cancel()
	source := l.table.Config.From
	s, err := status.Gather(ctx, l.cfg, l.target, l.Env, source, time.Now())
	if err != nil {
		return nil, 0, err
	}
	f := itemFindings{status: &s.Tables[0], leases: s.Leases}
	lot := sink.NewParking(l.target.Data.Records(l.cfg.State.Table), l.cfg.Name)
	m := l.table.Mapping
	if err := lot.OfItem(ctx, source, m.ItemKey(l.keys), func(ref sink.Ref, record transform.Parked) error {
		f.parked = append(f.parked, parked.Record{Ref: ref, Parked: record})
		return nil
	}); err != nil && !missing(err) {
		return nil, 0, parked.Explain(ctx, l.cfg, err)
	}
	if err := l.looks(ctx, &f); err != nil {
		return nil, 0, err
	}
	placed := transform.Placement{Rule: -1}
	if f.present {
		placed, _ = m.Map(f.image, f.readAt) // that it cannot be mapped is told already
	}
	f.ignored, f.moves = placed.Ignored, !m.DependsOnKeyOnly()
	verdict, again := judge(f)
	e := &explanation{Schema: "replicator.explain/v1", At: f.readAt.UTC(), Table: source, KeyHash: sink.HashOf(m.ItemKey(l.keys)),
		Source: sourceItem{Present: f.present, Attributes: len(f.image.Attributes()), Unmappable: status.Known(f.unmappable)},
		Rule:   ruleOf(l.cfg, l.table.Config, placed), Rows: []explainedRow{}, Parked: []parked.Entry{}, Lag: f.status.LagSeconds, LagEstimated: f.status.LagEstimated, Verdict: verdict}
	for _, row := range f.rows {
		e.Rows = append(e.Rows, row.explain(l.values))
	}
	for _, record := range f.parked {
		e.Parked = append(e.Parked, parked.EntryOf(record.Ref, record.Parked))
	}
	e.Shard = shardOf(f.held(), s.Shards)
	return e, again, nil
}

// looks reads the rows and the item.
func (l *itemLook) looks(ctx context.Context, f *itemFindings) error {
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
		err := l.target.Data.ReadRows(ctx, table, sink.Single(row), func(r sink.Row) error { seen[at] = r; return nil })
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
	f.readAt = time.Now()
	if f.image, f.present, err = l.source.Tables.Get(ctx, m.Source, l.keys); err != nil {
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

// missing tells that a table does not exist, which is so before the first run.
func missing(err error) bool {
	var failed *sink.Error
	return errors.As(err, &failed) && failed.Code == codes.NotFound.String()
}
