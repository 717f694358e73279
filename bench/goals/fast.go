package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cloud.google.com/go/bigtable"
	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/genproto/googleapis/rpc/status"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// MutateRows applies everything and keeps nothing.
func (d discarding) MutateRows(r *bigtablepb.MutateRowsRequest, to bigtablepb.Bigtable_MutateRowsServer) error {
	time.Sleep(d.latency)
	answer := &bigtablepb.MutateRowsResponse{Entries: make([]*bigtablepb.MutateRowsResponse_Entry, len(r.Entries))}
	for i := range answer.Entries {
		answer.Entries[i] = &bigtablepb.MutateRowsResponse_Entry{Index: int64(i), Status: &status.Status{}}
	}
	return to.Send(answer)
}

// loading maps items and writes them as the parts of a fast load do, beside the client with guarded writes and with bulk requests of the same
// rows that exist already.
func loading(ctx context.Context, b *bench) error {
	for _, s := range shapes[:2] {
		row := "fast load, " + s.name
		if b.skips(row) {
			continue
		}
		if err := loadShape(ctx, b, s, row); err != nil {
			return err
		}
	}
	return nil
}

func loadShape(ctx context.Context, b *bench, s shape, row string) error {
	t, err := startTarget(ctx, 0)
	if err != nil {
		return err
	}
	defer t.close()
	const rows, parts = 4000, 4 // each part of a load has pages of about so many rows
	var items []attribute.Item
	for n := range rows {
		item, err := attribute.UnmarshalItem([]byte(s.item(n)))
		if err != nil {
			return err
		}
		items = append(items, item)
	}
	list, _, err := requests(ctx, streamPage(s, unique(0, rows)))
	if err != nil {
		return err
	}
	prepared := prepare(list)
	at := time.Date(2024, 11, 19, 8, 0, 0, 0, time.UTC)
	marker := sink.Marker{Generation: 1, Load: 1, At: at.UnixMicro()}
	keys, bulk := make([]string, rows), make([]*bigtable.Mutation, rows)
	batch := transform.Load(orders, items, 1, at)
	for i := range batch.Rows {
		keys[i], bulk[i] = batch.Rows[i].Row, bigtable.NewMutation()
		bulk[i].Set(mark.Family, "f", 0, nil)
		bulk[i].DeleteCellsInFamily(mark.Family)
		for _, c := range batch.Rows[i].Cells {
			bulk[i].Set(c.Family, c.Qualifier, bigtable.Timestamp(marker.At), c.Value)
		}
		bulk[i].Set(sink.LiveFamily, sink.MarkerColumn, bigtable.Timestamp(marker.At), []byte("1.1"))
	}
	writer, stamps, times := sink.NewWriter(sink.Options{Table: t.ours, Parking: noParking{}}), proved(ctx), b.times(6)
	chunks := slices.Collect(slices.Chunk(unique(0, rows), 1000))
	costs, err := b.measure(
		way{"fast", repeat(times, func() (int, error) {
			_, err := inFlight(parts, parts, func(i int) error {
				batch := transform.Load(orders, items[i*rows/parts:(i+1)*rows/parts], 1, at)
				return writer.Copy(ctx, stamps, marker, &batch)
			})
			return rows, err
		})},
		way{"guarded, prepared", repeat(b.times(1), func() (int, error) {
			return inFlight(width, rows, func(i int) error { return t.apply(ctx, list[i].Row, prepared[i]) })
		})},
		way{"bulk, prepared", repeat(times, func() (int, error) {
			_, err := inFlight(len(chunks), len(chunks), func(i int) error {
				from, to := chunks[i][0], chunks[i][len(chunks[i])-1]+1
				errs, err := t.table.ApplyBulk(ctx, keys[from:to], bulk[from:to])
				if err == nil && errs != nil {
					err = fmt.Errorf("an entry is refused: %w", errs[0])
				}
				return err
			})
			return rows, err
		})})
	if err != nil {
		return err
	}
	goals := map[string][2]float64{"small": {5, 1. / 4}, "medium": {2.5, 1 / 1.8}}[s.name]
	b.ratio(row+" / guarded, prepared", "items/s", rate, costs[0], costs[1], atLeast(goals[0]))
	b.ratio(row+" / guarded, prepared", "CPU", cpu, costs[0], costs[1], atMost(goals[1]))
	b.ratio(row+" / bulk, prepared", "items/s", rate, costs[0], costs[2], atLeast(0.7))
	return nil
}
