package bigtabletest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc/codes"

	"github.com/dynamodb-bigtable/replicator/bigtabletest"
)

// TestDelay: records can be read only later, and in the order of their commits per row (C1, C2).
func TestDelay(t *testing.T) {
	f := newStream(t, bigtabletest.Options{})
	s := f.all()
	f.must(f.server.Delay(tableName, 4*time.Second))
	f.put("a", "b")
	f.must(f.server.Delay(tableName, 0))
	f.mutate("a", set("f", "c", "second"))
	f.put("c")
	s.rows("c")
	f.server.AdvanceClock(4*time.Second - time.Microsecond)
	f.server.AdvanceClock(time.Microsecond)
	s.rows("a", "b")
	if got := mutationsOf(s.rows("a")); got != "set f.c=second" {
		t.Error(got)
	}
}

// shuffled returns the order of delivery of 20 rows with two changes each, under a seed.
func shuffled(t *testing.T, seed uint64) (order []string) {
	f := newStream(t, bigtabletest.Options{Seed: seed})
	f.must(f.server.Shuffle(tableName, time.Minute))
	for range 2 {
		for i := range 20 {
			f.put(fmt.Sprintf("%02d", i))
		}
	}
	f.server.AdvanceClock(time.Minute)
	s := f.all()
	for range 40 {
		order = append(order, string(s.change().RowKey))
	}
	s.quiet()
	return order
}

// TestShuffle: the order differs from that of the commits, and depends on the seed alone.
func TestShuffle(t *testing.T) {
	one, two, other := shuffled(t, 1), shuffled(t, 1), shuffled(t, 2)
	if !slices.Equal(one, two) {
		t.Errorf("one seed, two orders:\n%s\n%s", one, two)
	}
	if slices.Equal(one, other) {
		t.Errorf("two seeds, one order: %s", one)
	}
	if slices.IsSorted(one[:20]) {
		t.Errorf("the order is that of the commits: %s", one)
	}
}

// TestShuffleKeepsRowsInOrder writes many changes of few rows (C2).
func TestShuffleKeepsRowsInOrder(t *testing.T) {
	f := newStream(t, bigtabletest.Options{Seed: 3})
	f.must(f.server.Shuffle(tableName, time.Minute))
	for i := range 60 {
		f.mutate(string(rune('a'+i%3)), set("f", "c", fmt.Sprintf("%02d", i)))
		f.server.AdvanceClock(time.Second)
	}
	f.server.AdvanceClock(time.Minute)
	s := f.all()
	last := map[string]string{}
	for range 60 {
		c := s.change()
		if got := mutationsOf(c); got <= last[string(c.RowKey)] {
			t.Errorf("row %s: %s comes after %s", c.RowKey, got, last[string(c.RowKey)])
		}
		last[string(c.RowKey)] = mutationsOf(c)
	}
}

func TestRepeatAndRewind(t *testing.T) {
	f := newStream(t, bigtabletest.Options{ChunkSize: 4}, "m")
	f.put("a", "z", "b")
	f.must(f.server.Repeat(tableName, 1))
	s := f.read(part("", "m"))
	first := s.rows("a", "a")
	token := s.token(s.rows("b", "b"))
	f.must(f.server.Repeat(tableName, 0))
	f.must(f.server.Rewind(tableName, 1))
	f.read(part("", "m"), after(token)).rows("b")
	f.must(f.server.Rewind(tableName, 5))
	f.read(part("", "m"), after(token)).rows("a", "b")
	f.must(f.server.Rewind(tableName, 0))
	f.read(part("", "m"), after(s.token(first))).rows("b")
	f.must(f.server.Repeat(tableName, 1))
	f.mutate("c", set("f", "c", "123456"))
	var shown []string
	for range 4 {
		shown = append(shown, mutationsOf(s.change()))
	}
	if got := strings.Join(shown, "; "); got != "set f.c=1234; set .=56; set f.c=1234; set .=56" {
		t.Error(got)
	}
}

// TestSilence stops records and closings, with or without heartbeats.
func TestSilence(t *testing.T) {
	for _, heartbeats := range []bool{true, false} {
		f := newStream(t, bigtabletest.Options{})
		s := f.all()
		f.must(f.server.Silence(tableName, 12*time.Second, heartbeats))
		f.put("a")
		f.must(f.server.Split(tableName, "m"))
		if heartbeats {
			for range 2 {
				if low := s.quiet().EstimatedLowWatermark.AsTime(); !low.Equal(start.Truncate(time.Microsecond)) {
					t.Errorf("the watermark passes an undelivered record: %s", low)
				}
			}
			f.server.AdvanceClock(2 * time.Second)
		} else {
			f.server.AdvanceClock(12 * time.Second)
		}
		c := s.closes()
		f.read(c.NewPartitions[0], after(c.ContinuationTokens[0])).rows("a")
	}
}

