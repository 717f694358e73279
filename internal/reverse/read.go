package reverse

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/internal/fallback"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// errFull ends the reading of a page.
var errFull = errors.New("the page is full")

// rowOf is a row with the newest cells of the mapping. Without cells, there is no row.
type rowOf struct {
	key   string
	cells []transform.Cell
}

// rows compares the rows of a range with their items. A row with only cells of other families, such
// as the witness row or a tombstone, is no row: if it has an item, the scan finds it.
func (r *run) rows(ctx context.Context, part sink.Range) error {
	for {
		page, next, err := r.page(ctx, part)
		if err != nil {
			return fmt.Errorf("read rows of %s: %w", r.Table, err)
		}
		found, err := r.compare(ctx, page)
		if err != nil {
			return err
		}
		r.counted(len(page), 0, 0)
		if err := r.differ(ctx, found); err != nil || next == "" {
			return err
		}
		part.From = next
	}
}

// page reads the first rows of a range. The result `next` begins the rest; "" if there is none.
func (r *run) page(ctx context.Context, part sink.Range) (page []rowOf, next string, err error) {
	read := func(ctx context.Context) error {
		size := 0
		page, next = nil, ""
		return r.Rows.ReadRows(ctx, r.Table, part, func(row sink.Row) error {
			if cells := fallback.Newest(row, r.Families); len(cells) > 0 && !strings.HasPrefix(row.Key, transform.WitnessPrefix) {
				page = append(page, rowOf{row.Key, cells})
			}
			for _, c := range row.Cells {
				size += len(c.Value)
			}
			if len(page) >= pageRows || size >= pageBytes {
				next = row.Key + "\x00"
				return errFull
			}
			return nil
		})
	}
	err = r.retry(ctx, func(ctx context.Context) error {
		if err := read(ctx); !errors.Is(err, errFull) {
			return err
		}
		return nil
	})
	return page, next, err
}

// items looks up the rows of the items of a segment. Items with a row are compared by the row.
func (r *run) items(ctx context.Context, segment int) error {
	var after attribute.Item
	for {
		var page backfill.ScanPage
		err := r.retry(ctx, func(ctx context.Context) (err error) {
			page, err = r.Items.Scan(ctx, r.Source, segment, segments, after, 0)
			return err
		})
		if err == nil {
			err = r.pace(ctx, len(page.Items), page.Consumed)
		}
		if err != nil {
			return fmt.Errorf("scan table %s: %w", r.Source, err)
		}
		rows, unmapped := r.rowKeys(page.Items)
		r.counted(0, len(rows)+unmapped, unmapped)
		for batch := range slices.Chunk(rows, setRows) {
			if err := r.findRows(ctx, batch); err != nil {
				return err
			}
		}
		if after = page.Next; !after.Exists() {
			return nil
		}
	}
}

// rowKeys returns the row keys of items without the canaries of the cutover, and the number of items
// to which no row can belong.
func (r *run) rowKeys(items []attribute.Item) (rows []string, unmapped int) {
	for _, item := range items {
		if r.canaries.Has(item, r.Key...) {
			continue
		}
		if row, err := r.Form.Row(r.primaryKey(item)); err != nil {
			unmapped++
		} else {
			rows = append(rows, row)
		}
	}
	return rows, unmapped
}

// findRows looks up the rows of items, and compares the items that have none.
func (r *run) findRows(ctx context.Context, keys []string) error {
	read, err := r.readRows(ctx, keys)
	if err != nil {
		return err
	}
	without := slices.DeleteFunc(read, func(row rowOf) bool { return len(row.cells) > 0 })
	found, err := r.compare(ctx, without)
	if err != nil {
		return err
	}
	return r.differ(ctx, found)
}

// primaryKey returns the primary key of an item.
func (r *run) primaryKey(item attribute.Item) attribute.Item {
	var list []attribute.Attribute
	for _, name := range r.Key {
		if v, ok := item.Get(name); ok {
			list = append(list, attribute.Attribute{Name: name, Value: v})
		}
	}
	return attribute.NewItem(list)
}

// look reads rows and compares them with their items.
func (r *run) look(ctx context.Context, keys []string) ([]difference, error) {
	rows, err := r.readRows(ctx, keys)
	if err != nil {
		return nil, err
	}
	return r.compare(ctx, rows)
}

// readRows reads rows, in the order of the keys.
func (r *run) readRows(ctx context.Context, keys []string) ([]rowOf, error) {
	rows := make([]rowOf, len(keys))
	at := make(map[string]int, len(keys))
	for i, key := range keys {
		at[key] = i
	}
	err := r.retry(ctx, func(ctx context.Context) error {
		for i, key := range keys {
			rows[i] = rowOf{key: key}
		}
		return r.Rows.ReadSet(ctx, r.Table, keys, func(row sink.Row) error {
			rows[at[row.Key]].cells = fallback.Newest(row, r.Families)
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read rows of %s: %w", r.Table, err)
	}
	return rows, nil
}

// compare reads the items of rows and returns the rows that differ.
func (r *run) compare(ctx context.Context, rows []rowOf) ([]difference, error) {
	found := make([]difference, len(rows))
	g := task.NewGroup(ctx, getsAtOnce)
	for i, row := range rows {
		g.Go("look up an item", func(ctx context.Context) (err error) {
			found[i], err = r.compareOne(ctx, row)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("read items of %s: %w", r.Source, err)
	}
	return slices.DeleteFunc(found, func(d difference) bool { return d.kind == "" }), nil
}

// compareOne compares a row with its item. The result has no kind if they are equal.
func (r *run) compareOne(ctx context.Context, row rowOf) (difference, error) {
	d := difference{row: row.key}
	key, err := r.Form.Key(row.key)
	if err != nil {
		c := fallback.Compare(r.Form, row.key, row.cells, attribute.Item{}, false, r.Ledger.Now(ctx))
		d.kind, d.reason = Unreadable, c.Reason
		return d, nil
	}
	var item attribute.Item
	var exists bool
	err = r.retry(ctx, func(ctx context.Context) (err error) {
		item, exists, err = r.Items.Get(ctx, r.Source, key)
		return err
	})
	if err == nil {
		err = r.pace(ctx, 1, 1)
	}
	if err != nil {
		return d, err
	}
	c := fallback.Compare(r.Form, row.key, row.cells, item, exists, r.Ledger.Now(ctx))
	switch {
	case c.Reason != "":
		d.kind, d.reason = Unreadable, c.Reason
	case c.Equal:
	case len(row.cells) == 0:
		d.kind = Extra
	case !exists:
		d.kind = Missing
	default:
		d.kind = Different
	}
	return d, nil
}
