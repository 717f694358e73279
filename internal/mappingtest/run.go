package mappingtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/itemfile"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// copyTime is the time at which the items of an example are copied. Its changes happen one hour
// later.
var copyTime = time.Unix(1_795_170_000, 0).UTC()

// Run copies the items of an example into a target in memory, and then applies the changes, with
// guarded writes. It returns the cells after each of the two steps. It also repeats all writes in
// reverse order; this must not change any cell. Items that cannot be mapped are listed as parked.
func (e *Example) Run(ctx context.Context, table *config.Table) (string, error) {
	items, err := e.Items()
	if err != nil {
		return "", err
	}
	r := &run{part: e.itemsName, key: e.key, target: &sinktest.Memory{}, items: map[string]attribute.Item{}, names: map[string]string{}}
	if err := r.settleKey(items[0]); err != nil {
		return "", err
	}
	if r.mapping, err = table.Mapping(r.key); err != nil {
		return "", err
	}
	for _, t := range table.Targets() {
		var families []string
		for _, f := range t.Families {
			name := f.Name
			if f.Aggregate != transform.NoAggregate {
				// Any aggregate gives the same result, because each column is cleared first.
				name += ":intsum"
			}
			families = append(families, name)
		}
		r.target.Create(t.Table, families...)
	}
	copied, err := r.copy(ctx, items)
	if err != nil {
		return "", err
	}
	out := "after the copy\n\n" + copied
	changes, err := e.Changes()
	if err != nil || len(changes) == 0 {
		return out, err
	}
	followed, err := r.follow(ctx, changes)
	return out + "\nafter the changes\n\n" + followed, err
}

// TableOf returns the configuration's entry for the example. It returns false if the configuration
// has no such entry. It also returns false if there are several entries and the example names no
// table.
func (e *Example) TableOf(c *config.Config) (config.Table, bool) {
	if e.Table == "" && len(c.Tables) == 1 && !c.HasPatterns() {
		return c.Tables[0], true
	}
	return c.Table(e.Table)
}

// Items returns the items that exist when the migration begins. There must be at least one.
func (e *Example) Items() ([]attribute.Item, error) {
	items, err := itemfile.Read(bytes.NewReader(e.items), 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.itemsName, err)
	}
	if len(items) == 0 {
		return nil, fmt.Errorf("%s has no items", e.itemsName)
	}
	return items, nil
}

// run is a running example.
type run struct {
	part    string // name of the part with the items
	key     []transform.KeyAttribute
	mapping *transform.Mapping
	target  *sinktest.Memory
	items   map[string]attribute.Item // items of the source, by key
	names   map[string]string         // last known place of an item in the parts, by key
}

// settleKey takes the types of key attributes from an item, if the example does not give them.
func (r *run) settleKey(item attribute.Item) error {
	settled := make([]transform.KeyAttribute, len(r.key))
	for i, k := range r.key {
		if v, ok := item.Get(k.Name); ok && k.Type == attribute.KindNone {
			k.Type = v.Kind()
		}
		if k.Type == attribute.KindNone {
			return fmt.Errorf("%s: entry 1 lacks attribute %q of the primary key", r.part, k.Name)
		}
		settled[i] = k
	}
	r.key = settled
	return nil
}

// hasKey returns an error if an item lacks attributes of the primary key. If alone is true, the
// item must have no other attributes.
func (r *run) hasKey(item attribute.Item, alone bool) error {
	for _, k := range r.key {
		if v, ok := item.Get(k.Name); !ok || v.Kind() != k.Type {
			return fmt.Errorf("lacks attribute %q of type %s, which belongs to the primary key", k.Name, k.Type)
		}
	}
	if alone && len(item.Attributes()) != len(r.key) {
		return errors.New("has attributes beyond the primary key")
	}
	return nil
}

func (r *run) copy(ctx context.Context, items []attribute.Item) (string, error) {
	for i, item := range items {
		name := fmt.Sprintf("%s: entry %d", r.part, i+1)
		if err := r.hasKey(item, false); err != nil {
			return "", fmt.Errorf("%s %w", name, err)
		}
		key := r.mapping.ItemKey(item)
		if earlier, ok := r.names[key]; ok {
			return "", fmt.Errorf("%s has the primary key of %s", name, earlier)
		}
		r.items[key], r.names[key] = item, name
	}
	return r.apply(ctx, transform.Load(r.mapping, items, 1, copyTime))
}

