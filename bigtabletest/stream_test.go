package bigtabletest_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/dynamodb-bigtable/replicator/bigtabletest"
)

// initial lists the partitions that GenerateInitialChangeStreamPartitions streams.
func (f *fixture) initial() string {
	f.t.Helper()
	stream, err := f.data.GenerateInitialChangeStreamPartitions(f.ctx, &bigtablepb.GenerateInitialChangeStreamPartitionsRequest{TableName: tableName})
	f.must(err)
	var found []string
	for {
		m, err := stream.Recv()
		if err == io.EOF {
			return strings.Join(found, " ")
		}
		f.must(err)
		found = append(found, rangeOf(m.Partition))
	}
}

// TestInitialPartitions: the split keys of a table divide it, and splits and merges show.
func TestInitialPartitions(t *testing.T) {
	f := newStream(t, bigtabletest.Options{}, "m", "d")
	shows := func(want string) {
		t.Helper()
		if got := f.initial(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	shows(":d d:m m:")
	f.must(f.server.Split(tableName, "g"))
	shows(":d d:g g:m m:")
	f.must(f.server.Merge(tableName, "d"))
	shows(":g g:m m:")
	f.wants(codes.InvalidArgument, f.server.Split(tableName, "g"))
	f.wants(codes.InvalidArgument, f.server.Merge(tableName, "d"))
	partitions, err := f.server.Partitions(tableName)
	f.must(err)
	if len(partitions) != 3 || partitions[1] != (bigtabletest.Partition{Start: "g", End: "m"}) {
		t.Errorf("got %v", partitions)
	}
}

// TestPartitionsDivideRecords: a record comes in the partition of its row key only (C1).
func TestPartitionsDivideRecords(t *testing.T) {
	f := newStream(t, bigtabletest.Options{}, "m")
	left, right := f.read(part("", "m")), f.read(part("m", ""))
	f.put("a", "m", "lz", "z")
	left.rows("a", "lz")
	right.rows("m", "z")
	f.put("b")
	left.rows("b")
	right.quiet()
}

// TestSplit: the old partition closes with two tokens, and each half continues at its own (C3, C4).
func TestSplit(t *testing.T) {
	f := newStream(t, bigtabletest.Options{})
	old := f.all()
	f.put("a", "z")
	old.rows("a", "z")
	f.must(f.server.Split(tableName, "m"))
	c := old.closes()
	if got := shape(c); got != "OutOfRange, :m in :m, m: in m:" {
		t.Fatal(got)
	}
	f.put("b", "y")
	left, right := f.read(c.NewPartitions[0], after(c.ContinuationTokens[0])), f.read(c.NewPartitions[1], after(c.ContinuationTokens[1]))
	left.rows("b")
	right.rows("y")
	left.quiet()
}

// TestSplitBeforeRecordsAreRead: records from before a split come in the new partitions, if the old
// stream had not delivered them.
func TestSplitBeforeRecordsAreRead(t *testing.T) {
	f := newStream(t, bigtabletest.Options{})
	f.put("a", "z")
	f.must(f.server.Split(tableName, "m"))
	c := f.all().closes()
	if got := shape(c); got != "OutOfRange, :m in :m, m: in m:" {
		t.Fatal(got)
	}
	f.read(c.NewPartitions[1], after(c.ContinuationTokens[1])).rows("z")
	f.read(c.NewPartitions[0], after(c.ContinuationTokens[0])).rows("a")
}

// TestMerge: both old partitions close with one token, and the new one needs both (C3, C4).
func TestMerge(t *testing.T) {
	f := newStream(t, bigtabletest.Options{}, "m")
	left, right := f.read(part("", "m")), f.read(part("m", ""))
	f.put("a", "z", "b")
	left.rows("a", "b")
	f.must(f.server.Merge(tableName, "m"))
	one := left.closes()
	if got := shape(one); got != "OutOfRange, :m in :" {
		t.Fatal(got)
	}
	for m := right.next(); m.GetCloseStream() == nil; m = right.next() {
		if m.GetDataChange() == nil {
			t.Fatal(m)
		}
	}
	// The right stream starts again, so that its token is that of its start.
	two := f.read(part("m", "")).closes()
	if got := shape(two); got != "OutOfRange, m: in :" {
		t.Fatal(got)
	}
	f.send(part("", ""), after(one.ContinuationTokens[0])).fails(codes.InvalidArgument)
	f.send(part("", ""), after(two.ContinuationTokens[0])).fails(codes.InvalidArgument)
	s := f.all(after(two.ContinuationTokens[0], one.ContinuationTokens[0]))
	s.rows("a", "z", "b") // from the earlier of the two positions
	f.put("c")
	s.rows("c")
}

// TestSplitAgainBeforeTheNeighbourClosed: a token whose new partition is gone again is used for its
// own range. The CloseStream of that request names the current partition.
func TestSplitAgainBeforeTheNeighbourClosed(t *testing.T) {
	f := newStream(t, bigtabletest.Options{}, "m")
	left := f.read(part("", "m"))
	f.put("a")
	left.rows("a")
	f.must(f.server.Merge(tableName, "m"))
	first := left.closes()
	f.must(f.server.Split(tableName, "f"))
	f.put("b", "g", "z")
	// The neighbour now belongs to another partition than its half of the merge.
	neighbour := f.read(part("m", "")).closes()
	if got := shape(neighbour); got != "OutOfRange, m: in f:" {
		t.Fatal(got)
	}
	own := f.read(part("", "m"), after(first.ContinuationTokens[0])).closes()
	if got := shape(own); got != "OutOfRange, :f in :f, f:m in f:" {
		t.Fatal(got)
	}
	f.read(part("", "f"), after(own.ContinuationTokens[0])).rows("b")
	f.read(part("f", ""), after(own.ContinuationTokens[1], neighbour.ContinuationTokens[0])).rows("g", "z")
}

// TestSameRangeAgain: after a split and a merge the stream closes, although its range is a
// partition again. Its token resumes on that range.
func TestSameRangeAgain(t *testing.T) {
	f := newStream(t, bigtabletest.Options{})
	s := f.all()
	f.put("a")
	s.rows("a")
	f.must(f.server.Silence(tableName, time.Second, false))
	f.must(f.server.Split(tableName, "m"))
	f.must(f.server.Merge(tableName, "m"))
	f.server.AdvanceClock(time.Second)
	c := s.closes()
	if got := shape(c); got != "OutOfRange, : in :" {
		t.Fatal(got)
	}
	f.put("b")
	f.all(after(c.ContinuationTokens[0])).rows("b")
}

// TestTokensAreForTheirRange: tokens must be complete and unchanged.
func TestTokensAreForTheirRange(t *testing.T) {
	f := newStream(t, bigtabletest.Options{}, "m")
	f.put("a")
	s := f.read(part("", "m"))
	token := s.token(s.rows("a"))
	for name, test := range map[string]*tail{
		"another range":              f.send(part("m", ""), after(token)),
		"a smaller range":            f.send(part("", "f"), after(token)),
		"a larger range":             f.send(part("", ""), after(token)),
		"a relabelled token":         f.send(part("", "f"), after(&bigtablepb.StreamContinuationToken{Partition: part("", "f"), Token: token.Token})),
		"a token with another label": f.send(part("", "m"), after(&bigtablepb.StreamContinuationToken{Partition: part("", "f"), Token: token.Token})),
		"no token":                   f.send(part("", "m"), after()),
		"a malformed token":          f.send(part("", "m"), after(&bigtablepb.StreamContinuationToken{Partition: part("", "m"), Token: token.Token[1:]})),
		"a token with no range":      f.send(part("", "m"), after(&bigtablepb.StreamContinuationToken{Token: token.Token})),
		"no partition":               f.send(nil),
		"an empty range":             f.send(part("b", "b")),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := test.stream.Recv()
			f.wants(codes.InvalidArgument, err)
		})
	}
	f.put("b")
	f.read(part("", "m"), after(token)).rows("b")
}

