package sink_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// copiedAt is the time of the cells of a fast load.
var copiedAt = time.Date(2026, 10, 30, 0, 0, 0, 0, time.UTC)

var marker = sink.Marker{Generation: 7, Load: 2, At: copiedAt.UnixMicro()}

// fastRows returns the rows of items that a load of generation 7 read.
func fastRows(keys ...string) transform.Batch {
	b := transform.Fold(orders, page(keys...), transform.Stamp{Generation: 7, Hop: 1})
	for i := range b.Rows {
		b.Rows[i].Version = transform.LoadVersion(7, copiedAt.Add(72*time.Hour))
	}
	return b
}

// markedStamps returns stamps for table t, with a mark that the test may change.
func markedStamps(t *testing.T, mark *sink.Mark) sink.Stamps {
	t.Helper()
	read := func(context.Context, string) (sink.Mark, error) { return *mark, nil }
	stamps, err := sink.Prove(t.Context(), sink.ApplicationGate(), []string{"t"}, read, func(context.Context) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return stamps
}

func rowOf(t *testing.T, table *sinktest.Memory, key string) sink.Row {
	t.Helper()
	found := sink.Row{}
	if err := table.ReadRows(t.Context(), "t", sink.Single(key), func(r sink.Row) error { found = r; return nil }); err != nil {
		t.Fatal(err)
	}
	return found
}

// H142: a row that only a fast load wrote is live, at the version of an image that was loaded at the
// marker's time. A version or tombstone of its own counts instead, and then the row may hold ghosts.
func TestH142_ARowWithAMarkerAloneIsLive(t *testing.T) {
	mark := transform.Cell{Family: sink.LiveFamily, Qualifier: sink.MarkerColumn, Timestamp: marker.At, Value: []byte("7.2")}
	own := transform.Cell{Family: sink.LiveFamily, Qualifier: sink.VersionColumn, Value: []byte(version(3))}
	gone := transform.Cell{Family: sink.GoneFamily, Qualifier: sink.VersionColumn, Timestamp: 5000, Value: []byte(version(4))}
	odd, stripped := mark, mark
	odd.Value, stripped.Value = []byte("7"), nil
	for name, c := range map[string]struct {
		cells  []transform.Cell
		held   transform.Version
		copied bool
		ghosts bool
		alive  int
	}{
		"marker":                  {[]transform.Cell{mark}, transform.LoadVersion(7, copiedAt), true, false, 1},
		"marker read twice":       {[]transform.Cell{mark, stripped}, transform.LoadVersion(7, copiedAt), true, false, 1},
		"marker and version":      {[]transform.Cell{mark, own}, version(3), false, true, 1},
		"marker and tombstone":    {[]transform.Cell{mark, gone}, version(4), false, true, 0},
		"version":                 {[]transform.Cell{own}, version(3), false, false, 1},
		"no marker":               {[]transform.Cell{odd}, "", false, false, 0},
		"nothing of replicator's": {nil, "", false, false, 0},
	} {
		row := sink.NewRow("r", c.cells)
		if row.Held() != c.held || row.CopiedOnly() != c.copied || row.MayHoldGhosts() != c.ghosts || len(sink.Alive(row)) != c.alive {
			t.Errorf("%s: held %q, copied only %t, ghosts %t, alive %q", name, row.Held(), row.CopiedOnly(), row.MayHoldGhosts(), sink.Alive(row))
		}
	}
}

// H142: entries of a fast load are stamped, have the time of the load, and set nothing but the
// image, the marker and the origin. A guarded write then removes the marker, and its cells are later
// than the load's, even if its change has no time. Once the load is swept, times stay as they are.
func TestH142_GuardedWritesReplaceCopiedRows(t *testing.T) {
	for _, swept := range []bool{false, true} {
		table := &sinktest.Memory{}
		mark := sink.Mark{Family: "_cdc_w00000000_5", Number: 5, Copied: marker.At, Swept: swept}
		table.Create("t", "d", mark.Family)
		w := sink.NewWriter(sink.Options{Table: table, Parking: newLot()})
		batch := fastRows("a", "b")
		batch.Rows[0].Origin = "Orders/S:YQ"
		if err := w.Copy(t.Context(), markedStamps(t, &mark), marker, &batch); err != nil || len(batch.Rows) > 0 {
			t.Fatalf("%v, %d rows are left", err, len(batch.Rows))
		}
		for _, key := range []string{"a", "b"} {
			row := rowOf(t, table, key)
			if !row.CopiedOnly() || row.Marker != marker || slices.ContainsFunc(row.Cells, func(c transform.Cell) bool { return c.Timestamp != marker.At }) || len(row.Own) != map[string]int{"a": 1}[key] {
				t.Errorf("%+v", row)
			}
		}
		m := put(1, "pk=a", "x=1")
		m.Row, m.Origin, m.Cells[0].Timestamp, m.Cells[1].Timestamp = "a", "Orders/S:YQ", 0, copiedAt.Add(time.Hour).UnixMicro()
		later := transform.Batch{Source: "Orders", Rows: []transform.RowMutation{m}}
		if err := w.Write(t.Context(), markedStamps(t, &mark), &later); err != nil {
			t.Fatal(err)
		}
		row := rowOf(t, table, "a")
		first := map[bool]int64{false: marker.At + 1000, true: 0}[swept]
		if row.Marker != (sink.Marker{}) || row.Version != version(1) || row.Cells[0].Timestamp != first || row.Cells[1].Timestamp != copiedAt.Add(time.Hour).UnixMicro() || len(row.Own) != 1 || row.Own[0].Timestamp != 0 {
			t.Errorf("swept %t: %+v", swept, row)
		}
	}
}

// H142: the sweep of a fast load deletes exactly the cells with the time of the load, in rows that
// guarded writes have changed. An origin stays in a live row.
func TestH142_OnlyCellsOfTheLoadAreGhosts(t *testing.T) {
	for _, removed := range []bool{false, true} {
		table := &sinktest.Memory{}
		mark := sink.Mark{Family: "_cdc_w00000000_5", Number: 5, Copied: marker.At}
		table.Create("t", "d", mark.Family)
		w, stamps := sink.NewWriter(sink.Options{Table: table, Parking: newLot()}), markedStamps(t, &mark)
		m := put(1, "pk=a", "x=1")
		if m.Row, m.Origin = "a", "Orders/S:YQ"; removed {
			m = remove(1)
			m.Row = "a"
		}
		for i := range m.Cells {
			m.Cells[i].Timestamp = copiedAt.Add(time.Hour).UnixMicro()
		}
		guarded := transform.Batch{Source: "Orders", Rows: []transform.RowMutation{m}}
		if err := w.Write(t.Context(), stamps, &guarded); err != nil {
			t.Fatal(err)
		}
		before := rowOf(t, table, "a")
		late := fastRows("a")
		late.Rows[0].Origin = "Orders/S:YQ"
		if err := w.Copy(t.Context(), stamps, marker, &late); err != nil {
			t.Fatal(err)
		}
		for range 2 { // repeats are harmless
			var ghosts []sink.Entry
			seen := rowOf(t, table, "a")
			err := table.ReadAt(t.Context(), "t", []string{"a"}, marker.At, func(r sink.Row) error {
				ghosts = append(ghosts, sink.Ghosts(seen, slices.Concat(r.Cells, r.Own)))
				return nil
			})
			if err == nil && seen.MayHoldGhosts() {
				err = w.Clean(t.Context(), stamps, "Orders", "t", ghosts)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		after := rowOf(t, table, "a")
		after.Own = slices.DeleteFunc(after.Own, func(c transform.Cell) bool { return !removed && c.Timestamp == marker.At })
		if fmt.Sprint(before) != fmt.Sprint(after) {
			t.Errorf("removed %t:\n%+v, was\n%+v", removed, after, before)
		}
	}
}

// H142: a repair of a row that only a fast load wrote demands that the row has no version, gets the
// version of its own load, and gives all cells new times.
func TestH142_RepairsOfCopiedRows(t *testing.T) {
	readAt := copiedAt.Add(96 * time.Hour)
	want := fastRows("a").Rows[0]
	cells := slices.Clone(want.Cells)
	for i := range cells {
		cells[i].Timestamp = marker.At
	}
	seen := sink.NewRow("a", append(cells, transform.Cell{Family: sink.LiveFamily, Qualifier: sink.MarkerColumn, Timestamp: marker.At, Value: []byte("7.2")}))
	if _, needed, err := sink.Mend(seen, want, 7, readAt); needed || err != nil {
		t.Errorf("an equal row: repaired %t, %v", needed, err)
	}
	seen.Cells[0].Value = []byte("spoilt")
	r, needed, err := sink.Mend(seen, want, 7, readAt)
	if !needed || err != nil || r.Refuse.AtLeast != "" || !slices.ContainsFunc(r.Ops, func(op sink.Op) bool {
		return op.Family == sink.LiveFamily && string(op.Value) == string(transform.LoadVersion(7, readAt))
	}) || slices.ContainsFunc(r.Ops, func(op sink.Op) bool { return op.Kind == sink.SetCell && op.Timestamp == marker.At }) {
		t.Errorf("%t, %v: %+v", needed, err, r)
	}
}

// bulkTable answers bulk requests as a test says.
type bulkTable struct {
	*sinktest.Memory
	answer func(entries []sink.Entry) []error

	mu   sync.Mutex
	sent int
}

func (b *bulkTable) ApplyAll(ctx context.Context, table string, entries []sink.Entry) []error {
	b.mu.Lock()
	b.sent++
	errs := b.answer(entries)
	b.mu.Unlock()
	if errs != nil {
		return errs
	}
	return b.Memory.ApplyAll(ctx, table, entries)
}

// H80, H142: after a failure, whatever its code, the fence's mark decides: if it has risen, the right must
// be proved again. The mark is read at most once a second. Durable rows leave the batch.
func TestH80_H142_TheMarkDecidesAfterEachFailure(t *testing.T) {
	for _, code := range []sink.Reason{sink.Unknown, sink.Throttled, sink.Permanent, sink.Rejected, sink.Denied} {
		synctest.Test(t, func(t *testing.T) {
			table := &bulkTable{Memory: &sinktest.Memory{}}
			mark := sink.Mark{Family: "_cdc_w00000000_5", Number: 5}
			table.Create("t", "d", mark.Family)
			table.answer = func(entries []sink.Entry) []error {
				errs := make([]error, len(entries))
				errs[0] = &sink.Error{Op: "MutateRows", Reason: code, Code: "Internal"}
				return errs
			}
			reads := 0
			read := func(context.Context, string) (sink.Mark, error) { reads++; return mark, nil }
			stamps, err := sink.Prove(t.Context(), sink.ApplicationGate(), []string{"t"}, read, func(context.Context) error { return nil })
			if err != nil {
				t.Fatal(err)
			}
			lot := newLot()
			w := sink.NewWriter(sink.Options{Table: table, Parking: lot})
			batch := fastRows("a", "b")
			reads = 0
			for range 5 {
				err = w.Copy(t.Context(), stamps, marker, &batch)
				_ = task.Sleep(t.Context(), 300*time.Millisecond)
			}
			if code == sink.Rejected { // the row is written under its guard, which this table accepts
				if err != nil || len(batch.Rows) > 0 || rowOf(t, table.Memory, "a").Version == "" {
					t.Errorf("rejected: %v, %d rows", err, len(batch.Rows))
				}
				batch = fastRows("a", "b")
			} else if !sink.Is(err, code) || len(batch.Rows) != 1 || batch.Rows[0].Row != "a" || reads != 2 {
				t.Errorf("%v: %v, %d rows are left, %d reads", code, err, len(batch.Rows), reads)
			}
			mark.Number = 6
			_ = task.Sleep(t.Context(), time.Second)
			if err := w.Copy(t.Context(), stamps, marker, &batch); !errors.Is(err, sink.ErrRefenced) {
				t.Errorf("%v: after the mark has risen: %v", code, err)
			}
		})
	}
}

// A batch is divided into requests of a bounded number of rows and bytes. A row that a bulk request
// cannot write is written under its guard. A table without bulk requests, and one without a proof,
// get nothing.
func TestBulkRequestsAreBounded(t *testing.T) {
	table := &bulkTable{Memory: &sinktest.Memory{}}
	table.Create("t", "d")
	most := 0
	table.answer = func(entries []sink.Entry) []error { most = max(most, len(entries)); return nil }
	w := sink.NewWriter(sink.Options{Table: table, Parking: newLot()})
	var keys []string
	for n := range 2500 {
		keys = append(keys, fmt.Sprintf("k%04d", n))
	}
	batch := fastRows(keys...)
	batch.Rows = append(batch.Rows, remove(9))
	if err := w.Copy(t.Context(), sink.Unfenced(), marker, &batch); err != nil || most != 1000 || table.sent != 3 {
		t.Errorf("%v: %d requests of up to %d rows", err, table.sent, most)
	}
	if rowOf(t, table.Memory, "r").Gone == "" {
		t.Error("the remove is not written")
	}
	wide := fastRows("x", "y", "z")
	for i := range wide.Rows {
		wide.Rows[i].Cells[0].Value = []byte(strings.Repeat("x", 3<<20))
	}
	if table.sent = 0; w.Copy(t.Context(), sink.Unfenced(), marker, &wide) != nil || table.sent != 3 {
		t.Errorf("%d requests for three large rows", table.sent)
	}
	again := fastRows("a")
	if err := w.Copy(t.Context(), sink.Stamps{}, marker, &again); !errors.Is(err, sink.ErrUnproved) {
		t.Errorf("without a proof: %v", err)
	}
	single := sink.NewWriter(sink.Options{Table: &scripted{Memory: table.Memory}, Parking: newLot()})
	if err := single.Copy(t.Context(), sink.Unfenced(), marker, &again); err != nil && !sink.Is(err, sink.Permanent) {
		t.Errorf("without bulk requests: %v", err)
	}
}

// H48, H49: bulk requests are messages of the service. Each entry gets its own status. An entry without one
// has an unknown outcome, and so have all entries of a broken answer.
func TestH48_H49_BulkRequestsOnTheWire(t *testing.T) {
	var request *bigtablepb.MutateRowsRequest
	var answer []*bigtablepb.MutateRowsResponse
	var failed error
	e := startEmulator(t, grpc.ChainStreamInterceptor(func(_ any, stream grpc.ServerStream, info *grpc.StreamServerInfo, _ grpc.StreamHandler) error {
		request = &bigtablepb.MutateRowsRequest{}
		if err := stream.RecvMsg(request); err != nil {
			return err
		}
		for _, a := range answer {
			if err := stream.SendMsg(a); err != nil {
				return err
			}
		}
		return failed
	}))
	rapid.Check(t, func(t *rapid.T) {
		entries := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) sink.Entry {
			return sink.Entry{Row: rapid.StringN(1, 200, -1).Draw(t, "row"), Ops: rapid.SliceOfN(ops(), 1, 4).Draw(t, "ops")}
		}), 1, 4).Draw(t, "entries")
		e.ApplyAll(context.Background(), "t", entries)
		want := &bigtablepb.MutateRowsRequest{TableName: request.TableName, AppProfileId: request.AppProfileId}
		for _, entry := range entries {
			single := sink.Request{Table: "t", Row: entry.Row, Ops: entry.Ops, Refuse: sink.Predicate{Families: []string{"d"}}}
			var alone bigtablepb.CheckAndMutateRowRequest
			if err := proto.Unmarshal(single.AppendProto(nil, request.TableName, ""), &alone); err != nil {
				t.Fatal(err)
			}
			want.Entries = append(want.Entries, &bigtablepb.MutateRowsRequest_Entry{RowKey: []byte(entry.Row), Mutations: alone.FalseMutations})
		}
		if !proto.Equal(request, want) || !strings.HasSuffix(request.TableName, "/tables/t") {
			t.Fatalf("%v\nwant %v", request, want)
		}
	})
	entry := func(index int64, s *status.Status) *bigtablepb.MutateRowsResponse_Entry {
		return &bigtablepb.MutateRowsResponse_Entry{Index: index, Status: s}
	}
	answer = []*bigtablepb.MutateRowsResponse{
		{Entries: []*bigtablepb.MutateRowsResponse_Entry{entry(2, &status.Status{}), entry(0, &status.Status{Code: int32(codes.NotFound), Message: "family"})}},
		{Entries: []*bigtablepb.MutateRowsResponse_Entry{entry(1, nil), entry(9, &status.Status{})}},
	}
	entries := []sink.Entry{{Row: "a"}, {Row: "b"}, {Row: "c"}, {Row: "d"}}
	errs := e.ApplyAll(t.Context(), "t", entries)
	if !sink.Is(errs[0], sink.Permanent) || !sink.Is(errs[1], sink.Unknown) || errs[2] != nil || !sink.Is(errs[3], sink.Unknown) {
		t.Errorf("%v", errs)
	}
	answer, failed = answer[:1], grpcstatus.Error(codes.PermissionDenied, "no")
	if errs := e.ApplyAll(t.Context(), "t", entries); !sink.Is(errs[0], sink.Permanent) || !sink.Is(errs[1], sink.Denied) || errs[2] != nil {
		t.Errorf("after a broken answer: %v", errs)
	}
}
