package verify

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
)

const (
	largeItems = 100
	largeBytes = 400_000 // the maximum size of DynamoDB's items
)

// large is a source of items that are created when they are read. It measures the heap meanwhile.
type large struct{ first, last uint64 }

func largeItem(n int) attribute.Item {
	return item(fmt.Sprintf("i%05d", n), "v="+strings.Repeat("s", largeBytes))
}

func (s *large) Scan(_ context.Context, _ string, _, _ int, after attribute.Item, _ int) (page backfill.ScanPage, err error) {
	n := 0
	if id, ok := after.Get("id"); ok {
		_, err = fmt.Sscanf(id.Text(), "i%d", &n)
		n++
	}
	if n == 0 || n == largeItems-1 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if s.last = m.HeapAlloc; n == 0 {
			s.first = m.HeapAlloc
		}
	}
	page.Items = []attribute.Item{largeItem(n)}
	if n+1 < largeItems {
		page.Next = item(fmt.Sprintf("i%05d", n))
	}
	return page, err
}

func (*large) Get(_ context.Context, _ string, keys attribute.Item) (attribute.Item, bool, error) {
	id, _ := keys.Get("id")
	return item(id.Text(), "v="+strings.Repeat("s", largeBytes)), true, nil
}

// differing is a target with a row for each item, with another value.
type differing struct{ sink.MarkReader }

func (differing) SampleKeys(context.Context, string) ([]string, error) { return nil, nil }
func (differing) ReadRows(context.Context, string, sink.Range, func(sink.Row) error) error {
	return nil
}
func (differing) ReadSince(context.Context, string, sink.Range, int64, func(string) error) error {
	return nil
}

func (differing) ReadSet(_ context.Context, _ string, rows []string, f func(sink.Row) error) error {
	version := transform.NewVersion(7, 500000, transform.LoadVersion(1, noon).Sequence(), 1)
	for _, key := range rows {
		if err := f(sink.NewRow(key, []transform.Cell{{Family: "_cdc", Qualifier: "v", Value: []byte(version)}, {Family: "d", Qualifier: "id", Value: []byte(key)},
			{Family: "d", Qualifier: "v", Value: []byte("t")}})); err != nil {
			return err
		}
	}
	return nil
}

// A part's unsaved findings are bounded by bytes, not only by rows. If every row differs and items
// are large, a part keeps at most 32 MiB of them.
func TestFindingsThatWaitAreBoundedByBytes(t *testing.T) {
	source := &large{}
	c := &Comparison{Mapping: mapping(t, nil, "{id} > d"), Source: source, Target: differing{}, Bounds: Bounds{Candidates: 10}}
	plan, err := c.NewPlan(t.Context(), Live, "", 0, []byte("key"))
	if err != nil {
		t.Fatal(err)
	}
	plan.Segments = 1
	work := plan.Work(c, 1, nil)
	work.Save = func(context.Context, Progress, News) error { return nil }
	var progress Progress
	err = virtual.NewWorld(1, noon, false).Run(time.Hour, func(ctx context.Context) {
		var err error
		if progress, _, err = plan.Run(ctx, work, 1, 0, Progress{}); err != nil {
			t.Error(err)
		}
	})
	if err != nil || progress.Different != largeItems {
		t.Fatalf("%d rows differ, %v", progress.Different, err)
	}
	if source.last > source.first+32<<20 {
		t.Errorf("%d MiB of items are kept", (source.last-source.first)>>20)
	}
}

// wide is a target whose rows are longer than items can be, as with older cells. It records how
// much is returned in one read.
type wide struct {
	differing
	value []byte
	reads int
	most  int // bytes of one read
}

func (w *wide) ReadSet(_ context.Context, _ string, rows []string, f func(sink.Row) error) error {
	given := 0
	w.reads++
	for _, key := range rows {
		given += len(w.value)
		w.most = max(w.most, given)
		if err := f(sink.NewRow(key, []transform.Cell{{Family: "d", Qualifier: "id", Value: w.value}})); err != nil {
			return err
		}
	}
	return nil
}

// Short rows are checked together, and long ones fewer at a time. A single row is read whatever its
// length, even if its read was repeated.
func TestLooksAreBoundedByBytes(t *testing.T) {
	for bytes, want := range map[int]struct{ rows, reads, most int }{
		10:       {40, 2, 320},
		4 << 20:  {6, 3, 16 << 20}, // all until the bound, and then three and three
		20 << 20: {6, 9, 40 << 20}, // three attempts that end at the second row, and then one by one
	} {
		target := &wide{value: make([]byte, bytes)}
		w := newWorld(t, mapping(t, nil, "{id} > d"))
		c := w.comparison()
		c.Target, c.Retry = target, func(ctx context.Context, op func(context.Context) error) error {
			if err := op(ctx); err != nil {
				return err
			}
			return op(ctx) // as if the end of the answer was lost
		}
		places := make([]Place, want.rows)
		for n := range places {
			places[n] = Place{Table: "t", Row: name(n)}
		}
		looks, err := c.Look(t.Context(), places...)
		if err != nil || len(looks) != len(places) {
			t.Fatalf("%d looks, %v", len(looks), err)
		}
		for n, look := range looks {
			if look.Row != name(n) || len(look.Findings) != 1 {
				t.Errorf("look %d is of row %s: %+v", n, look.Row, look.Findings)
			}
		}
		if target.reads != 2*want.reads || target.most != want.most {
			t.Errorf("rows of %d bytes: %d reads, %d bytes at once", bytes, target.reads, target.most)
		}
	}
}

// A finding is kept without values, and with a bounded number of columns. The others are counted,
// also if brief is applied again.
func TestAFindingIsBrief(t *testing.T) {
	f := Finding{Kind: Different}
	for n := range 1000 {
		f.Columns = append(f.Columns, Column{Family: "d", Qualifier: fmt.Sprintf("column%04d", n), Want: "0011223344556677", want: []byte("secret")})
	}
	short := f.brief().brief()
	if n := len(short.Columns); n < 100 || n > 200 || short.More != 1000-n || short.Columns[n-1].want != nil || f.Columns[0].want == nil {
		t.Errorf("%d columns and %d more", len(short.Columns), short.More)
	}
	data, err := short.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var back Finding
	if err := back.UnmarshalJSON(data); err != nil || back.More != short.More || len(back.Columns) != len(short.Columns) || len(data) > 16<<10 {
		t.Errorf("%d bytes with %d columns and %d more: %v", len(data), len(back.Columns), back.More, err)
	}
	long := Finding{Columns: []Column{{Qualifier: strings.Repeat("n", 60_000)}}}
	if long = long.brief(); len(long.Columns) != 0 || long.More != 1 {
		t.Errorf("%d columns and %d more", len(long.Columns), long.More)
	}
}