// TestResume: a request gets what comes after its token (C4).
func TestResume(t *testing.T) {
	f := newStream(t, bigtabletest.Options{})
	f.put("a", "b", "c")
	s := f.all()
	token := s.token(s.rows("a"))
	s.rows("b", "c")
	f.all(after(token)).rows("b", "c")
	beat := s.quiet()
	f.put("d")
	f.all(after(beat.ContinuationToken)).rows("d")
}

// TestHeartbeats come in the interval of the request, and their watermark is the current time.
func TestHeartbeats(t *testing.T) {
	f := newStream(t, bigtabletest.Options{})
	s := f.all(heartbeatsEvery(2 * time.Second))
	f.server.AdvanceClock(time.Second)
	f.put("a")
	s.rows("a")
	f.server.AdvanceClock(time.Second)
	m := s.next().GetHeartbeat()
	if m == nil || !m.EstimatedLowWatermark.AsTime().Equal(start.Add(2*time.Second).Truncate(time.Microsecond)) || rangeOf(m.ContinuationToken.Partition) != ":" {
		t.Errorf("got %v", m)
	}
	f.send(part("", ""), heartbeatsEvery(0)).fails(codes.InvalidArgument)
}

// TestStartTime is inclusive, and neither in the future nor before the change stream.
func TestStartTime(t *testing.T) {
	f := newStream(t, bigtabletest.Options{})
	f.put("a")
	f.clock.Advance(time.Second)
	f.put("b")
	f.clock.Advance(time.Second)
	f.put("c")
	f.all(since(start.Add(time.Second))).rows("b", "c")
	f.all(since(start.Add(time.Second + time.Microsecond))).rows("c")
	s := f.all(func(r *readRequest) { r.StartFrom = nil })
	s.rows("c") // committed at the current time
	f.send(part("", ""), since(start.Add(time.Hour))).fails(codes.InvalidArgument)
	f.send(part("", ""), since(start.Add(-time.Second))).fails(codes.OutOfRange)
}

