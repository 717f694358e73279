package source

import (
	"context"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// scan is the kind that reads the table itself, segment by segment.
var scan = &kind{
	name: "scan", noun: "table", form: "scan", written: "scan", named: "name no export",
	claims: func(address string) bool { return address == "" || address == "scan" },
	check:  func(string) string { return "" },
	parse:  func(string) (string, error) { return "", nil },
	folder: func(string) string { return "" },
	again:  func(backfill.Description) string { return "request the load again" },
	open:   func(_ context.Context, from Ends, _ string) (set, error) { return segments{from: from}, nil },
	fit: func(sets []set, of Wanted) ([]set, error) {
		table := sets[0].(segments)
		table.size = OfScan(of.Table, of.Segments)
		return []set{table}, nil
	},
}

// segments is the set of a scan, with its number of segments. The number is unknown before Fit.
type segments struct {
	from Ends
	size Size
}

// OfScan returns the amount of data that a scan of a table copies, if each worker reads the given
// number of segments concurrently.
func OfScan(d backfill.Description, segments int) Size {
	return Size{Parts: backfill.NumberOfParts(d.Bytes, segments), Items: d.Items, Bytes: d.Bytes}
}

func (segments) Record() checkpoint.Export { return checkpoint.Export{} }

func (s segments) Size() Size { return s.size }

func (s segments) Grouped(int) set { return s }

func (s segments) Part(int) (backfill.PartSource, func() error, error) {
	return backfill.Segments{Table: s.from.Table, Source: s.from.Scan}, func() error { return nil }, nil
}

func (segments) Whole(context.Context, string, Proof) error { return nil }
