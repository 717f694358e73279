package reverse

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/canary"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
)

var start = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// tables are a source table and its target in memory: one value per key. The value "expired" is that
// of an item that has expired, and no item has a value that begins with a question mark.
type tables struct {
	items, rows map[string]string
	own         map[string]bool // rows that have only a cell of replicator
	reads       func(key string)
	fails       error // of the next read of an item
	largest     int   // rows in one call of ReadSet
}

func (s *tables) Get(_ context.Context, _ string, key attribute.Item) (attribute.Item, bool, error) {
	if err := s.fails; err != nil {
		s.fails = nil
		return attribute.Item{}, false, err
	}
	id, _ := key.Get("id")
	if s.reads != nil {
		s.reads(id.Text())
	}
	v, exists := s.items[id.Text()]
	return itemOf(id.Text(), v), exists, nil
}

func (s *tables) Scan(_ context.Context, _ string, segment, total int, after attribute.Item, _ int) (page backfill.ScanPage, err error) {
	id, _ := after.Get("id")
	for _, key := range slices.Sorted(maps.Keys(s.items)) {
		switch {
		case (len(key)*31+int(key[len(key)-1]))%total != segment, after.Exists() && key <= id.Text():
		case len(page.Items) == 3:
			last, _ := page.Items[2].Get("id")
			page.Next = attribute.NewItem([]attribute.Attribute{{Name: "id", Value: last}})
			return page, nil
		default:
			page.Items = append(page.Items, itemOf(key, s.items[key]))
		}
	}
	return page, nil
}

func (s *tables) row(key string) sink.Row {
	cells := []transform.Cell{{Family: "_cdc", Qualifier: "v", Value: []byte("1")}}
	if v, exists := s.rows[key]; exists {
		cells = append(cells, transform.Cell{Family: "f", Qualifier: "v", Timestamp: 2, Value: []byte(v)}, transform.Cell{Family: "f", Qualifier: "v", Timestamp: 1, Value: []byte("old")})
	}
	return sink.NewRow(key, cells)
}

func (s *tables) keys() []string {
	all := maps.Clone(s.own)
	if all == nil {
		all = map[string]bool{}
	}
	for key := range s.rows {
		all[key] = true
	}
	return slices.Sorted(maps.Keys(all))
}

func (s *tables) ReadRows(_ context.Context, _ string, r sink.Range, f func(sink.Row) error) error {
	for _, key := range s.keys() {
		if key < r.From || r.To != "" && key >= r.To {
			continue
		}
		if err := f(s.row(key)); err != nil {
			return err
		}
	}
	return nil
}

