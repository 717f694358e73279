package verify

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// lookBytes bounds the total size of rows that are checked together. A single row may be longer.
const lookBytes = 16 << 20

// errPageFull ends a read of rows early.
var errPageFull = errors.New("the page is full")

// Look is the result of one check of a row. At is a time after the last read.
type Look struct {
	Place
	At time.Time
	Verdict
}

// Look checks the rows of these places. It reads each row first. Then it consistently reads the
// items that the row names and the items of the place. The results are in the order of the places.
// A single check does not prove that a row is wrong, because it may be in flight (V1).
func (c *Comparison) Look(ctx context.Context, places ...Place) ([]Look, error) {
	looks := make([]Look, 0, len(places))
	err := c.looks(ctx, places, func(look Look) error { looks = append(looks, look); return nil })
	return looks, err
}

// looks checks the rows of places in order, several at a time. A Look has the values of all columns
// that differ. So `visit` should keep only what it needs (V5).
func (c *Comparison) looks(ctx context.Context, places []Place, visit func(look Look) error) error {
	return c.pages(ctx, places, lookItems, func(places []Place, rows []sink.Row) error {
		looks, err := c.judge(ctx, places, rows)
		for i := 0; err == nil && i < len(looks); i++ {
			err = visit(looks[i])
		}
		return err
	})
}

// pages reads the rows of places in order, at most `most` of them at a time. If the rows are long,
// it reads fewer at a time.
func (c *Comparison) pages(ctx context.Context, places []Place, most int, visit func(places []Place, rows []sink.Row) error) error {
	for len(places) > 0 {
		page := places[:min(most, len(places))]
		rows, err := c.rows(ctx, page)
		switch {
		case errors.Is(err, errPageFull): // the rows together are too long
			most = (len(page) + 1) / 2
			continue
		case err != nil:
			return err
		}
		if err := visit(page, rows); err != nil {
			return err
		}
		places = places[len(page):]
	}
	return nil
}

// judge compares rows with the mutations of the items that they name.
func (c *Comparison) judge(ctx context.Context, places []Place, rows []sink.Row) ([]Look, error) {
	looks := make([]Look, len(places))
	items := newItemSet(c.Mapping)
	shares := make([][]sink.Share, len(places))
	strangers := make([]int, len(places))
	asked := make([][]attribute.Item, len(places))
	for i, p := range places {
		shares[i], strangers[i] = c.sweeping(p.Table).Shares(rows[i])
		for _, s := range shares[i] {
			asked[i] = append(asked[i], s.Items...)
		}
		if len(shares[i])+strangers[i] == 0 { // no version names the row's item
			asked[i] = append(asked[i], c.Mapping.ItemsOf(p.Table, p.Row, false)...)
		}
		asked[i] = append(asked[i], p.Keys...)
		items.add(asked[i]...)
	}
	if err := c.read(ctx, items); err != nil {
		return nil, err
	}
	at := c.now(ctx)
	for i, p := range places {
		wanted, unmapped := items.wanted(p, asked[i], at)
		looks[i] = Look{Place: p, At: at}
		looks[i].Verdict = Judge(c.Mapping, p.Table, rows[i], shares[i], strangers[i], wanted, at)
		looks[i].Unmapped = unmapped
		for n := range looks[i].Findings {
			looks[i].Findings[n].explain(c.Late)
			looks[i].Findings[n].outrank(c.Generation)
		}
	}
	return looks, nil
}

// rows reads the rows of places, in their order. A row that does not exist has only a key. If
// several rows together are too long, the error is errPageFull.
func (c *Comparison) rows(ctx context.Context, places []Place) ([]sink.Row, error) {
	found := make([]sink.Row, len(places))
	index := map[[2]string][]int{}
	var tables []string
	keys := map[string][]string{}
	for i, p := range places {
		found[i].Key = p.Row
		at := [2]string{p.Table, p.Row}
		if len(index[at]) == 0 {
			if keys[p.Table] == nil {
				tables = append(tables, p.Table)
			}
			keys[p.Table] = append(keys[p.Table], p.Row)
		}
		index[at] = append(index[at], i)
	}
	read, bytes := 0, 0
	full := func() bool { return read > 1 && bytes > lookBytes }
	for _, table := range tables {
		before, beforeBytes := read, bytes
		err := c.retry(ctx, func(ctx context.Context) error {
			read, bytes = before, beforeBytes // an interrupted read begins again
			err := c.Target.ReadSet(ctx, table, keys[table], func(row sink.Row) error {
				if read, bytes = read+1, bytes+size(row); full() {
					return errPageFull
				}
				for _, i := range index[[2]string{table, row.Key}] {
					found[i] = row
				}
				return nil
			})
			if full() {
				return nil // errPageFull must not be retried
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if full() {
		return nil, cmp.Or(c.pace(ctx, 0, 0, read), errPageFull)
	}
	return found, c.pace(ctx, 0, 0, len(places))
}

// size returns the approximate size of a row in bytes.
func size(row sink.Row) int {
	n := len(row.Key)
	for _, cells := range [][]transform.Cell{row.Cells, row.Own} {
		for i := range cells {
			n += len(cells[i].Family) + len(cells[i].Qualifier) + len(cells[i].Value)
		}
	}
	return n
}
