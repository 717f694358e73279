package sink_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"cloud.google.com/go/bigtable/bttest"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"pgregory.net/rapid"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// target is a table under the conformance suite.
type target interface {
	sink.Table
	sink.Reader
	sink.MarkReader
}

// emulator is Google's in-memory Bigtable with the tables "t" (families d, e and replicator's) and
// "state".
type emulator struct {
	*sink.Bigtable
	admin *sink.Admin
	dial  func() option.ClientOption // returns another connection
}

var instance = sink.Instance{Project: "p", Instance: "i", AppProfile: "one"}

func startEmulator(t testing.TB, options ...grpc.ServerOption) *emulator {
	t.Helper()
	options = append(options, grpc.MaxRecvMsgSize(1<<28), grpc.MaxSendMsgSize(1<<28),
		grpc.ChainUnaryInterceptor(limitPredicate), grpc.ChainStreamInterceptor(limitFilter))
	server, err := bttest.NewServer("127.0.0.1:0", options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return connect(t, server.Addr)
}

func connect(t testing.TB, addr string) *emulator {
	t.Helper()
	dial := func() option.ClientOption {
		conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<28), grpc.MaxCallSendMsgSize(1<<28)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return option.WithGRPCConn(conn)
	}
	ctx := context.Background()
	e := &emulator{dial: dial}
	var err error
	if e.Bigtable, err = sink.Connect(ctx, instance, dial()); err != nil {
		t.Fatal(err)
	}
	if e.admin, err = sink.ConnectAdmin(ctx, instance, dial()); err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *emulator) create(t testing.TB) *emulator {
	t.Helper()
	_, err := e.admin.Prepare(context.Background(), []sink.TableSpec{sink.TargetSpec("t", tombstoneAge, "d", "e"), sink.StateSpec("state", "ledger")}, true)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

const tombstoneAge = 14 * 24 * 3600e9

func memory() *sinktest.Memory {
	m := &sinktest.Memory{}
	m.Create("t", "d", "e")
	return m
}

// onBoth runs a test on the reference and on the emulator.
func onBoth(t *testing.T, f func(t *testing.T, table target)) {
	t.Run("memory", func(t *testing.T) { f(t, memory()) })
	t.Run("bttest", func(t *testing.T) { f(t, startEmulator(t).create(t)) })
}

func version(sequence uint64) transform.Version {
	return transform.NewVersion(1, 500_000, cdc.SequenceOf(sequence), transform.CountExact)
}

// put and remove return mutations of row r at a version. A put sets each "column=value".
func put(sequence uint64, cells ...string) transform.RowMutation {
	m := transform.RowMutation{Item: "S:cg", Table: "t", Row: "r", Version: version(sequence), Families: []string{"d"}}
	for _, c := range cells {
		qualifier, value, _ := strings.Cut(c, "=")
		m.Cells = append(m.Cells, transform.Cell{Family: "d", Qualifier: qualifier, Timestamp: 1_000_000, Value: []byte(value)})
	}
	return m
}

func remove(sequence uint64) transform.RowMutation {
	m := put(sequence)
	m.Remove = true
	return m
}

func apply(t testing.TB, table sink.Table, m transform.RowMutation) bool {
	t.Helper()
	r := sink.Guard(m)
	applied, err := table.Apply(context.Background(), &r)
	if err != nil {
		t.Fatal(err)
	}
	return applied
}

func readAll(t testing.TB, table sink.Reader, name string) []sink.Row {
	t.Helper()
	var rows []sink.Row
	if err := table.ReadRows(context.Background(), name, sink.Range{}, func(r sink.Row) error { rows = append(rows, r); return nil }); err != nil {
		t.Fatal(err)
	}
	return rows
}

// show returns table t with one line per row: live sequence number, tombstone's, cells.
func show(t testing.TB, table sink.Reader) string {
	t.Helper()
	var lines []string
	for _, r := range readAll(t, table, "t") {
		line := r.Key
		if r.Version != "" {
			line += " live@" + r.Version.Sequence().String()
		}
		if r.Gone != "" {
			line += " gone@" + r.Gone.Sequence().String()
		}
		for _, c := range r.Cells {
			line += fmt.Sprintf(" %s:%s=%s@%d", c.Family, c.Qualifier, c.Value, c.Timestamp)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func expect(t testing.TB, table sink.Reader, want string) {
	t.Helper()
	if got := show(t, table); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// H03, H04, H26, H29, H30: a request older than the row is refused, whenever and by whomever it is
// sent, and no cell of an older image returns.
func TestH03_H04_H26_H29_H30_OlderImagesAreRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, table target) {
		steps := []struct {
			m       transform.RowMutation
			applied bool
			want    string
		}{
			{put(10, "a=1", "b=1"), true, "r live@10 d:a=1@1000000 d:b=1@1000000"},
			{put(10, "a=1", "b=1"), false, "r live@10 d:a=1@1000000 d:b=1@1000000"}, // repeated
			{put(12, "a=2"), true, "r live@12 d:a=2@1000000"},                       // attribute b was removed, as only the new image shows
			{put(11, "a=old", "b=old"), false, "r live@12 d:a=2@1000000"},           // a late attempt restores nothing
			{remove(11), false, "r live@12 d:a=2@1000000"},                          // nor does a late removal delete
			{remove(13), true, "r gone@13"},                                         // removed: the tombstone stays
			{put(12, "a=2"), false, "r gone@13"},                                    // and refuses
			{remove(13), false, "r gone@13"},                                        // repeated
			{put(99, "c=3"), true, "r live@99 d:c=3@1000000"},                       // recreated, the tombstone is removed
			{put(100, "c=4"), true, "r live@100 d:c=4@1000000"},                     // H10: 99 is before 100
			{remove(98), false, "r live@100 d:c=4@1000000"},                         //
			{put(101), true, "r live@101"},                                          // an item without mapped cells lives
			{remove(102), true, "r gone@102"}, {remove(103), true, "r gone@103"},    // tombstones rise
			{put(102, "z=1"), false, "r gone@103"}, {remove(102), false, "r gone@103"}, //
			{put(104, "a=5", "=empty"), true, "r live@104 d:=empty@1000000 d:a=5@1000000"}, // an empty column name
		}
		for i, s := range steps {
			if applied := apply(t, table, s.m); applied != s.applied {
				t.Errorf("step %d: applied %v", i, applied)
			}
			expect(t, table, s.want)
		}
	})
}

// An item owns its family, so cells of other families stay.
func TestGuardTouchesOwnedFamiliesOnly(t *testing.T) {
	onBoth(t, func(t *testing.T, table target) {
		other := put(1, "x=1")
		other.Families, other.Cells[0].Family = []string{"e"}, "e"
		apply(t, table, other)
		apply(t, table, put(2, "a=1"))
		expect(t, table, "r live@2 d:a=1@1000000 e:x=1@1000000")
		apply(t, table, remove(3))
		expect(t, table, "r gone@3 e:x=1@1000000")
	})
}

// H77: the server's clock stepped back between two tombstones, so the older one has the newer
// timestamp. H28: garbage collection is lazy, so surplus versions still show. The predicate must
// see every cell at or above the version.
func TestH77_H28_EveryCellOfTheVersionColumnsRefuses(t *testing.T) {
	plant := func(family string, cells ...uint64) sink.Request { // the first cell is the newest by timestamp
		r := sink.Request{Table: "t", Row: "r", Refuse: sink.Predicate{Families: []string{sink.LiveFamily}, Qualifier: "none", AtLeast: "x"}}
		for i, sequence := range cells {
			r.Ops = append(r.Ops, sink.Op{Kind: sink.SetCell, Family: family, Qualifier: sink.VersionColumn,
				Timestamp: int64(len(cells)-i) * 1_000_000, Value: []byte(version(sequence))})
		}
		return r
	}
	for _, family := range []string{sink.LiveFamily, sink.GoneFamily} {
		t.Run(family, func(t *testing.T) {
			onBoth(t, func(t *testing.T, table target) {
				r := plant(family, 10, 30, 20)
				if applied, err := table.Apply(context.Background(), &r); !applied || err != nil {
					t.Fatal(applied, err)
				}
				for _, m := range []transform.RowMutation{put(25, "a=1"), remove(25), put(30, "a=1")} {
					if apply(t, table, m) {
						t.Errorf("version %s was applied under a hidden 30", m.Version.Sequence())
					}
				}
				if !apply(t, table, put(31, "a=1")) {
					t.Error("31 was refused")
				}
			})
		})
	}
}

// A version in another column or family, or a lower one, does not refuse. Columns are not regular
// expressions (H74).
func TestH74_PredicateLooksAtItsColumnAlone(t *testing.T) {
	onBoth(t, func(t *testing.T, table target) {
		high := []byte(version(1000))
		r := sink.Request{Table: "t", Row: "r", Refuse: sink.Predicate{Families: []string{sink.LiveFamily}, Qualifier: "none", AtLeast: "x"}}
		for _, at := range [][2]string{{"d", "v"}, {"e", "v"}, {sink.LiveFamily, "w"}, {sink.LiveFamily, "v0"}, {sink.LiveFamily, ""}, {sink.GoneFamily, "vv"}} {
			r.Ops = append(r.Ops, sink.Op{Kind: sink.SetCell, Family: at[0], Qualifier: at[1], Value: high})
		}
		if applied, err := table.Apply(context.Background(), &r); !applied || err != nil {
			t.Fatal(applied, err)
		}
		if !apply(t, table, put(5, "a=1")) {
			t.Error("refused for a cell of another column")
		}
		dotted := sink.Request{Table: "t", Row: "q", Refuse: sink.Predicate{Families: []string{"d"}, Qualifier: "a.c", AtLeast: "5"},
			Ops: []sink.Op{{Kind: sink.SetCell, Family: "d", Qualifier: "abc", Value: []byte("9")}}}
		for range 2 {
			if applied, err := table.Apply(context.Background(), &dotted); !applied || err != nil {
				t.Errorf("a.c was taken for abc: %v %v", applied, err)
			}
		}
		dotted.Refuse.Qualifier = "abc"
		if applied, err := table.Apply(context.Background(), &dotted); applied || err != nil {
			t.Errorf("abc was not found: %v %v", applied, err)
		}
	})
}

func TestReadRows(t *testing.T) {
	onBoth(t, func(t *testing.T, table target) {
		for i, key := range []string{"a", "a#1", "a#1\x00", "b", "\xff", "\xff\xff"} {
			m := put(uint64(i+1), "n="+fmt.Sprint(i))
			m.Row = key
			apply(t, table, m)
		}
		read := func(r sink.Range) string {
			var keys []string
			err := table.ReadRows(context.Background(), "t", r, func(row sink.Row) error { keys = append(keys, fmt.Sprintf("%q", row.Key)); return nil })
			if err != nil {
				t.Fatal(err)
			}
			return strings.Join(keys, " ")
		}
		for want, r := range map[string]sink.Range{
			`"a" "a#1" "a#1\x00" "b" "\xff" "\xff\xff"`: {},
			`"a#1"`:             sink.Single("a#1"),
			`"a#1" "a#1\x00"`:   sink.Prefix("a#"),
			`"\xff" "\xff\xff"`: sink.Prefix("\xff"),
			`"\xff\xff"`:        sink.Prefix("\xff\xff"),
			`"a#1\x00" "b"`:     {From: "a#1\x00", To: "\xff"},
			``:                  sink.Single("absent"),
			`"a" "a#1"`:         {To: "a#1\x00"},
		} {
			if got := read(r); got != want {
				t.Errorf("%+v: %s, want %s", r, got, want)
			}
		}
		stop := fmt.Errorf("enough")
		n := 0
		if err := table.ReadRows(context.Background(), "t", sink.Range{}, func(sink.Row) error { n++; return stop }); err != stop || n != 1 {
			t.Errorf("%v after %d rows", err, n)
		}
	})
}

// The witness row holds cells of replicator that are not versions. They are returned separately.
func TestReadRowsTellsOurOwnCells(t *testing.T) {
	onBoth(t, func(t *testing.T, table target) {
		r := sink.Request{Table: "t", Row: "w", Refuse: sink.Predicate{Families: []string{sink.LiveFamily}, Qualifier: "none", AtLeast: "x"},
			Ops: []sink.Op{{Kind: sink.SetCell, Family: sink.LiveFamily, Qualifier: "ledger", Value: []byte("id")}}}
		if _, err := table.Apply(context.Background(), &r); err != nil {
			t.Fatal(err)
		}
		rows := readAll(t, table, "t")
		if len(rows) != 1 || rows[0].Version != "" || len(rows[0].Cells) != 0 || len(rows[0].Own) != 1 || rows[0].Own[0].Qualifier != "ledger" {
			t.Errorf("%+v", rows)
		}
	})
}

// Both return the same errors, and the reference executes no part of a failed request.
func TestErrorsOfTables(t *testing.T) {
	onBoth(t, func(t *testing.T, table target) {
		ctx := context.Background()
		missing, family, empty := put(1, "a=1"), put(1, "a=1"), put(1, "a=1")
		missing.Table, family.Cells[0].Family, empty.Row = "absent", "zz", ""
		for name, c := range map[string]struct {
			m      transform.RowMutation
			reason sink.Reason
		}{"no table": {missing, sink.Permanent}, "no family": {family, sink.Permanent}, "no row key": {empty, sink.Rejected}} {
			r := sink.Guard(c.m)
			if _, err := table.Apply(ctx, &r); !sink.Is(err, c.reason) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := table.ReadRows(ctx, "absent", sink.Range{}, func(sink.Row) error { return nil }); !sink.Is(err, sink.Permanent) {
			t.Errorf("read of no table: %v", err)
		}
	})
}

// The reference and the emulator agree on random requests.
func TestMemoryEqualsEmulator(t *testing.T) {
	emulated := startEmulator(t).create(t)
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		reference := memory()
		// Only rows of this run, because the emulator keeps those of earlier runs.
		prefix := fmt.Sprintf("%06d/", run)
		for range rapid.IntRange(1, 25).Draw(t, "requests") {
			r := drawRequest(t, prefix)
			a, errA := reference.Apply(context.Background(), &r)
			b, errB := emulated.Apply(context.Background(), &r)
			if a != b || errA != nil || errB != nil {
				t.Fatalf("applied %v (%v) here, %v (%v) there: %+v", a, errA, b, errB, r)
			}
		}
		if got, want := dump(t, emulated, prefix), dump(t, reference, prefix); got != want {
			t.Fatalf("emulator:\n%s\nreference:\n%s", got, want)
		}
	})
}

func drawRequest(t *rapid.T, prefix string) sink.Request {
	row := prefix + rapid.SampledFrom([]string{"a", "b"}).Draw(t, "row")
	sequence := rapid.Uint64Range(8, 13).Draw(t, "version")
	if rapid.IntRange(0, 3).Draw(t, "guarded") > 0 {
		m := remove(sequence)
		if rapid.Bool().Draw(t, "put") {
			m = put(sequence, rapid.SliceOfN(rapid.SampledFrom([]string{"x=1", "x=2", "y=1", "=0"}), 0, 3).Draw(t, "cells")...)
		}
		m.Row = row
		return sink.Guard(m)
	}
	families := []string{"d", "e", sink.LiveFamily, sink.GoneFamily}
	qualifiers := []string{"", "v", "x", "x\x00"}
	r := sink.Request{Table: "t", Row: row, Refuse: sink.Predicate{
		Families:  rapid.SliceOfNDistinct(rapid.SampledFrom(families), 1, 3, rapid.ID[string]).Draw(t, "refuse in"),
		Qualifier: rapid.SampledFrom(qualifiers).Draw(t, "refuse column"), AtLeast: version(sequence),
	}}
	for range rapid.IntRange(1, 4).Draw(t, "ops") {
		op := sink.Op{Kind: rapid.SampledFrom([]sink.OpKind{sink.DeleteFamily, sink.DeleteColumn, sink.DeleteFrom, sink.DeleteBefore, sink.DeleteAt, sink.SetCell, sink.SetCell}).Draw(t, "kind"),
			Family: rapid.SampledFrom(families).Draw(t, "family"), Qualifier: rapid.SampledFrom(qualifiers).Draw(t, "column")}
		switch op.Kind {
		case sink.DeleteFrom, sink.DeleteAt:
			op.Timestamp = rapid.Int64Range(0, 3).Draw(t, "from") * 1000
		case sink.DeleteBefore:
			op.Timestamp = rapid.Int64Range(1, 3).Draw(t, "before") * 1000
		case sink.SetCell:
			op.Timestamp, op.Value = rapid.Int64Range(0, 3).Draw(t, "time")*1000, []byte(version(rapid.Uint64Range(8, 13).Draw(t, "value")))
		}
		r.Ops = append(r.Ops, op)
	}
	return r
}

// dump returns all cells without the times of tombstones, which the server sets.
func dump(t *rapid.T, table sink.Reader, prefix string) string {
	var b strings.Builder
	err := table.ReadRows(context.Background(), "t", sink.Prefix(prefix), func(r sink.Row) error {
		fmt.Fprintf(&b, "%s live %s gone %s", r.Key, r.Version, r.Gone)
		for _, c := range append(r.Cells, r.Own...) {
			fmt.Fprintf(&b, " %s:%q@%d=%s", c.Family, c.Qualifier, c.Timestamp, c.Value)
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
