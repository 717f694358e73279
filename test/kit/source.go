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

// Shard is the one that every stream has.
const Shard = "shardId-1"

// primaryKey is that of every table.
var primaryKey = []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}}

// Source is DynamoDB: tables whose partition key is pk, and a stream of each.
type Source struct {
	m *Migration
	// Items are those of each table, by their key.
	Items map[string]map[string]attribute.Item
	// Count is how many items a table is said to have.
	Count int64
	// Changes are what the shard of each table holds.
	Changes map[string][]cdc.Change
	// Listed, if not nil, is what every stream lists, in place of its one shard.
	Listed []cdc.Shard
	// Blind: the worker sees no canary.
	Blind bool
	// Fail, if not nil, is asked before each call, and its error is the answer.
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

// Item is one of a table.
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

// Put writes an item, and its change to the stream.
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

// Delete removes an item, and writes that to the stream.
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

// Scan gives all items in one page of the first segment.
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

// Open opens the stream of an ARN.
func (s *Source) Open(arn string) cdc.Source {
	table, _, _ := strings.Cut(strings.TrimPrefix(arn, "arn:aws:dynamodb:eu-west-1:111122223333:table/"), "/")
	return &stream{s, table}
}

// stream is that of one table. An iterator is the index of the next change.
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
