package verify

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/expression"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// noon is the time of the tests that have one.
var noon = time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)

// mapping returns a mapping of table S, whose key is id, by rules such as "k = 'a' | {c}#{id} > d &
// {id} > e" and "k = 'b' | {c} > e:{id}".
func mapping(t testing.TB, change func(*transform.Spec), rules ...string) *transform.Mapping {
	t.Helper()
	template := func(text string) *transform.Template {
		parsed, err := transform.ParseTemplate(text)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	spec := transform.Spec{Source: "S", Table: "t", PrimaryKey: []transform.KeyAttribute{{Name: "id", Type: attribute.KindS}}}
	for _, name := range []string{"d", "e"} {
		spec.Families = append(spec.Families, transform.Family{Name: name})
	}
	for _, text := range rules {
		when, writes, found := strings.Cut(text, " | ")
		var r transform.Rule
		if !found {
			writes = text
		} else {
			condition, err := expression.ParseWhen(when)
			if err != nil {
				t.Fatal(err)
			}
			r.When, r.Text = condition, when
		}
		for _, text := range strings.Split(writes, " & ") {
			row, to, _ := strings.Cut(text, " > ")
			family, column, folded := strings.Cut(to, ":")
			w := transform.Write{RowKey: template(row), Columns: []transform.ColumnRule{{Attribute: "*", To: family}}}
			if folded {
				w.Columns, w.Cell = nil, &transform.CellRule{Family: family, Qualifier: template(column), As: transform.AsJSON}
			}
			r.Writes = append(r.Writes, w)
		}
		spec.Rules = append(spec.Rules, r)
	}
	if change != nil {
		change(&spec)
	}
	m, err := transform.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// item returns {"id": id} with attributes such as "k=a" (text) or "n#5" (a number).
func item(id string, attributes ...string) attribute.Item {
	list := []attribute.Attribute{{Name: "id", Value: attribute.String(id)}}
	for _, text := range attributes {
		if name, value, ok := strings.Cut(text, "="); ok {
			list = append(list, attribute.Attribute{Name: name, Value: attribute.String(value)})
		} else if name, value, ok := strings.Cut(text, "#"); ok {
			n, err := attribute.Number(value)
			if err != nil {
				panic(err)
			}
			list = append(list, attribute.Attribute{Name: name, Value: n})
		}
	}
	return attribute.NewItem(list)
}

// source is a table in memory. Faults may interrupt its reads.
type source struct {
	mu    sync.Mutex
	items map[string]attribute.Item
	page  int
	scans int // answered scans; each costs a read unit
	fail  func(op string) error
}

func (s *source) remove(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.items, id)
}

func (s *source) put(items ...attribute.Item) {
	for _, i := range items {
		id, _ := i.Get("id")
		s.items[id.Text()] = i
	}
}

func (s *source) Scan(_ context.Context, _ string, segment, total int, after attribute.Item, _ int) (backfill.ScanPage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		if err := s.fail("Scan"); err != nil {
			return backfill.ScanPage{}, err
		}
	}
	from := ""
	if id, ok := after.Get("id"); ok {
		from = id.Text()
	}
	var ids []string
	for id := range s.items {
		h := fnv.New32a()
		h.Write([]byte(id))
		if id > from && int(h.Sum32())%total == segment {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	s.scans++
	page := backfill.ScanPage{Consumed: 1}
	for i, id := range ids {
		if i == s.page {
			page.Next = item(ids[i-1])
			break
		}
		page.Items = append(page.Items, s.items[id])
	}
	return page, nil
}

func (s *source) Get(_ context.Context, _ string, keys attribute.Item) (attribute.Item, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		if err := s.fail("Get"); err != nil {
			return attribute.Item{}, false, err
		}
	}
	id, _ := keys.Get("id")
	found, ok := s.items[id.Text()]
	return found, ok, nil
}

// world is a source and its target, in memory.
type world struct {
	*testing.T
	source *source
	target *sinktest.Memory
	m      *transform.Mapping
}

func newWorld(t *testing.T, m *transform.Mapping) *world {
	w := &world{T: t, source: &source{items: map[string]attribute.Item{}, page: 7}, target: &sinktest.Memory{}, m: m}
	for _, table := range m.Tables() {
		w.target.Create(table, "d", "e", "x")
	}
	return w
}

// load writes the images of items like a load.
func (w *world) load(at time.Time, items ...attribute.Item) {
	w.Helper()
	for _, row := range transform.Load(w.m, items, 7, at).Rows {
		w.apply(row)
	}
}

func (w *world) apply(row transform.RowMutation) {
	w.Helper()
	request := sink.Guard(row)
	if _, err := w.target.Apply(context.Background(), &request); err != nil {
		w.Fatal(err)
	}
}

// damage executes operations in a row without a predicate, like another program.
func (w *world) damage(table, row string, ops ...sink.Op) {
	w.Helper()
	request := sink.Request{Table: table, Row: row, Ops: ops, Refuse: sink.Predicate{Families: []string{sink.LiveFamily}, Qualifier: "none", AtLeast: "x"}}
	if _, err := w.target.Apply(context.Background(), &request); err != nil {
		w.Fatal(err)
	}
}

func set(family, qualifier, value string) sink.Op {
	return sink.Op{Kind: sink.SetCell, Family: family, Qualifier: qualifier, Timestamp: noon.UnixMicro(), Value: []byte(value)}
}

func (w *world) comparison() *Comparison {
	return &Comparison{Mapping: w.m, Source: w.source, Target: w.target, Bounds: Bounds{PageRows: 3}}
}

// compare runs a comparison in one way.
func (w *world) compare(c *Comparison, way Way) (Result, error) {
	w.Helper()
	ctx := context.Background()
	p, err := c.NewPlan(ctx, way, "", 0, []byte("key"))
	if err != nil {
		w.Fatal(err)
	}
	return c.Compare(ctx, p, 2)
}

// brief returns findings as "kind row/owner column,column".
func brief(found []Finding) []string {
	var lines []string
	for _, f := range found {
		var columns []string
		for _, c := range f.Columns {
			columns = append(columns, c.Family+":"+c.Qualifier)
		}
		line := string(f.Kind) + " " + f.Row
		if f.Owner != "" {
			id, _ := f.Keys.Get("id")
			line += "/" + id.Text()
		}
		lines = append(lines, strings.TrimSpace(line+" "+strings.Join(columns, ",")))
	}
	slices.Sort(lines)
	return lines
}

var errBroken = errors.New("broken")

func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func name(n int) string { return fmt.Sprintf("i%02d", n) }
