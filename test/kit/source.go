package kit

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Shard is the only shard of every stream.
const Shard = "shardId-1"

// primaryKey is the primary key of every table.
var primaryKey = []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}}

// Source is DynamoDB: tables with the partition key pk, each with a stream.
type Source struct {
	m *Migration
	// Items holds the items of each table by key.
	Items map[string]map[string]attribute.Item
	// Expires holds the attribute by which the items of a table expire.
	Expires map[string]string
	// Count is the item count that Describe returns for a table.
	Count int64
	// Changes holds the changes in the shard of each table.
	Changes map[string][]cdc.Change
	// Listed, if not nil, replaces the shards that every stream lists.
	Listed []cdc.Shard
	// Blind hides the canaries that prove a drain from the worker, and BlindIn those of one table.
	Blind   bool
	BlindIn string
	// Fail, if not nil, is called before each call, and its error is returned.
	Fail func(call string) error
}

func newSource(m *Migration) *Source {
	return &Source{m: m, Items: map[string]map[string]attribute.Item{}, Changes: map[string][]cdc.Change{}, Count: 1000}
}

func (s *Source) arn(table string) string {
	return "arn:aws:dynamodb:eu-west-1:111122223333:table/" + table + "/stream/L"
}

func (s *Source) fail(call string) error {
	if s.Fail == nil {
		return nil
	}
	return s.Fail(call)
}

// Item returns an item of a table.
func Item(pk string, attributes ...string) attribute.Item {
	list := []attribute.Attribute{{Name: "pk", Value: attribute.String(pk)}}
	for _, text := range attributes {
		name, value, _ := strings.Cut(text, "=")
		list = append(list, attribute.Attribute{Name: name, Value: attribute.String(value)})
	}
	return attribute.NewItem(list)
}

// Describe describes a table.
func (s *Source) Describe(_ context.Context, table string) (backfill.Description, error) {
	if err := s.fail("Describe"); err != nil {
		return backfill.Description{}, err
	}
	return backfill.Description{Name: table, Status: "ACTIVE", StreamARN: s.arn(table), StreamLabel: "L", StreamEnabled: true, ViewType: "NEW_AND_OLD_IMAGES",
		Items: s.Count, Bytes: 100 * s.Count, PrimaryKey: primaryKey, At: s.m.Now()}, nil
}

// Put writes an item, and adds its change to the stream.
func (s *Source) Put(_ context.Context, table string, item attribute.Item) error {
	if err := s.fail("Put"); err != nil {
		return err
	}
	pk, _ := item.Get("pk")
	if s.Items[table] == nil {
		s.Items[table] = map[string]attribute.Item{}
	}
	s.Items[table][pk.Text()] = item
	s.change(table, cdc.Change{Event: cdc.Insert, Keys: Item(pk.Text()), New: item})
	return nil
}

// Delete removes an item, and adds the removal to the stream.
func (s *Source) Delete(_ context.Context, table string, key attribute.Item) error {
	if err := s.fail("Delete"); err != nil {
		return err
	}
	pk, _ := key.Get("pk")
	delete(s.Items[table], pk.Text())
	s.change(table, cdc.Change{Event: cdc.Remove, Keys: key})
	return nil
}

func (s *Source) change(table string, c cdc.Change) {
	c.Sequence, c.Time = Position(len(s.Changes[table])+1), s.m.Now().Truncate(time.Second)
	s.Changes[table] = append(s.Changes[table], c)
}

// Get reads an item.
func (s *Source) Get(_ context.Context, table string, keys attribute.Item) (attribute.Item, bool, error) {
	pk, _ := keys.Get("pk")
	item, found := s.Items[table][pk.Text()]
	return item, found, s.fail("Get")
}

// Scan returns all items in one page of the first segment.
func (s *Source) Scan(_ context.Context, table string, segment, _ int, _ attribute.Item, _ int) (backfill.ScanPage, error) {
	page := backfill.ScanPage{At: s.m.Now()}
	for _, item := range s.Items[table] {
		if segment == 0 {
			page.Items = append(page.Items, item)
		}
	}
	slices.SortFunc(page.Items, func(a, b attribute.Item) int {
		x, _ := a.Get("pk")
		y, _ := b.Get("pk")
		return strings.Compare(x.Text(), y.Text())
	})
	return page, s.fail("Scan")
}

// Sample returns up to n items of a table.
func (s *Source) Sample(ctx context.Context, table string, n int) ([]attribute.Item, float64, error) {
	if err := s.fail("Sample"); err != nil {
		return nil, 0, err
	}
	page, err := s.Scan(ctx, table, 0, 1, attribute.Item{}, n)
	return page.Items[:min(n, len(page.Items))], 1, err
}

// Attribute returns the attribute by which the items of a table expire.
func (s *Source) Attribute(_ context.Context, table string) (string, error) {
	return s.Expires[table], s.fail("Attribute")
}

// Open opens the stream of an ARN.
func (s *Source) Open(arn string) cdc.Source {
	table, _, _ := strings.Cut(strings.TrimPrefix(arn, "arn:aws:dynamodb:eu-west-1:111122223333:table/"), "/")
	return &stream{s, table}
}

// stream is the stream of one table. An iterator is the index of the next change.
type stream struct {
	*Source
	table string
}

func (s *stream) ListPage(context.Context, string, string) (cdc.ListingPage, error) {
	page := cdc.ListingPage{Shards: []cdc.Shard{{ID: Shard}}, At: s.m.Now()}
	if s.Listed != nil {
		page.Shards = slices.Clone(s.Listed)
	}
	return page, s.fail("ListPage")
}

func (s *stream) Seek(_ context.Context, shard string, from cdc.Position) (cdc.Iterator, error) {
	at := 0
	for i, c := range s.Changes[s.table] {
		if !from.AtHorizon() && c.Sequence.Compare(from.After) <= 0 {
			at = i + 1
		}
	}
	return cdc.Iterator(fmt.Sprintf("%s/%d", shard, at)), s.fail("Seek")
}

func (s *stream) Read(_ context.Context, at cdc.Iterator) (cdc.Page, error) {
	if err := s.fail("Read"); err != nil {
		return cdc.Page{}, err
	}
	shard, text, _ := strings.Cut(string(at), "/")
	n, err := strconv.Atoi(text)
	if err != nil || shard != Shard {
		return cdc.Page{Next: at, At: s.m.Now()}, err
	}
	changes := s.Changes[s.table]
	return cdc.Page{Changes: changes[n:], Next: cdc.Iterator(fmt.Sprintf("%s/%d", shard, len(changes))), At: s.m.Now()}, nil
}