func (s *tables) ReadSet(_ context.Context, _ string, rows []string, f func(sink.Row) error) error {
	s.largest = max(s.largest, len(rows))
	for _, key := range s.keys() {
		if slices.Contains(rows, key) {
			if err := f(s.row(key)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *tables) SampleKeys(context.Context, string) ([]string, error) {
	return []string{"c", "m"}, nil
}

func itemOf(key, v string) attribute.Item {
	list := []attribute.Attribute{{Name: "id", Value: attribute.String(key)}, {Name: "v", Value: attribute.String(v)}}
	if v == "" {
		list = list[:1]
	}
	return attribute.NewItem(list)
}

// plain is a mapping of these tables. The keys that begin with "bad" are those of no item, and no
// row belongs to items whose keys begin with "far".
type plain struct{}

func (plain) Key(row string) (attribute.Item, error) {
	if strings.HasPrefix(row, "bad") {
		return attribute.Item{}, errors.New("no key")
	}
	return attribute.NewItem([]attribute.Attribute{{Name: "id", Value: attribute.String(row)}}), nil
}

func (plain) Row(key attribute.Item) (string, error) {
	id, _ := key.Get("id")
	if len(key.Attributes()) != 1 || strings.HasPrefix(id.Text(), "far") {
		return "", errors.New("no row")
	}
	return id.Text(), nil
}

func (plain) Invert(row string, cells []transform.Cell) (attribute.Item, error) {
	if v := string(cells[0].Value); len(cells) > 1 || strings.HasPrefix(v, "?") {
		return attribute.Item{}, fmt.Errorf("column %s: %d cells give no value", cells[0].Qualifier, len(cells))
	}
	return itemOf(row, string(cells[0].Value)), nil
}

func (plain) Differences(item, row attribute.Item) (set []attribute.Attribute, remove []string) {
	a, _ := item.Get("v")
	if b, _ := row.Get("v"); a.Text() != b.Text() {
		set = append(set, attribute.Attribute{Name: "v", Value: b})
	}
	return set, nil
}

func (plain) Expired(item attribute.Item, _ time.Time) bool {
	v, _ := item.Get("v")
	return v.Text() == "expired"
}

// play runs a test in virtual time.
func play(t *testing.T, s *tables, script func(ctx context.Context, c *Comparison)) {
	t.Helper()
	world := virtual.NewWorld(1, start, false)
	err := world.Run(24*time.Hour, func(ctx context.Context) {
		ledger, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "p", checkpoint.Options{Worker: "w", ID: "l"})
		if err == nil {
			_, err = ledger.UpdateFallback(ctx, "Orders", 0, func(f *checkpoint.Fallback) error {
				f.State, f.Wait = checkpoint.FallbackFollowing, 8*time.Minute
				return nil
			})
		}
		if err != nil {
			t.Error(err)
			return
		}
		script(ctx, &Comparison{Ledger: ledger, Form: plain{}, Source: "Orders", Table: "orders", Families: []string{"f"}, Key: []string{"id"}, Rows: s, Items: s})
	})
	if err != nil {
		t.Error(err)
	}
}

// counts shows the counts of a result that are not zero.
func counts(r Result) string {
	text := ""
	for _, c := range []struct {
		name string
		n    int64
	}{{"rows", r.Rows}, {"items", r.Items}, {"different", r.Different}, {"missing", r.Missing}, {"extra", r.Extra},
		{"unreadable", r.Unreadable}, {"parked", r.Parked}, {"unmapped", r.Unmapped}, {"repaired", r.Repaired}} {
		if c.n > 0 {
			text += fmt.Sprintf(" %s %d", c.name, c.n)
		}
	}
	return strings.TrimSpace(text)
}

// What a comparison counts, without changes meanwhile.
func TestWhatCounts(t *testing.T) {
	witness, canaries := transform.WitnessKeyOf("Orders"), canary.New("l", "Orders")
	key, _ := canaries.Key(3, []transform.KeyAttribute{{Name: "id", Type: attribute.KindS}}).Get("id")
	for name, c := range map[string]struct {
		s     tables
		park  string // key of a parked row
		want  string
		clean bool
	}{
		"nothing":                      {tables{}, "", "", true},
		"equal":                        {tables{rows: map[string]string{"a": "1", "z": "2"}, items: map[string]string{"a": "1", "z": "2"}}, "", "rows 2 items 2", true},
		"another value":                {tables{rows: map[string]string{"a": "2"}, items: map[string]string{"a": "1"}}, "", "rows 1 items 1 different 1", false},
		"an item is missing":           {tables{rows: map[string]string{"a": "2"}}, "", "rows 1 missing 1", false},
		"an item is left":              {tables{items: map[string]string{"a": "1", "b": "1"}}, "", "items 2 extra 2", false},
		"an item with a tombstone":     {tables{items: map[string]string{"a": "1"}, own: map[string]bool{"a": true}}, "", "items 1 extra 1", false},
		"a tombstone alone":            {tables{own: map[string]bool{"a": true}}, "", "", true},
		"an item expired":              {tables{rows: map[string]string{"a": "expired"}}, "", "rows 1", true},
		"a row that gives no item":     {tables{rows: map[string]string{"a": "?"}, items: map[string]string{"a": "1"}}, "", "rows 1 items 1 unreadable 1", false},
		"a row key of no item":         {tables{rows: map[string]string{"bad": "1"}}, "", "rows 1 unreadable 1", false},
		"a parked row":                 {tables{rows: map[string]string{"a": "?"}, items: map[string]string{"a": "1"}}, "a", "rows 1 items 1 parked 1", true},
		"a parked row that is equal":   {tables{rows: map[string]string{"a": "1"}, items: map[string]string{"a": "1"}}, "a", "rows 1 items 1", true},
		"an item to which no row fits": {tables{items: map[string]string{"far": "1"}}, "", "items 1 unmapped 1", true},
		"the witness row":              {tables{rows: map[string]string{witness: "1"}, own: map[string]bool{witness: true}}, "", "", true},
		"a canary":                     {tables{items: map[string]string{key.Text(): "1"}}, "", "", true},
	} {
		for _, frozen := range []bool{false, true} {
			play(t, &c.s, func(ctx context.Context, cmp *Comparison) {
				if c.park != "" {
					if err := cmp.Ledger.ParkFallback(ctx, "Orders", c.park, "because"); err != nil {
						t.Error(err)
					}
				}
				cmp.Frozen = frozen
				r, err := cmp.Compare(ctx)
				if err != nil || counts(r) != c.want || r.Clean() != c.clean || r.Frozen != frozen {
					t.Errorf("%s, frozen %v: %s, clean %v, %v", name, frozen, counts(r), r.Clean(), err)
				}
				if n := r.Differing() + r.Parked; int64(len(r.Findings)) != n {
					t.Errorf("%s: %d findings of %d", name, len(r.Findings), n)
				}
				if took := task.Now(ctx).Sub(start); frozen && took != 0 {
					t.Errorf("%s: a comparison of frozen tables took %v", name, took)
				}
			})
		}
	}
}

// A difference counts only if it stays.
func TestADifferenceMustStay(t *testing.T) {
	after := func(n int) func(look int) bool { return func(look int) bool { return look > n } }
	for name, c := range map[string]struct {
		equal  func(look int) bool // whether the item equals its row at the n-th look
		frozen bool
		want   string
	}{
		"it stays":                 {after(100), false, "rows 1 items 1 different 1"},
		"gone at the last look":    {after(5), false, "rows 1 items 1"},
		"one look too late":        {after(6), false, "rows 1 items 1 different 1"},
		"gone at the next look":    {after(1), false, "rows 1 items 1"},
		"equal at one look":        {func(look int) bool { return look == 3 }, false, "rows 1 items 1"},
		"no process may fix it":    {after(1), true, "rows 1 items 1 different 1"},
		"it equals from the start": {after(0), true, "rows 1 items 1"},
	} {
		s := &tables{rows: map[string]string{"a": "2"}, items: map[string]string{"a": "1"}}
		n := 0
		s.reads = func(string) {
			n++
			s.items["a"] = map[bool]string{false: "1", true: "2"}[c.equal(n)]
		}
		play(t, s, func(ctx context.Context, cmp *Comparison) {
			cmp.Frozen = c.frozen
			if r, err := cmp.Compare(ctx); err != nil || counts(r) != c.want {
				t.Errorf("%s: %s, %v", name, counts(r), err)
			}
			if took, most := task.Now(ctx).Sub(start), 5*3*time.Second; took > most {
				t.Errorf("%s: took %v", name, took)
			}
		})
	}
}

// Many differing rows are looked at in parts, and the worst findings are kept.
func TestManyDifferences(t *testing.T) {
	s := &tables{rows: map[string]string{}, items: map[string]string{}}
	for i := range 3000 {
		s.items[fmt.Sprint("b", i)], s.rows[fmt.Sprint("b", i)] = "1", "2"
	}
	for i := range 20 {
		s.rows[fmt.Sprint("m", i)] = "1"
	}
	play(t, s, func(ctx context.Context, c *Comparison) {
		r, err := c.Compare(ctx)
		if want := "rows 3020 items 3000 different 3000 missing 20"; err != nil || counts(r) != want {
			t.Errorf("%s, %v", counts(r), err)
		}
		missing := 0
		for _, f := range r.Findings {
			if f.Kind == Missing {
				missing++
			}
			if len(f.Hash) != 32 || strings.ContainsAny(f.Hash, "m") {
				t.Errorf("a finding shows its key: %+v", f)
			}
		}
		if len(r.Findings) != mostFindings || missing != 20 {
			t.Errorf("%d findings, %d of missing items", len(r.Findings), missing)
		}
		if s.largest > setRows {
			t.Errorf("%d rows in one request", s.largest)
		}
	})
}

// A read that fails ends the comparison, unless it is retried.
func TestReadsFail(t *testing.T) {
	for _, retries := range []bool{false, true} {
		s := &tables{rows: map[string]string{"a": "1"}, items: map[string]string{"a": "1"}, fails: errors.New("throttled")}
		play(t, s, func(ctx context.Context, c *Comparison) {
			paced := 0
			c.Pace = func(_ context.Context, items int, _ float64) error { paced += items; return nil }
			if retries {
				c.Retry = func(ctx context.Context, op func(ctx context.Context) error) error {
					if err := op(ctx); err == nil {
						return nil
					}
					return op(ctx)
				}
			}
			r, err := c.Compare(ctx)
			switch {
			case !retries && (err == nil || r.Known() || r.Clean()):
				t.Errorf("a result without all reads: %+v", r)
			case retries && (err != nil || counts(r) != "rows 1 items 1" || paced != 2):
				t.Errorf("%s, %v, %d paced", counts(r), err, paced)
			}
		})
	}
}

// A repair asks the leader to look at the differing rows, and compares them again afterwards.
func TestARepairWaitsForTheLeader(t *testing.T) {
	for name, c := range map[string]struct {
		state checkpoint.FallbackState // from the leader's look on
		fixes string                   // keys that the leader can fix
		looks bool                     // it looks at all
		want  string
		fails error
	}{
		"all are fixed":           {checkpoint.FallbackFollowing, "a b", true, "rows 2 items 2 repaired 2", nil},
		"in a gap":                {checkpoint.FallbackGap, "a b", true, "rows 2 items 2 repaired 2", nil},
		"one is parked":           {checkpoint.FallbackFollowing, "a", true, "rows 2 items 2 parked 1 repaired 1", nil},
		"no process leads":        {checkpoint.FallbackFollowing, "", false, "rows 2 items 2", ErrNotLooked},
		"the way back is stopped": {checkpoint.FallbackStopping, "", false, "rows 2 items 2", ErrNotFollowing},
	} {
		s := &tables{rows: map[string]string{"a": "2", "b": "2"}, items: map[string]string{"a": "1", "b": "1"}}
		play(t, s, func(ctx context.Context, cmp *Comparison) {
			cmp.Repair = true
			leader := task.NewGroup(ctx, 0)
			leader.Go("lead", func(ctx context.Context) error {
				_ = task.Sleep(ctx, 30*time.Second)
				_, _ = cmp.Ledger.UpdateFallback(ctx, "Orders", 0, func(f *checkpoint.Fallback) error { f.State = c.state; return nil })
				all, err := cmp.Ledger.FallbackSuspects(ctx, "Orders")
				for _, suspect := range all {
					key := string(suspect.Key)
					switch {
					case !c.looks:
						continue
					case strings.Contains(c.fixes, key):
						s.items[key] = s.rows[key]
					default:
						_ = cmp.Ledger.ParkFallback(ctx, "Orders", key, "because")
					}
					err = errors.Join(err, cmp.Ledger.ClearSuspect(ctx, "Orders", suspect))
				}
				return err
			})
			r, err := cmp.Compare(ctx)
			if !errors.Is(err, c.fails) || counts(r) != c.want || r.Known() != (c.fails == nil) {
				t.Errorf("%s: %s, %v", name, counts(r), err)
			}
			took := task.Now(ctx).Sub(start)
			if limit := 11 * time.Minute; took > limit || errors.Is(err, ErrNotLooked) && took < 10*time.Minute {
				t.Errorf("%s: took %v", name, took)
			}
			if err := leader.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A page of rows ends after a number of rows or bytes, and the next one begins with the next key.
func TestPagesOfRows(t *testing.T) {
	s := &tables{rows: map[string]string{}, items: map[string]string{}}
	for i := range pageRows {
		s.rows[fmt.Sprintf("d%03d", i)] = "1"
	}
	last := fmt.Sprintf("d%03d", pageRows-1)
	s.rows[last+"\x00"] = "1"
	for i := range 3 {
		s.rows[fmt.Sprint("e", i)] = strings.Repeat("x", pageBytes/2)
	}
	play(t, s, func(ctx context.Context, c *Comparison) {
		c.Frozen = true
		var pages []int64
		c.Progress = func(rows, _ int64) { pages = append(pages, rows) }
		r, err := c.Compare(ctx)
		want := int64(pageRows + 4)
		if err != nil || r.Rows != want || r.Missing != want {
			t.Errorf("%s, %v", counts(r), err)
		}
		if pages = slices.Compact(pages); !slices.Contains(pages, pageRows) || !slices.Contains(pages, pageRows+3) {
			t.Errorf("pages end after %d rows", pages)
		}
	})
}

// A row that both passes have found counts once.
func TestARowCountsOnce(t *testing.T) {
	s := &tables{rows: map[string]string{"a": "2", "b": "2"}, items: map[string]string{"a": "1", "b": "1"}}
	play(t, s, func(ctx context.Context, c *Comparison) {
		r := c.begin(ctx)
		r.later = []string{"a", "b", "a"}
		if found, err := r.end(ctx); err != nil || counts(found) != "different 2" {
			t.Errorf("%s, %v", counts(found), err)
		}
	})
}
