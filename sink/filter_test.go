package sink_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/status"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// maxFilterBytes is Bigtable's limit for a filter, if its 20 KB are thousands. The emulator has no
// limit; the tests' emulator has this one. Source:
// https://cloud.google.com/bigtable/quotas#limits-operations
const maxFilterBytes = 20_000

func checkFilter(filter *bigtablepb.RowFilter) error {
	if filter == nil {
		return nil
	}
	data, err := encoding.GetCodecV2("proto").Marshal(filter)
	if err == nil && data.Len() > maxFilterBytes {
		err = status.Errorf(codes.InvalidArgument, "the filter has %d bytes", data.Len())
	}
	return err
}

func limitPredicate(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if r, ok := request.(*bigtablepb.CheckAndMutateRowRequest); ok {
		if err := checkFilter(r.PredicateFilter); err != nil {
			return nil, err
		}
	}
	return handler(ctx, request)
}

func limitFilter(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	return handler(server, limitedStream{stream})
}

type limitedStream struct{ grpc.ServerStream }

func (s limitedStream) RecvMsg(request any) error {
	err := s.ServerStream.RecvMsg(request)
	if r, ok := request.(*bigtablepb.ReadRowsRequest); ok && err == nil {
		err = checkFilter(r.Filter)
	}
	return err
}

// longestKey returns the item with the longest name: a partition key of 2,048 bytes, and a sort key
// of 1,024.
func longestKey(t *testing.T) string {
	t.Helper()
	m, err := transform.NewMapping("Orders", "t", "d", []transform.KeyAttribute{{Name: "pk", Type: attribute.KindB}, {Name: "sk", Type: attribute.KindB}})
	if err != nil {
		t.Fatal(err)
	}
	return m.ItemKey(attribute.NewItem([]attribute.Attribute{
		{Name: "pk", Value: attribute.Binary(make([]byte, 2048))}, {Name: "sk", Value: attribute.Binary(make([]byte, 1024))}}))
}

// A filter with columns that are named by item keys stays below Bigtable's limit, however long the
// keys are. A request that is refused for its filter would be refused forever.
func TestFiltersOfTheLongestKeysAreTaken(t *testing.T) {
	owner := longestKey(t)
	long := strings.Repeat("q", 1900) // {pk}
	families := func(n int) (names []string) {
		for i := range n {
			names = append(names, fmt.Sprintf("%s%02d", strings.Repeat("f", 62), i))
		}
		return names
	}
	for name, m := range map[string]transform.RowMutation{
		"one cell":            {Columns: []transform.Column{{Family: "k", Qualifier: long}}},
		"a short cell":        {Columns: []transform.Column{{Family: "k", Qualifier: "q"}}},
		"longest cell":        {Columns: []transform.Column{{Family: "k", Qualifier: strings.Repeat("q", transform.MaxQualifierBytes)}}},
		"cells and a family":  {Columns: []transform.Column{{Family: "e", Qualifier: "q"}, {Family: "k", Qualifier: long}}, Families: []string{"e"}},
		"many columns":        {Columns: slices.Repeat([]transform.Column{{Family: "k", Qualifier: "quantity"}}, 500)},
		"families of its own": {Families: families(30)},
	} {
		t.Run(name, func(t *testing.T) {
			e := keptEmulator(t)
			if len(m.Families) > 1 {
				addFamilies(t, e, m.Families)
			}
			m.Item, m.Owner, m.Table, m.Row, m.Keep = owner, owner, "t", "r", true
			family, qualifier := "k", "q"
			if len(m.Families) > 1 {
				family = m.Families[0]
			} else {
				qualifier = m.Columns[len(m.Columns)-1].Qualifier
			}
			for i, value := range []string{"older", "newer"} {
				m.Version = version(uint64(i + 1))
				m.Cells = []transform.Cell{{Family: family, Qualifier: qualifier, Timestamp: int64(i+1) * 1_000_000, Value: []byte(value)}}
				if applied, err := sink.Execute(context.Background(), sink.Unfenced(), e, e, &m); err != nil || !applied {
					t.Fatal(applied, err)
				}
			}
			if cells := readAll(t, e, "t")[0].Cells; len(cells) != 2 || string(cells[0].Value) != "newer" || string(cells[1].Value) != "older" {
				t.Errorf("%d cells", len(cells))
			}
			m.Version, m.Cells = version(3), nil // only the read row shows which column is deleted
			if applied, err := sink.Execute(context.Background(), sink.Unfenced(), e, e, &m); err != nil || !applied {
				t.Fatal(applied, err)
			}
			if cells := readAll(t, e, "t")[0].Cells; len(cells) > 0 {
				t.Errorf("%d cells of a column that the item has not any more", len(cells))
			}
		})
	}
}

func addFamilies(t *testing.T, e *emulator, names []string) {
	t.Helper()
	var families []transform.Family
	for _, name := range names {
		family, err := transform.ParseFamily(name, "never")
		if err != nil {
			t.Fatal(err)
		}
		families = append(families, family)
	}
	if _, err := e.admin.Prepare(context.Background(), []sink.TableSpec{{Name: "t", Families: sink.DataFamilies(families)}}, true); err != nil {
		t.Fatal(err)
	}
}
