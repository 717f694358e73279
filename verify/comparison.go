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
	// DefaultSettle is how long after everything is applied a row is looked at again.
	DefaultSettle = 30 * time.Second
	// lookItems is how many items are read at once, of at most 400 KB each.
	lookItems = 32
	// rounds bounds how often a row that moves on is looked at again.
	rounds = 3
)

// Comparison compares one source table with its target. Mapping, Source and Target are required. It
// may be used by many tasks at once.
type Comparison struct {
	Mapping *transform.Mapping
	Source  Source
	Target  Target
	// Owned says that every row of the target is ours: rows without a version whose key suggests an
	// item that is gone are extra then, and foreign otherwise.
	Owned bool
	// Late is how long after its commit an application may write the target, which then settles; 0: it
	// does not. Differences are explained by it.
	Late  time.Duration
	Scope Scope
	// Generation is that of the ledger; 0: it is not known. Versions above it are explained.
	Generation uint32
	// Applied says whether all that was committed up to a time has been applied; nil: everything
	// always has, because nobody writes.
	Applied Applied
	// Unapplied, if not nil, is asked where that is not so. If nobody applies changes, it reads those
	// that were committed up to that time at least, and says which places they concern: these are in
	// flight, and others are judged. It is nil if somebody does, who is waited for.
	Unapplied func(ctx context.Context, to time.Time) (waits func(Place) bool, err error)
	// Patience is how long it may take until all is applied; a part fails with *NotApplied then. 0 is
	// 15 minutes.
	Patience time.Duration
	// Settle is how long after that a row is looked at again (V1); 0 is at once.
	Settle time.Duration
	// Retry repeats a read while that may help; nil means one attempt.
	Retry func(ctx context.Context, op func(ctx context.Context) error) error
	// Pace waits until so many more items may be read of the source, and rows of the target; nil
	// means no limit. Units are the read capacity that the items cost, 0 if it is not known.
	Pace func(ctx context.Context, items int, units float64, rows int) error
	// Now is the source's clock; nil: this process's.
	Now func(ctx context.Context) time.Time
	// Bounds limit what is kept; zero fields are the defaults.
	Bounds Bounds
}

// Bounds are what a part keeps at most, besides some rows of 16 MiB together, or a longer one.
type Bounds struct {
	Findings   int // default 2,000
	Candidates int // that wait for their second look; default 1,000
	PageRows   int // rows of the target that a page has; default 200
}

func (b Bounds) orDefault() Bounds {
	return Bounds{cmp.Or(b.Findings, 2000), cmp.Or(b.Candidates, 1000), cmp.Or(b.PageRows, 200)}
}

// Place is a row to look at, with the items that may have it besides those that it names.
type Place struct {
	Table, Row string
	Keys       []attribute.Item
}

// read gets every item of a set, many at once.
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

// itemSet is items by their keys, each once.
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

// wanted returns what those of the items that map to a place put there, each once, and whether an item
// among them cannot be mapped.
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
