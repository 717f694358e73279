package reverse

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/canary"
	"github.com/dynamodb-bigtable/replicator/internal/fallback"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Rows reads the rows of the target.
type Rows interface {
	sink.Reader
	ReadSet(ctx context.Context, table string, rows []string, f func(sink.Row) error) error
	SampleKeys(ctx context.Context, table string) ([]string, error)
}

// Items reads the items of the source, by consistent reads.
type Items interface {
	backfill.ItemSource
	backfill.ScanSource
}

// Comparison compares all rows of a target table with the items of its only source table. All
// fields without "optional" are required.
type Comparison struct {
	Ledger *checkpoint.Ledger
	// Form is the mapping of the table, both ways, with the types that the leader knows.
	Form          fallback.Form
	Source, Table string
	Families      []string // of the mapping
	Key           []string // names of the attributes of the primary key
	Rows          Rows
	Items         Items
	// Frozen reports that no process writes to either side. Then a difference counts at once.
	Frozen bool
	// Repair asks the leader to make differing items equal to their rows. It has no effect if
	// Frozen.
	Repair bool
	// Retry, optional, repeats a read or a write of the ledger if that may help.
	Retry func(ctx context.Context, op func(ctx context.Context) error) error
	// Pace, optional, waits until the limits allow more items to be read, and more units of read
	// capacity. An item that is looked up counts as one unit.
	Pace func(ctx context.Context, items int, units float64) error
	// Progress, optional, is called with the numbers of rows and items that were read so far.
	Progress func(rows, items int64)
	Timings  Timings
}

// New returns the comparison of a mapping that gives its items back. The types are those that the
// leader of the way back knows.
func New(ledger *checkpoint.Ledger, m *transform.Mapping, types transform.Types, items Items, rows Rows) *Comparison {
	table := m.Tables()[0]
	c := &Comparison{Ledger: ledger, Form: fallback.Inverse{Mapping: m, Types: types}, Source: m.Source, Table: table, Families: m.Managed(table), Rows: rows, Items: items}
	for _, k := range m.PrimaryKey {
		c.Key = append(c.Key, k.Name)
	}
	return c
}

// Timings are the durations of a comparison. The zero value of each stands for its default.
type Timings struct {
	// Again is the time between two looks at a row that differs; default 3 s. Looks is the number
	// of further looks after the first; default 5.
	Again time.Duration
	Looks int
	// Poll is the time between two reads of the ledger while the leader looks at rows; default 1 s.
	Poll time.Duration
	// Patience is how long the leader may take for the rows that it was asked to look at; default 2
	// min more than the wait W of the way back.
	Patience time.Duration
}

func (t Timings) orDefault() Timings {
	or := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	or(&t.Again, 3*time.Second)
	or(&t.Poll, time.Second)
	if t.Looks == 0 {
		t.Looks = 5
	}
	return t
}

const (
	// atOnce is the number of ranges and segments that are read concurrently, and getsAtOnce the
	// number of items that each looks up concurrently. The client keeps as many connections.
	atOnce, getsAtOnce = 4, 16
	// ranges is the maximum number of ranges of rows, and segments the number of segments of the
	// scan. They are far more than atOnce, so that all readers end at about the same time.
	ranges, segments = 64, 64
	// pageRows and pageBytes bound the rows that one reader keeps. A row may be larger alone.
	pageRows, pageBytes = 500, 4 << 20
	// setRows is the number of rows that one request looks up.
	setRows = 50
	// mostLater is the number of differing rows that are looked at again together.
	mostLater = 1000
)

// run is a comparison that runs.
type run struct {
	*Comparison
	times    Timings
	canaries *canary.Set
	asking   *task.Limit // guards known
	known    suspects

	mu     sync.Mutex
	result Result
	later  []string // rows that differed at the first look
}

// Compare compares all rows and items. It fails if it cannot read one of them, and then it has no
// result.
func (c *Comparison) Compare(ctx context.Context) (Result, error) {
	r := c.begin(ctx)
	samples, err := c.Rows.SampleKeys(ctx, c.Table)
	if err != nil {
		return r.result, fmt.Errorf("sample the row keys of %s: %w", c.Table, err)
	}
	g := task.NewGroup(ctx, atOnce)
	for _, part := range sink.Split(sink.Range{}, samples, ranges) {
		g.Go("compare rows with items", func(ctx context.Context) error { return r.rows(ctx, part) })
	}
	for segment := range segments {
		g.Go("look for items without a row", func(ctx context.Context) error { return r.items(ctx, segment) })
	}
	if err := g.Wait(); err != nil {
		return r.result, err
	}
	return r.end(ctx)
}

func (c *Comparison) begin(ctx context.Context) *run {
	r := &run{Comparison: c, times: c.Timings.orDefault(), canaries: canary.New(c.Ledger.ID(), c.Source), asking: task.NewLimit(1)}
	r.result.BeganAt, r.result.Frozen = c.Ledger.Now(ctx), c.Frozen
	return r
}

// end looks again at the rest of the differing rows.
func (r *run) end(ctx context.Context) (Result, error) {
	if err := r.confirm(ctx, r.later); err != nil {
		return r.result, err
	}
	r.result.EndedAt = r.Ledger.Now(ctx)
	return r.result, nil
}

// counted adds to the numbers of rows, items and unmapped items that were read.
func (r *run) counted(rows, items, unmapped int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Rows, r.result.Items, r.result.Unmapped = r.result.Rows+int64(rows), r.result.Items+int64(items), r.result.Unmapped+int64(unmapped)
	if r.Progress != nil {
		r.Progress(r.result.Rows, r.result.Items)
	}
}

// retry repeats a request if that may help.
func (c *Comparison) retry(ctx context.Context, op func(ctx context.Context) error) error {
	if c.Retry == nil {
		return op(ctx)
	}
	return c.Retry(ctx, op)
}

// pace waits for the limits.
func (c *Comparison) pace(ctx context.Context, items int, units float64) error {
	if c.Pace == nil {
		return nil
	}
	return c.Pace(ctx, items, units)
}
