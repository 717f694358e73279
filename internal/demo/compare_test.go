package demo

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// fixed is a source table in memory that returns one item per page.
type fixed []attribute.Item

func (f fixed) Describe(context.Context, string) (backfill.Description, error) {
	return backfill.Description{Name: tableName, PrimaryKey: []transform.KeyAttribute{{Name: partitionKey, Type: attribute.KindS}, {Name: sortKey, Type: attribute.KindS}}}, nil
}

func (f fixed) Scan(_ context.Context, _ string, segment, _ int, after attribute.Item, _ int) (backfill.ScanPage, error) {
	if segment > 0 {
		return backfill.ScanPage{}, nil
	}
	for i, it := range f {
		if !after.Exists() || f[max(i-1, 0)].Equal(after) && i > 0 {
			page := backfill.ScanPage{Items: []attribute.Item{it}}
			if i < len(f)-1 {
				page.Next = it
			}
			return page, nil
		}
	}
	return backfill.ScanPage{}, nil
}

// Get implements backfill.ItemSource.
func (f fixed) Get(_ context.Context, _ string, keys attribute.Item) (attribute.Item, bool, error) {
	for _, it := range f {
		same := true
		for _, k := range keys.Attributes() {
			v, _ := it.Get(k.Name)
			same = same && v.Equal(k.Value)
		}
		if same {
			return it, true, nil
		}
	}
	return attribute.Item{}, false, nil
}

// stored is a target table in memory.
type stored []sink.Row

func (s stored) ReadRows(_ context.Context, _ string, r sink.Range, f func(sink.Row) error) error {
	for _, row := range s {
		if row.Key < r.From || r.To != "" && row.Key >= r.To {
			continue
		}
		if err := f(row); err != nil {
			return err
		}
	}
	return nil
}

func (s stored) ReadMarks(ctx context.Context, table string, r sink.Range, unmarked bool, limit int, f func(sink.Row) error) error {
	return sinktest.Marked(limit, unmarked, f, func(f func(sink.Row) error) error { return s.ReadRows(ctx, table, r, f) })
}

func (s stored) ReadSet(ctx context.Context, table string, rows []string, f func(sink.Row) error) error {
	return sinktest.Chosen(rows, f, func(f func(sink.Row) error) error { return s.ReadRows(ctx, table, sink.Range{}, f) })
}

func (s stored) ReadAt(context.Context, string, []string, int64, func(sink.Row) error) error {
	return nil
}

func (s stored) ReadSince(context.Context, string, sink.Range, int64, func(string) error) error {
	return nil
}

func (s stored) SampleKeys(context.Context, string) ([]string, error) { return nil, nil }

func itemOf(customer, order, note string) attribute.Item {
	return attribute.NewItem([]attribute.Attribute{
		{Name: partitionKey, Value: attribute.String(customer)}, {Name: sortKey, Value: attribute.String(order)}, {Name: "note", Value: attribute.String(note)},
	})
}

// copied returns the target after a source was completely applied.
func copied(t *testing.T, f fixed) stored {
	t.Helper()
	d, _ := f.Describe(context.Background(), tableName)
	m, err := transform.NewMapping(tableName, tableName, "d", d.PrimaryKey)
	if err != nil {
		t.Fatal(err)
	}
	var rows stored
	for _, r := range transform.Load(m, f, 7, time.Unix(1_800_000_000, 0)).Rows {
		rows = append(rows, sink.Row{Key: r.Row, Version: r.Version, Cells: r.Cells})
	}
	return rows
}

// The comparison must notice every way in which the stores can differ. A demo that always reports
// success would prove nothing.
func TestCompareSeesEveryDifference(t *testing.T) {
	source := fixed{itemOf("a#1", "x", "alpha"), itemOf("a#1", "y", "beta"), itemOf("b%", "z", "gamma")}
	for _, c := range []struct {
		name   string
		change func(rows stored) stored
		want   string // part of the report; "" if nothing differs
	}{
		{"equal", func(rows stored) stored { return rows }, ""},
		{"a tombstone of a removed item", func(rows stored) stored {
			return append(rows, sink.Row{Key: "gone#1", Gone: "v"})
		}, ""},
		{"a row is missing", func(rows stored) stored { return rows[1:] }, "missing: d:customer, d:note, d:order"},
		{"a row too many", func(rows stored) stored {
			return append(rows, sink.Row{Key: "ghost#1", Version: "v", Cells: rows[0].Cells})
		}, "extra: d:customer, d:note, d:order"},
		{"cells without a version", func(rows stored) stored {
			return append(rows, sink.Row{Key: "ghost#1", Cells: rows[0].Cells})
		}, "extra: d:customer, d:note, d:order"},
		{"a row that no key gives", func(rows stored) stored {
			return append(rows, sink.Row{Key: "nodelimiter", Version: "v"})
		}, "the row's item is unknown"},
		{"another value", func(rows stored) stored { rows[0].Cells[0].Value = []byte("?"); return rows }, "different: d:customer"},
		{"a column is missing", func(rows stored) stored { rows[0].Cells = rows[0].Cells[:2]; return rows }, "different: d:order"},
		{"a column too many", func(rows stored) stored {
			rows[0].Cells = append(rows[0].Cells, transform.Cell{Family: "d", Qualifier: "old"})
			return rows
		}, "different: d:old"},
		{"no version", func(rows stored) stored { rows[0].Version = ""; return rows }, "the row has no version"},
	} {
		got, err := compare(context.Background(), source, c.change(copied(t, source)), tableName)
		if err != nil {
			t.Fatal(err)
		}
		if got.Items != len(source) {
			t.Errorf("%s: %d items, want %d", c.name, got.Items, len(source))
		}
		if c.want == "" {
			if !got.Identical() || got.String() != "source and target are identical: 3 items, 0 differences" {
				t.Errorf("%s: %s: %v", c.name, &got, got.Differences)
			}
			continue
		}
		if len(got.Differences) != 1 || !strings.Contains(got.Differences[0].What, c.want) {
			t.Errorf("%s: %v, want one difference with %q", c.name, got.Differences, c.want)
			continue
		}
		for _, data := range []string{"a#1", "b%", "ghost", "alpha", "gamma"} {
			if strings.Contains(got.Differences[0].Key+got.Differences[0].What, data) {
				t.Errorf("%s: %v holds item data", c.name, got.Differences[0])
			}
		}
	}
}