func TestHoldWatermark(t *testing.T) {
	f := newStream(t, bigtabletest.Options{})
	s := f.all()
	f.must(f.server.HoldWatermark(tableName, true))
	f.put("a")
	s.rows("a")
	held := s.quiet()
	if got := held.EstimatedLowWatermark.AsTime(); !got.Equal(start.Truncate(time.Microsecond)) {
		t.Errorf("the watermark is %s", got)
	}
	f.must(f.server.HoldWatermark(tableName, false))
	if got := s.quiet().EstimatedLowWatermark.AsTime(); !got.Equal(start.Add(10 * time.Second).Truncate(time.Microsecond)) {
		t.Errorf("the watermark is %s after it was released", got)
	}
	// The token of the held watermark is as new as any other.
	f.clock.Advance(day - 5*time.Second)
	f.read(part("", ""), after(held.ContinuationToken))
}

// TestCutStreams ends the open requests, and not later ones. The client resumes at its token.
func TestCutStreams(t *testing.T) {
	f := newStream(t, bigtabletest.Options{}, "m")
	f.put("a", "b")
	left, right := f.read(part("", "m")), f.read(part("m", ""))
	token := left.token(left.rows("a"))
	left.rows("b")
	for _, code := range []codes.Code{codes.OK, codes.Internal} {
		open, err := f.server.CutStreams(tableName, code)
		f.must(err)
		if open != 2 {
			t.Errorf("%d streams were open", open)
		}
		want := max(code, codes.Unavailable)
		if code == codes.Internal {
			want = code
		}
		left.fails(want)
		right.fails(want)
		left, right = f.read(part("", "m"), after(token)), f.read(part("m", ""))
		left.rows("b")
	}
}

// TestCollectGarbage deletes cells and records it without a cluster.
func TestCollectGarbage(t *testing.T) {
	f := newStream(t, bigtabletest.Options{})
	f.mutate("a", set("f", "c", "1"), set("g", "c", "2"))
	f.wants(codes.InvalidArgument, f.server.CollectGarbage(tableName, "a", set("f", "c", "1")))
	f.must(f.server.CollectGarbage(tableName, "a", deleteFamily("f")))
	f.must(f.server.CollectGarbage(tableName, "a", deleteRow()))
	f.wants(codes.NotFound, f.server.CollectGarbage(parent+"/tables/absent", "a", deleteRow()))
	s := f.all()
	s.rows("a")
	for _, want := range []string{"delete f", "delete g"} {
		c := s.rows("a")
		if got := mutationsOf(c); got != want || c.Type != bigtablepb.ReadChangeStreamResponse_DataChange_GARBAGE_COLLECTION || c.SourceClusterId != "" {
			t.Errorf("got %v, want %s", c, want)
		}
	}
	s.quiet()
}

// TestFaults: calls fail before or after their effect, by method and table.
func TestFaults(t *testing.T) {
	f := newStream(t, bigtabletest.Options{})
	write := func() error {
		_, err := f.data.MutateRow(f.ctx, &bigtablepb.MutateRowRequest{TableName: tableName, RowKey: []byte("a"), Mutations: []*bigtablepb.Mutation{set("f", "c", "1")}})
		return err
	}
	bulk := func() error {
		stream, err := f.data.MutateRows(f.ctx, &bigtablepb.MutateRowsRequest{TableName: tableName, Entries: []*bigtablepb.MutateRowsRequest_Entry{entry("b", set("f", "c", "1"))}})
		f.must(err)
		_, err = stream.Recv()
		return err
	}
	f.server.Fail(bigtabletest.Fault{Method: "MutateRow", Code: codes.ResourceExhausted})
	f.server.Fail(bigtabletest.Fault{Method: "MutateRow", Table: "another", Times: -1})
	f.wants(codes.ResourceExhausted, write())
	f.must(write())
	f.server.Fail(bigtabletest.Fault{Method: "MutateRow", AfterEffect: true, Skip: 1})
	f.must(write())
	f.wants(codes.Unavailable, write())
	f.server.Fail(bigtabletest.Fault{Method: "MutateRows", AfterEffect: true})
	f.wants(codes.Unavailable, bulk())
	f.server.Fail(bigtabletest.Fault{Method: "MutateRows"})
	f.wants(codes.Unavailable, bulk())
	f.server.Fail(bigtabletest.Fault{Table: tableName, Code: codes.PermissionDenied, Times: -1})
	f.send(part("", "")).fails(codes.PermissionDenied)
	rows, err := f.data.ReadRows(f.ctx, &bigtablepb.ReadRowsRequest{TableName: tableName})
	f.must(err)
	_, err = rows.Recv()
	f.wants(codes.PermissionDenied, err)
	f.server.ClearFaults()
	s := f.all()
	s.rows("a", "a", "a", "b")
	s.quiet()
	if got := f.server.Calls("MutateRow"); got != 4 {
		t.Errorf("%d calls of MutateRow", got)
	}
	if got := f.server.Calls("ReadChangeStream"); got != 2 {
		t.Errorf("%d calls of ReadChangeStream", got)
	}
}