// TestEndTime is inclusive. The stream ends once no earlier record can come.
func TestEndTime(t *testing.T) {
	f := newStream(t, bigtabletest.Options{})
	end := start.Add(time.Second)
	s := f.all(until(end))
	f.put("a")
	s.rows("a")
	f.must(f.server.Delay(tableName, 3*time.Second))
	f.clock.Advance(time.Second)
	f.put("b") // at the end time
	f.must(f.server.Delay(tableName, 0))
	f.clock.Advance(time.Second)
	f.put("c")                       // after the end time, and read earlier
	f.server.AdvanceClock(time.Hour) // "b" can be read
	beat := s.next().GetHeartbeat()
	s.rows("b")
	c := s.closes()
	if got := shape(c); got != "OK" {
		t.Error(got)
	}
	// What was left out because of the end time comes to a request that resumes without.
	f.all(after(beat.ContinuationToken)).rows("c", "b")
	f.send(part("", ""), until(start.Add(-time.Second))).fails(codes.InvalidArgument)
	past := f.all(until(start.Add(time.Second - time.Microsecond)))
	past.rows("a")
	if got := shape(past.closes()); got != "OK" {
		t.Error(got)
	}
}

// TestWatermarks: none passes a record that is not delivered (C5).
func TestWatermarks(t *testing.T) {
	f := newStream(t, bigtabletest.Options{}, "m")
	f.must(f.server.Delay(tableName, 12*time.Second))
	f.put("a")
	committed := start.Truncate(time.Microsecond)
	left, right := f.read(part("", "m")), f.read(part("m", ""))
	f.server.AdvanceClock(5 * time.Second)
	if got := left.next().GetHeartbeat().EstimatedLowWatermark.AsTime(); !got.Equal(committed) {
		t.Errorf("the watermark is %s although a record of %s is not delivered", got, committed)
	}
	if got := right.next().GetHeartbeat().EstimatedLowWatermark.AsTime(); !got.Equal(committed.Add(5 * time.Second)) {
		t.Errorf("the watermark of another partition is %s", got)
	}
	f.server.AdvanceClock(5 * time.Second)
	f.must(f.server.Delay(tableName, 0))
	f.put("b")
	left.next()
	if got := left.rows("b").EstimatedLowWatermark.AsTime(); !got.Equal(committed) {
		t.Errorf("the watermark is %s with a later record", got)
	}
	f.server.AdvanceClock(2 * time.Second)
	left.rows("a")
	f.server.AdvanceClock(3 * time.Second)
	if got := left.next().GetHeartbeat().EstimatedLowWatermark.AsTime(); !got.Equal(committed.Add(15 * time.Second)) {
		t.Errorf("the watermark is %s after all records", got)
	}
}

// TestClockGoesBack: commit times do not.
func TestClockGoesBack(t *testing.T) {
	f := newStream(t, bigtabletest.Options{})
	f.put("a")
	f.clock.Advance(-time.Hour)
	f.put("b")
	s := f.all()
	one, two := s.rows("a"), s.rows("b")
	if two.CommitTimestamp.AsTime().Before(one.CommitTimestamp.AsTime()) {
		t.Error("a later commit has an earlier time")
	}
}

// TestKeysOfBytes: row keys need not be text.
func TestKeysOfBytes(t *testing.T) {
	f := newStream(t, bigtabletest.Options{}, "\xff")
	f.put("\xff\x01", "\xff\x00", "a")
	s := f.read(part("\xff", ""))
	token := s.token(s.rows("\xff\x01"))
	f.read(part("\xff", ""), after(token)).rows("\xff\x00")
	f.read(part("", "\xff")).rows("a")
}

// TestManyRecords reads more records than one watermark is computed for. No watermark is later than
// the records that follow (C5).
func TestManyRecords(t *testing.T) {
	f := newStream(t, bigtabletest.Options{})
	const records = 700
	for i := range records {
		f.clock.Advance(time.Millisecond)
		f.put(fmt.Sprintf("%04d", i))
	}
	s := f.all()
	var low *timestamppb.Timestamp
	for i := range records {
		c := s.rows(fmt.Sprintf("%04d", i))
		if low != nil && c.CommitTimestamp.AsTime().Before(low.AsTime()) {
			t.Fatalf("record %d is older than a watermark before it", i)
		}
		low = c.EstimatedLowWatermark
	}
	if !low.AsTime().After(start.Add(500 * time.Millisecond)) {
		t.Errorf("the last watermark is %s", low.AsTime())
	}
}
