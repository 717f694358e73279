package sink_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"cloud.google.com/go/bigtable"
	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// plainly sends a request through Bigtable's own client.
func plainly(ctx context.Context, table *bigtable.Table, r *sink.Request) (applied bool, err error) {
	change := bigtable.NewMutation()
	for _, op := range r.Ops {
		at := bigtable.Timestamp(op.Timestamp)
		switch op.Kind {
		case sink.DeleteFamily:
			change.DeleteCellsInFamily(op.Family)
		case sink.DeleteColumn:
			change.DeleteCellsInColumn(op.Family, op.Qualifier)
		case sink.DeleteFrom:
			change.DeleteTimestampRange(op.Family, op.Qualifier, at, 0)
		case sink.DeleteBefore:
			change.DeleteTimestampRange(op.Family, op.Qualifier, 0, at)
		case sink.DeleteAt:
			change.DeleteTimestampRange(op.Family, op.Qualifier, at, at+1000)
		case sink.SetCell:
			change.Set(op.Family, op.Qualifier, at, op.Value)
		case sink.AddToCell:
			change.AddIntToCell(op.Family, op.Qualifier, at, int64(binary.BigEndian.Uint64(op.Value)))
		}
	}
	var columns []bigtable.Filter
	for _, family := range r.Refuse.Families {
		columns = append(columns, bigtable.ColumnRangeFilter(family, r.Refuse.Qualifier, r.Refuse.Qualifier+"\x00"))
	}
	column := columns[0]
	if len(columns) > 1 {
		column = bigtable.InterleaveFilters(columns...)
	}
	var refused bool
	condition := bigtable.ChainFilters(column, bigtable.ValueRangeFilter([]byte(r.Refuse.AtLeast), nil))
	err = table.Apply(ctx, r.Row, bigtable.NewCondMutation(condition, nil, change), bigtable.GetCondMutationResult(&refused))
	return !refused, err
}

// overheard records the last request to a server, and sets its answer.
type overheard struct {
	mu      sync.Mutex
	request *bigtablepb.CheckAndMutateRowRequest
	headers metadata.MD
	matched bool
}

func (o *overheard) intercept(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	r, ok := req.(*bigtablepb.CheckAndMutateRowRequest)
	if !ok {
		return handler(ctx, req)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.request = r
	o.headers, _ = metadata.FromIncomingContext(ctx)
	return &bigtablepb.CheckAndMutateRowResponse{PredicateMatched: o.matched}, nil
}

func ops() *rapid.Generator[sink.Op] {
	return rapid.Custom(func(t *rapid.T) sink.Op {
		name := rapid.StringOfN(rapid.RuneFrom([]rune("ab~\x00é")), 0, 300, -1)
		op := sink.Op{
			Kind: sink.OpKind(rapid.IntRange(int(sink.DeleteFamily), int(sink.DeleteAt)).Draw(t, "kind")), Family: rapid.StringMatching(`[a-z_]{1,20}`).Draw(t, "family"),
			Timestamp: rapid.SampledFrom([]int64{0, 1000, 1_732_175_999_123_000, 1_732_175_999_123_456, sink.ServerTime}).Draw(t, "timestamp"),
		}
		if op.Kind != sink.DeleteFamily {
			op.Qualifier = name.Draw(t, "qualifier")
		}
		switch op.Kind {
		case sink.DeleteBefore, sink.DeleteAt:
			op.Timestamp = max(op.Timestamp, 1000)
		case sink.SetCell:
			op.Value = rapid.SliceOfN(rapid.Byte(), 0, 1).Draw(t, "value")
			op.Value = []byte(strings.Repeat(string(op.Value), rapid.SampledFrom([]int{1, 127, 128, 20_000}).Draw(t, "times")))
		case sink.AddToCell:
			op.Value = binary.BigEndian.AppendUint64(nil, rapid.Uint64().Draw(t, "addend"))
		}
		return op
	})
}

// Request and headers equal those of Bigtable's own client: table, row, profile, predicate, and
// every operation in order, the fence's first.
func TestRequestsAreThoseOfTheClient(t *testing.T) {
	var server overheard
	e := startEmulator(t, grpc.ChainUnaryInterceptor(server.intercept))
	ctx := t.Context()
	check := func(t interface{ Fatalf(string, ...any) }, r sink.Request) {
		applied, err := e.Apply(ctx, &r)
		if err != nil || applied == server.matched {
			t.Fatalf("applied %t, %v", applied, err)
		}
		ours, headers := server.request, server.headers
		if applied, err = plainly(ctx, e.Open(r.Table), &r); err != nil || applied == server.matched {
			t.Fatalf("plainly applied %t, %v", applied, err)
		}
		if !proto.Equal(ours, server.request) {
			t.Fatalf("%v\nplainly %v", ours, server.request)
		}
		for name := range maps.Keys(server.headers) {
			if fmt.Sprint(headers[name]) != fmt.Sprint(server.headers[name]) {
				t.Fatalf("header %s: %q, plainly %q", name, headers[name], server.headers[name])
			}
		}
		if r.Size() < int64(proto.Size(ours))*3/4-128 {
			t.Fatalf("%d bytes are counted as %d", proto.Size(ours), r.Size())
		}
	}
	removed, owned := remove(2), put(3, "a=1")
	owned.Owner, owned.Origin = "S:cg#S:"+strings.Repeat("x", 3000), "o"
	added := transform.RowMutation{Table: "t", Row: "r", Version: version(4), Cells: []transform.Cell{{Family: "d", Qualifier: "n", Add: true, Value: make([]byte, 8)}}}
	for _, m := range []transform.RowMutation{put(1, "a=1", "b="+strings.Repeat("x", 5000)), removed, owned, added} {
		server.matched = !server.matched
		check(t, sink.Guard(m))
	}
	rapid.Check(t, func(t *rapid.T) {
		r := sink.Guard(put(rapid.Uint64().Draw(t, "version")))
		r.Row = rapid.StringN(1, 200, -1).Draw(t, "row")
		r.Refuse.Families = r.Refuse.Families[:rapid.IntRange(1, 2).Draw(t, "families")]
		r.Ops = rapid.SliceOfN(ops(), 1, 8).Draw(t, "ops")
		check(t, r)
	})
}
