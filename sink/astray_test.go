package sink_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// One page may give several items their first address. Then the parked records of each item are
// superseded, not only those of the first. A failed Supersede is repeated with the page.
func TestAPageSupersedesForEachOfItsItems(t *testing.T) {
	s := newTenants(t)
	change := func(number uint64, key, tenant string) cdc.Change {
		keys := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String(key)}})
		c := cdc.Change{Event: cdc.Insert, Sequence: cdc.SequenceOf(number), Time: time.Unix(1_800_000_000, 0), Keys: keys, New: image(key, tenant, "x")}
		if tenant != "" {
			c.Event, c.Old = cdc.Modify, image(key, "", "x")
		}
		return c
	}
	s.write(change(1, "a", ""), change(2, "b", ""), change(3, "c", ""))
	if n, err := s.parking.CountOf(t.Context(), "Orders"); err != nil || n != 3 {
		t.Fatal(n, err)
	}
	b := s.fold(change(4, "a", "t1"), change(5, "b", "t2"), change(6, "c", "t3"))
	failing := &forgetful{Parking: s.parking, fails: 2}
	w := sink.NewWriter(sink.Options{Table: s.table, Parking: failing})
	if err := w.Write(t.Context(), sink.Unfenced(), &b); !errors.Is(err, errForgetful) {
		t.Errorf("the first time it ended with %v", err)
	}
	if err := w.Write(t.Context(), sink.Unfenced(), &b); err != nil {
		t.Error(err)
	}
	if n, err := s.parking.CountOf(t.Context(), "Orders"); err != nil || n != 0 {
		t.Errorf("%d items are parked still, %v", n, err)
	}
}

// forgetful is a parking lot in which one call of Supersede fails, counted from 1.
type forgetful struct {
	*sink.Parking
	calls, fails int
}

var errForgetful = errors.New("no answer")

func (f *forgetful) Supersede(ctx context.Context, source, item string, by transform.Version) error {
	if f.calls++; f.calls == f.fails {
		return errForgetful
	}
	return f.Parking.Supersede(ctx, source, item, by)
}

// silentRecords returns an error from each read.
type silentRecords struct{ *sinktest.Records }

func (silentRecords) Scan(context.Context, string, bool, func(string, []byte) error) error {
	return &sink.Error{Op: "ReadRows", Reason: sink.Unknown, Code: "Unavailable"}
}

// If the records cannot be read, the number of parked items is unknown. Zero would be wrong: the
// limit would seem kept and the status clean.
func TestWhatCannotBeCountedIsNotNone(t *testing.T) {
	p := sink.NewParking(silentRecords{&sinktest.Records{}}, "m")
	if n, err := p.Count(t.Context(), 7); !sink.Is(err, sink.Unknown) {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := p.CountOf(t.Context(), "Orders"); !sink.Is(err, sink.Unknown) {
		t.Errorf("%d, %v", n, err)
	}
	if err := p.Supersede(t.Context(), "Orders", "S:a", "9"); !sink.Is(err, sink.Unknown) {
		t.Errorf("superseded: %v", err)
	}
	if err := p.List(t.Context(), "", func(sink.Ref, transform.Parked) error { return nil }); !sink.Is(err, sink.Unknown) {
		t.Errorf("listed: %v", err)
	}
}

// Of several versions or tombstones of a row the highest counts, in any order, with the time at
// which it was written.
func TestTheHighestVersionOfARowCounts(t *testing.T) {
	cell := func(family, version string, at int64) transform.Cell {
		return transform.Cell{Family: family, Qualifier: sink.VersionColumn, Value: []byte(version), Timestamp: at}
	}
	for _, cells := range [][]transform.Cell{
		{cell(sink.LiveFamily, "1", 0), cell(sink.LiveFamily, "3", 0), cell(sink.GoneFamily, "2", 20), cell(sink.GoneFamily, "4", 10)},
		{cell(sink.LiveFamily, "3", 0), cell(sink.LiveFamily, "1", 0), cell(sink.GoneFamily, "4", 10), cell(sink.GoneFamily, "2", 20)},
	} {
		if row := sink.NewRow("k", cells); row.Version != "3" || row.Gone != "4" || row.GoneAt != 10 || row.Held() != "4" || len(row.Cells)+len(row.Own) != 0 {
			t.Errorf("%+v", row)
		}
	}
}
