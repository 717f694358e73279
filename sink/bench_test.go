package sink_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// smallPage returns a page of 1,000 changes of different items with about 500 bytes in 10
// attributes.
func smallPage(from int) []cdc.Change {
	var changes []cdc.Change
	for i := range 1000 {
		pk := []attribute.Attribute{{Name: "pk", Value: attribute.String(fmt.Sprintf("customer-%05d", i))}}
		image := append([]attribute.Attribute{}, pk...)
		for j := range 9 {
			image = append(image, attribute.Attribute{Name: fmt.Sprintf("attribute%d", j), Value: attribute.String(strings.Repeat("x", 50+j))})
		}
		changes = append(changes, cdc.Change{Event: cdc.Modify, Sequence: cdc.SequenceOf(uint64(from + i)), Time: time.Unix(firstSecond, 0),
			Keys: attribute.NewItem(pk), New: attribute.NewItem(image)})
	}
	return changes
}

// BenchmarkGuardedWrite writes pages of small items, with client and server in one process. One
// server answers immediately and stores nothing; the other is the emulator, whose own work bounds
// it. Each runs with the stamp of the fence, as workers write, and without.
func BenchmarkGuardedWrite(b *testing.B) {
	discard := grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if _, ok := req.(*bigtablepb.CheckAndMutateRowRequest); ok {
			return &bigtablepb.CheckAndMutateRowResponse{}, nil
		}
		return handler(ctx, req)
	})
	for _, server := range []struct {
		name    string
		options []grpc.ServerOption
	}{{"discarding", []grpc.ServerOption{discard}}, {"emulator", nil}} {
		for _, stamped := range []bool{true, false} {
			name := map[bool]string{true: server.name, false: server.name + "/unstamped"}[stamped]
			b.Run(name, func(b *testing.B) {
				e := startEmulator(b, server.options...).create(b)
				ledger := &published{}
				if err := e.admin.CreateFamily(b.Context(), "t", ledger.is(29_000_000)); err != nil {
					b.Fatal(err)
				}
				stamps := ledger.prove(b)
				if !stamped {
					stamps = sink.Unfenced()
				}
				writePages(b, sink.NewWriter(sink.Options{Table: e, Parking: newLot()}), stamps)
			})
		}
	}
}

func writePages(b *testing.B, w *sink.Writer, stamps sink.Stamps) {
	sequence, rows := 1, 0
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		batch := transform.Fold(orders, smallPage(sequence), transform.Stamp{Generation: 1, Hop: 500_000})
		sequence += 1000
		rows += len(batch.Rows)
		b.StartTimer()
		if err := w.Write(context.Background(), stamps, &batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rows), "ns/row")
}

// BenchmarkGuard builds the request of a small item.
func BenchmarkGuard(b *testing.B) {
	batch := transform.Fold(orders, smallPage(1)[:1], transform.Stamp{Generation: 1, Hop: 500_000})
	b.ReportAllocs()
	for b.Loop() {
		_ = sink.Guard(batch.Rows[0])
	}
}
