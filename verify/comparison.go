package verify

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

const (
	// DefaultSettle is the wait before a row's second check. It begins when all changes are
	// applied.
	DefaultSettle = 30 * time.Second
	// lookItems is how many items are read concurrently. Each item has at most 400 KB.
	lookItems = 32
	// rounds bounds how often a row is checked again if its version rises.
	rounds = 3
)

// Comparison compares one source table with its target. Mapping, Source and Target are required. It
// is safe for concurrent use.
type Comparison struct {
	Mapping *transform.Mapping
	Source  Source
	Target  Target
	// Owned reports that only replicator writes the target. If so, a row without a version counts
	// as extra if its key suggests a deleted item. Otherwise it counts as foreign.
	Owned bool
	// Late is how long after the commit of a change the application may still write it to the
	// target. It is 0 if the application does not write the target. Only explanations of
	// differences use it.
	Late  time.Duration
	Scope Scope
	// Generation is the ledger's generation; 0 if unknown. If a differing row has a higher
	// generation, that explains the difference.
	Generation uint32
	// Applied reports whether all changes committed up to a time are applied. If it is nil, all
	// changes are applied, because no process writes the source.
	Applied Applied
	// Unapplied, if not nil, is called when Applied returns false. If no process applies changes,
	// Unapplied reads the changes committed up to that time. It returns a function that reports
	// whether a place has such a change. Rows at places with such changes are in flight, and all
	// other rows are judged. If a process applies changes, Unapplied returns nil, and the
	// comparison waits.
	Unapplied func(ctx context.Context, to time.Time) (waits func(Place) bool, err error)
	// Patience is how long a part waits for all changes to be applied before it fails with
	// *NotApplied. 0 means 15 minutes.
	Patience time.Duration
	// Settle is how long after that wait a row is checked again (V1); 0 means immediately.
	Settle time.Duration
	// Retry repeats a read if a retry may help. If it is nil, each read is tried once.
	Retry func(ctx context.Context, op func(ctx context.Context) error) error
	// Pace waits until the limits allow more items to be read from the source and more rows from
	// the target. If it is nil, there is no limit. The argument `units` is the read capacity that
	// the items cost; 0 if unknown.
	Pace func(ctx context.Context, items int, units float64, rows int) error
	// Now is the source's clock. If it is nil, this process's clock is used.
	Now func(ctx context.Context) time.Time
	// Bounds limits what is kept in memory; zero fields mean the defaults.
	Bounds Bounds
}

// Bounds are the maximum numbers that a part keeps. In addition, a part keeps rows of 16 MiB in
// total, or a single longer row.
type Bounds struct {
	Findings   int // default 2,000
	Candidates int // rows that wait for their second check; default 1,000
	PageRows   int // rows of the target in a page; default 200
}

func (b Bounds) orDefault() Bounds {
	return Bounds{cmp.Or(b.Findings, 2000), cmp.Or(b.Candidates, 1000), cmp.Or(b.PageRows, 200)}
}

// Place is a row to check. Its items are items that may map to the row, in addition to the items
// that the row itself names.
type Place struct {
	Table, Row string
	Keys       []attribute.Item
}

// read reads every item of a set, many concurrently.
func (c *Comparison) read(ctx context.Context, set *itemSet) error {
	g := task.NewGroup(ctx, lookItems)
	for i := range set.items {
		g.Go(fmt.Sprintf("item %d", i), func(ctx context.Context) error {
			return c.retry(ctx, func(ctx context.Context) error {
				image, present, err := c.Source.Get(ctx, c.Mapping.Source, set.items[i].keys)
				if !present {
					image = attribute.Item{}
				}
				set.items[i].image = image
				return err
			})
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return c.pace(ctx, len(set.items), float64(len(set.items)), 0)
}

// itemSet is a set of items by key.
type itemSet struct {
	mapping *transform.Mapping
	index   map[string]int
	items   []foundItem
}

type foundItem struct {
	keys, image attribute.Item
	mapped      bool
	rows        []transform.RowMutation
	unmapped    bool
}

func newItemSet(m *transform.Mapping) *itemSet { return &itemSet{mapping: m, index: map[string]int{}} }

func (s *itemSet) add(keys ...attribute.Item) {
	for _, k := range keys {
		if name := s.mapping.ItemKey(k); k.Exists() && !s.has(name) {
			s.index[name] = len(s.items)
			s.items = append(s.items, foundItem{keys: s.mapping.Keys(k)})
		}
	}
}

func (s *itemSet) has(name string) bool { _, known := s.index[name]; return known }

// wanted returns the mutations of the items in `asked` that map to a place, each once. It also
// reports whether one of these items cannot be mapped.
func (s *itemSet) wanted(p Place, asked []attribute.Item, at time.Time) (wanted []Wanted, unmapped bool) {
	seen := map[int]bool{}
	for _, keys := range asked {
		i, known := s.index[s.mapping.ItemKey(keys)]
		if !known || seen[i] {
			continue
		}
		seen[i] = true
		f := &s.items[i]
		if !f.mapped && f.image.Exists() {
			b := transform.Load(s.mapping, []attribute.Item{f.image}, 0, at)
			f.rows, f.unmapped = b.Rows, len(b.Parked) > 0
		}
		f.mapped = true
		unmapped = unmapped || f.unmapped
		for _, r := range f.rows {
			if r.Table == p.Table && r.Row == p.Row && !r.Remove {
				wanted = append(wanted, Wanted{r, f.image})
			}
		}
	}
	return wanted, unmapped
}

func (c *Comparison) sweeping(table string) sink.Sweeping {
	return sink.Sweeping{Mapping: c.Mapping, Table: table, Owned: c.Owned}
}

func (c *Comparison) now(ctx context.Context) time.Time {
	if c.Now == nil {
		return task.Now(ctx)
	}
	return c.Now(ctx)
}

func (c *Comparison) retry(ctx context.Context, op func(ctx context.Context) error) error {
	if c.Retry == nil {
		return op(ctx)
	}
	return c.Retry(ctx, op)
}

func (c *Comparison) pace(ctx context.Context, items int, units float64, rows int) error {
	if c.Pace == nil {
		return nil
	}
	return c.Pace(ctx, items, units, rows)
}