// Change is a change of an item: a put of an item, or a delete of the item with a key.
type Change struct{ Put, Delete attribute.Item }

// Changes returns the changes that happen after the copy.
func (e *Example) Changes() ([]Change, error) {
	texts, err := documents(changesPart, e.changes)
	if err != nil {
		return nil, err
	}
	var changes []Change
	for i, text := range texts {
		var said struct{ Put, Delete json.RawMessage }
		if json.Unmarshal(text, &said) != nil || (said.Put == nil) == (said.Delete == nil) {
			return nil, fmt.Errorf("%s: entry %d is not {\"put\": item} or {\"delete\": key}", changesPart, i+1)
		}
		item, err := attribute.UnmarshalItem(append(said.Put, said.Delete...))
		switch {
		case err != nil || !item.Exists():
			return nil, fmt.Errorf("%s: entry %d is not in DynamoDB's JSON", changesPart, i+1)
		case said.Put != nil:
			changes = append(changes, Change{Put: item})
		default:
			changes = append(changes, Change{Delete: item})
		}
	}
	return changes, nil
}

func (r *run) follow(ctx context.Context, changes []Change) (string, error) {
	var page []cdc.Change
	for i, change := range changes {
		name := fmt.Sprintf("%s: entry %d", changesPart, i+1)
		c := cdc.Change{Event: cdc.Modify, Sequence: cdc.SequenceOf(uint64(100 + i)), Time: copyTime.Add(time.Hour)}
		item, isPut := change.Put, change.Put.Exists()
		if !isPut {
			item = change.Delete
		}
		if err := r.hasKey(item, !isPut); err != nil {
			return "", fmt.Errorf("%s %w", name, err)
		}
		if isPut {
			c.New, c.Keys = item, r.mapping.Keys(item)
		} else {
			c.Event, c.Keys = cdc.Remove, item
		}
		key := r.mapping.ItemKey(c.Keys)
		c.Old = r.items[key]
		switch {
		case !c.Old.Exists() && c.Event == cdc.Remove:
			continue // the stream has no record of such a change
		case !c.Old.Exists():
			c.Event = cdc.Insert
		}
		r.items[key], r.names[key] = c.New, name
		page = append(page, c)
	}
	return r.apply(ctx, transform.Fold(r.mapping, page, transform.Stamp{Generation: 1, Hop: 500_000}))
}

// apply makes the guarded writes of a batch, and repeats them in reverse order. It returns the
// content of the target and the parked items, as text.
func (r *run) apply(ctx context.Context, b transform.Batch) (string, error) {
	for pass := range 2 {
		for i := range b.Rows {
			row := b.Rows[i]
			if pass == 1 {
				row = b.Rows[len(b.Rows)-1-i]
			}
			applied, err := sink.Execute(ctx, sink.Unfenced(), r.target, r.target, &row)
			if err != nil {
				return "", fmt.Errorf("a row cannot be written: %w", err)
			}
			if applied != (pass == 0) {
				return "", fmt.Errorf("pass %d: a write was applied: %v; two items of the example have the same row or cell", pass+1, applied)
			}
		}
	}
	var out strings.Builder
	var failed error
	for i, table := range r.mapping.Tables() {
		if i > 0 {
			fmt.Fprintf(&out, "\nin table %s\n\n", table)
		}
		err := r.target.ReadRows(ctx, table, sink.Range{}, func(row sink.Row) error {
			writeRow(&out, row)
			return nil
		})
		failed = errors.Join(failed, err)
	}
	for _, p := range b.Parked {
		fmt.Fprintf(&out, "parked: %s: %s\n", r.names[p.Key], p.Reason)
	}
	return out.String(), failed
}

func writeRow(out *strings.Builder, row sink.Row) {
	if len(row.Cells) == 0 {
		return // the row has only a tombstone
	}
	fmt.Fprintf(out, "%s\n", show(row.Key))
	for _, c := range row.Cells {
		fmt.Fprintf(out, "  %-28s @%s  %s\n", c.Family+":"+show(c.Qualifier),
			time.UnixMicro(c.Timestamp).UTC().Format("2006-01-02T15:04:05.999Z"), show(string(c.Value)))
	}
}

// show returns a text as it appears in a result. It quotes a text that cannot be printed. It also
// quotes a text with a line that looks like the beginning of a part.
func show(text string) string {
	if strings.HasPrefix(text, "-- ") {
		return strconv.Quote(text)
	}
	return diag.Quoted(text)
}
