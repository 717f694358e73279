package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/dynamodb-bigtable/replicator/bench/embedded"
)

// preparedInFlight is how many prepared requests are under way at once, as many as a worker has.
const preparedInFlight = 256

// measured is a copy whose rate is compared.
type measured struct {
	name, program string
	export        bool
	mode          string // backfill.mode; "" for the default
}

// compareRates measures, in interleaved rounds, prepared conditional requests and the copies: of
// this program, and of the former one, or by a scan and of an export. Each has services of its own.
func compareRates(ctx context.Context, o options, dir, program string, log io.Writer) error {
	copies := []measured{{"this version", program, false, ""}}
	if o.former != "" {
		copies = append(copies, measured{"former version", o.former, false, ""})
	}
	if o.export {
		copies = []measured{{"by a scan", program, false, ""}, {"of an export", program, true, ""}}
	}
	if o.modes {
		copies = []measured{{"guarded", program, o.export, "guarded"}, {"fast", program, o.export, "fast"}}
	}
	ratios := make([][]float64, len(copies))
	var first []float64 // of the last copy to the first
	for round := range o.rounds {
		prepared, err := preparedRate(o.items)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(log, "round %d: prepared conditional requests %.0f rows/s", round+1, prepared)
		for i, c := range copies {
			rate, err := copyRate(ctx, o, c, filepath.Join(dir, fmt.Sprintf("%d-%d", round, i)))
			if err != nil {
				return err
			}
			ratios[i] = append(ratios[i], rate/prepared)
			_, _ = fmt.Fprintf(log, "; copy, %s %.0f items/s, %.2f of it", c.name, rate, rate/prepared)
		}
		_, _ = fmt.Fprintln(log)
		first = append(first, ratios[len(copies)-1][round]/ratios[0][round])
	}
	for i, c := range copies {
		_, _ = fmt.Fprintf(log, "copy against prepared conditional requests, %s: median %.2f\n", c.name, median(ratios[i]))
	}
	if o.modes {
		_, _ = fmt.Fprintf(log, "fast copy against the guarded copy of the same round: median %.2f\n", median(first))
	} else if o.export {
		_, _ = fmt.Fprintf(log, "copy of an export against the copy by a scan of the same round: median %.2f\n", median(first))
	}
	return nil
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// copyRate is the items a second that one worker copies, from the first page to the end of the copy
// or, of an export, from the time at which the ledger has the plan.
func copyRate(ctx context.Context, o options, c measured, dir string) (float64, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return 0, err
	}
	// A source of its own: it notes when its first page was read.
	s, err := begin(ctx, o, c.export, c.mode, 1, dir, c.program)
	defer s.stop()
	if err != nil {
		return 0, err
	}
	took, err := s.watch(ctx, func(int) error { return nil })
	return float64(o.items) / took.Seconds(), err
}

// preparedRate is the rows a second of prepared conditional requests from a process of their own.
func preparedRate(items int) (float64, error) {
	target, err := embedded.Start(embedded.Role{})
	if err != nil {
		return 0, err
	}
	defer target.Stop()
	client, err := embedded.Start(embedded.Role{Own: "prepared", TargetAddress: target.Line, Items: items})
	if err != nil {
		return 0, err
	}
	defer client.Stop()
	took, err := time.ParseDuration(client.Line)
	return float64(items) / took.Seconds(), err
}

// sendPrepared writes all rows with the official client's conditional apply, one request a row, of
// which nothing is left to build: the same predicate, deletes and cells as the guard's.
func sendPrepared(r embedded.Role) (took string, err error) {
	ctx, address, items := context.Background(), r.TargetAddress, r.Items
	client, closeConn, err := embedded.Open(ctx, address)
	if err != nil {
		return "", err
	}
	defer closeConn()
	if err := makeTable(ctx, address); err != nil {
		return "", err
	}
	const version = "00000001.000000.0000000000000000000000000000001795170000.0001"
	predicate := bigtable.ChainFilters(bigtable.FamilyFilter("_cdc|_cdc_gone"), bigtable.ColumnFilter("v"), bigtable.ValueRangeFilter([]byte(version), nil))
	requests := make([]*bigtable.Mutation, items)
	for n := range requests {
		m := bigtable.NewMutation()
		m.Set("_cdc_w", "f", 0, nil)
		m.DeleteCellsInColumn("_cdc_w", "f")
		m.DeleteCellsInFamily("d")
		for column, value := range map[string]string{"pk": embedded.Key(n), "number": embedded.Number(n), "note": embedded.Note(n)} {
			m.Set("d", column, 1_795_170_000_000_000, []byte(value))
		}
		m.DeleteCellsInColumn("_cdc_gone", "v")
		m.DeleteCellsInColumn("_cdc", "v")
		m.Set("_cdc", "v", 0, []byte(version))
		requests[n] = bigtable.NewCondMutation(predicate, nil, m)
	}
	rows := client.Open(embedded.Table)
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var senders sync.WaitGroup
	began := time.Now()
	for range preparedInFlight {
		senders.Go(func() {
			for n := int(next.Add(1)) - 1; n < items && failed.Load() == nil; n = int(next.Add(1)) - 1 {
				if err := rows.Apply(ctx, embedded.Key(n), requests[n]); err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	senders.Wait()
	if err := failed.Load(); err != nil {
		return "", *err
	}
	return time.Since(began).String(), nil
}

// makeTable makes the target table with its families.
func makeTable(ctx context.Context, address string) error {
	admin, err := embedded.OpenAdmin(ctx, address)
	if err != nil {
		return err
	}
	if err := admin.CreateTable(ctx, embedded.Table); err != nil {
		return err
	}
	for _, family := range []string{"d", "_cdc", "_cdc_gone", "_cdc_w"} {
		if err := admin.CreateColumnFamily(ctx, embedded.Table, family); err != nil {
			return err
		}
	}
	return nil
}