// The demo has items of every type.
func TestItemsHaveAttributesOfAllTypes(t *testing.T) {
	kinds := map[string]bool{}
	for n := range 100 {
		for _, value := range newItem(rand.New(rand.NewPCG(1, uint64(n))), identityOf(n)) {
			switch value.(type) {
			case *types.AttributeValueMemberS:
				kinds["S"] = true
			case *types.AttributeValueMemberN:
				kinds["N"] = true
			case *types.AttributeValueMemberB:
				kinds["B"] = true
			case *types.AttributeValueMemberBOOL:
				kinds["BOOL"] = true
			case *types.AttributeValueMemberNULL:
				kinds["NULL"] = true
			case *types.AttributeValueMemberM:
				kinds["M"] = true
			case *types.AttributeValueMemberL:
				kinds["L"] = true
			case *types.AttributeValueMemberSS:
				kinds["SS"] = true
			case *types.AttributeValueMemberNS:
				kinds["NS"] = true
			case *types.AttributeValueMemberBS:
				kinds["BS"] = true
			}
		}
	}
	if len(kinds) != 10 {
		t.Errorf("types %v, want all ten", kinds)
	}
}

// Every kind of change works against the embedded service, and DynamoDB would accept all items.
func TestWorkload(t *testing.T) {
	ctx := context.Background()
	s, err := startServices(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if err := makeTable(ctx, s.writes, 60, 1); err != nil {
		t.Fatal(err)
	}
	w := &workload{client: s.writes, rate: 1, seed: 1, next: 60}
	r := rand.New(rand.NewPCG(1, 1))
	for k := range kinds {
		for range 20 {
			if err := w.change(ctx, r, k); err != nil {
				t.Fatalf("%s: %v", kindNames[k], err)
			}
		}
	}
	d, err := s.reads.Describe(ctx, tableName)
	if err != nil || !d.StreamEnabled {
		t.Errorf("the stream is not enabled: %v", err)
	}
}

func TestMetric(t *testing.T) {
	for line, want := range map[string]float64{
		"replicator_changes_applied_total{event=\"insert\",source_table=\"Shop\"} 1.5e+03": 1500,
		"replicator_leases_held 3\n":            3,
		"# HELP replicator_leases_held Leases.": -1,
		"":                                      -1,
	} {
		name, value, ok := metric(line)
		if ok != (want >= 0) || ok && (value != want || !strings.HasPrefix(name, "replicator_") || strings.Contains(name, "{")) {
			t.Errorf("%q: %q %v %t, want %v", line, name, value, ok, want)
		}
	}
}

// A worker of the demo must not reach a cloud or read another configuration.
func TestChildEnvironment(t *testing.T) {
	s, err := startServices(context.Background(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	got := strings.Join(childEnvironment([]string{"PATH=/bin", "AWS_PROFILE=prod", "GOOGLE_APPLICATION_CREDENTIALS=/x", "REPLICATOR_NAME=other", "PUBSUB_EMULATOR_HOST=y"}, "/tmp", s), " ")
	for _, gone := range []string{"prod", "/x", "other", "PUBSUB"} {
		if strings.Contains(got, gone) {
			t.Errorf("%q is inherited", gone)
		}
	}
	for _, there := range []string{"PATH=/bin", "BIGTABLE_EMULATOR_HOST=" + s.bigtable.Addr(), "AWS_ENDPOINT_URL_DYNAMODB_STREAMS=" + s.endpoint} {
		if !strings.Contains(got, there) {
			t.Errorf("%q is missing", there)
		}
	}
}
