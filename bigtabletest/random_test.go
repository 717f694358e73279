package bigtabletest_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dynamodb-bigtable/replicator/bigtabletest"
)

// follower reads all partitions of a table as a client should, and checks the invariants.
type follower struct {
	*fixture
	open    map[*tail]*bigtablepb.StreamContinuationToken // with the last token; nil at the start
	waiting []*successor
	written map[string]int       // the last number written to each row
	seen    map[string]int       // the last number read of each row
	low     map[string]time.Time // the highest watermark of each row
	target  time.Time            // streams are read up to a heartbeat with this watermark or a later one
}

// successor is a new partition, with the tokens that were received for it.
type successor struct {
	of     *bigtablepb.StreamPartition
	tokens []*bigtablepb.StreamContinuationToken
}

const followed = 26 // rows: "a" to "z"

func (c *follower) start(of *bigtablepb.StreamPartition, tokens ...*bigtablepb.StreamContinuationToken) {
	c.t.Helper()
	if len(tokens) == 0 {
		c.open[c.read(of)] = nil
		return
	}
	var last *bigtablepb.StreamContinuationToken
	if len(tokens) == 1 {
		last = tokens[0]
	}
	s := c.read(of, after(tokens...))
	if last == nil { // the tokens must not be lost before there is another one
		c.server.AdvanceClock(5 * time.Second)
		last = c.until(s)
		if last == nil {
			return
		}
	}
	c.open[s] = last
}

// until reads a stream up to a heartbeat, and returns its token; nil once the stream closed.
func (c *follower) until(s *tail) (token *bigtablepb.StreamContinuationToken) {
	c.t.Helper()
	for {
		m := s.next()
		switch {
		case m.GetHeartbeat() != nil:
			low := m.GetHeartbeat().EstimatedLowWatermark.AsTime()
			if c.watermark(s, low); !low.Before(c.target) {
				return m.GetHeartbeat().ContinuationToken
			}
			c.server.AdvanceClock(5 * time.Second) // heartbeats come before records
			continue
		case m.GetCloseStream() != nil:
			c.closed(s, m.GetCloseStream())
			return nil
		}
		c.record(s, m.GetDataChange())
	}
}

func within(of *bigtablepb.StreamPartition, key string) bool {
	end := string(of.RowRange.GetEndKeyOpen())
	return key >= string(of.RowRange.GetStartKeyClosed()) && (end == "" || key < end)
}

func (c *follower) watermark(s *tail, low time.Time) {
	for i := range followed {
		if key := string(rune('a' + i)); within(s.of, key) && low.After(c.low[key]) {
			c.low[key] = low
		}
	}
}

func (c *follower) record(s *tail, d *bigtablepb.ReadChangeStreamResponse_DataChange) {
	c.t.Helper()
	key := string(d.RowKey)
	n, err := strconv.Atoi(string(d.Chunks[0].Mutation.GetSetCell().Value))
	switch {
	case err != nil:
		c.t.Fatal(err)
	case !within(s.of, key):
		c.t.Fatalf("C1: row %s came in partition %s", key, rangeOf(s.of))
	case n > c.seen[key]+1:
		c.t.Fatalf("C2, C4: row %s: change %d came after %d", key, n, c.seen[key])
	case n == c.seen[key]+1 && d.CommitTimestamp.AsTime().Before(c.low[key]):
		c.t.Fatalf("C5: row %s: change %d of %s came after watermark %s", key, n, d.CommitTimestamp.AsTime(), c.low[key])
	}
	c.seen[key] = max(c.seen[key], n)
	c.watermark(s, d.EstimatedLowWatermark.AsTime())
}

func (c *follower) closed(s *tail, m *bigtablepb.ReadChangeStreamResponse_CloseStream) {
	c.t.Helper()
	at := string(s.of.RowRange.GetStartKeyClosed())
	for i, token := range m.ContinuationTokens {
		part, of := token.Partition.RowRange, m.NewPartitions[i].RowRange
		end := string(of.GetEndKeyOpen())
		if string(part.GetStartKeyClosed()) != at || string(of.GetStartKeyClosed()) > at || end != "" && (end < string(part.GetEndKeyOpen()) || len(part.GetEndKeyOpen()) == 0) {
			c.t.Fatalf("C3: partition %s closed with %s", rangeOf(s.of), shape(m))
		}
		at = string(part.GetEndKeyOpen())
		c.succeed(m.NewPartitions[i], token)
	}
	if len(m.ContinuationTokens) == 0 || at != string(s.of.RowRange.GetEndKeyOpen()) {
		c.t.Fatalf("C3: partition %s closed with %s", rangeOf(s.of), shape(m))
	}
}

// succeed keeps a token until the tokens of its new partition are complete.
func (c *follower) succeed(of *bigtablepb.StreamPartition, token *bigtablepb.StreamContinuationToken) {
	for _, w := range c.waiting {
		if rangeOf(w.of) == rangeOf(of) {
			w.tokens = append(w.tokens, token)
			return
		}
	}
	c.waiting = append(c.waiting, &successor{of: of, tokens: []*bigtablepb.StreamContinuationToken{token}})
}

// complete reports whether tokens cover a partition. They do not overlap.
func (w *successor) complete() bool {
	at, used := string(w.of.RowRange.GetStartKeyClosed()), 0
	for range w.tokens {
		for _, token := range w.tokens {
			if string(token.Partition.RowRange.GetStartKeyClosed()) == at && (used == 0 || at != "") {
				at, used = string(token.Partition.RowRange.GetEndKeyOpen()), used+1
			}
		}
	}
	return used == len(w.tokens) && at == string(w.of.RowRange.GetEndKeyOpen())
}

// round reads every stream up to a heartbeat or its end. Then it opens the complete successors. The
// tokens of the others resume on their own ranges.
func (c *follower) round() {
	c.t.Helper()
	c.server.AdvanceClock(5 * time.Second)
	for s := range c.open {
		if token := c.until(s); token != nil {
			c.open[s] = token
		} else {
			delete(c.open, s)
		}
	}
	waiting := c.waiting
	c.waiting = nil
	for _, w := range waiting {
		if w.complete() {
			c.start(w.of, w.tokens...)
			continue
		}
		for _, token := range w.tokens {
			c.start(token.Partition, token)
		}
	}
}

// cut ends all streams and resumes them at their tokens.
func (c *follower) cut() {
	c.t.Helper()
	_, err := c.server.CutStreams(tableName, codes.Unavailable)
	c.must(err)
	old := c.open
	c.open = map[*tail]*bigtablepb.StreamContinuationToken{}
	for s, token := range old {
		for {
			m, err := s.stream.Recv()
			if err != nil {
				// A CloseStream that came before the cut is lost. It comes again.
				if err != io.EOF {
					c.wants(codes.Unavailable, err)
				}
				break
			}
			if m.GetDataChange() != nil {
				c.record(s, m.GetDataChange())
			}
		}
		if token == nil {
			c.start(s.of)
		} else {
			c.start(s.of, token)
		}
	}
}

// TestRandomHistories checks C1 to C5 while partitions split and merge, streams are cut, and
// records come late, shuffled and again.
func TestRandomHistories(t *testing.T) {
	seeds, steps := 20, 60
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(seed), 7))
			c := &follower{
				fixture: newStream(t, bigtabletest.Options{Seed: uint64(seed)}), open: map[*tail]*bigtablepb.StreamContinuationToken{},
				written: map[string]int{}, seen: map[string]int{}, low: map[string]time.Time{},
			}
			c.start(part("", ""))
			for range steps {
				key := string(rune('a' + random.IntN(followed)))
				switch random.IntN(12) {
				case 0, 1:
					allowed(t, c.server.Split(tableName, key))
				case 2, 3:
					partitions, err := c.server.Partitions(tableName)
					c.must(err)
					allowed(t, c.server.Merge(tableName, partitions[random.IntN(len(partitions))].Start))
				case 4:
					c.must(c.server.Delay(tableName, time.Duration(random.IntN(20))*time.Second))
				case 5:
					c.must(c.server.Shuffle(tableName, time.Duration(random.IntN(20))*time.Second))
				case 6:
					c.must(c.server.Repeat(tableName, random.IntN(2)))
				case 7:
					c.must(c.server.Rewind(tableName, random.IntN(3)))
				case 8:
					c.round()
					c.cut()
				case 9:
					c.round()
				}
				for range 3 {
					key := string(rune('a' + random.IntN(followed)))
					c.written[key]++
					c.mutate(key, set("f", "c", strconv.Itoa(c.written[key])))
					c.clock.Advance(time.Duration(random.IntN(1000)) * time.Millisecond)
				}
			}
			c.server.AdvanceClock(time.Minute) // longer than all delays
			c.target = c.server.Now().Truncate(time.Microsecond)
			for range 5 { // until all partitions of now are open
				c.round()
			}
			for key, n := range c.written {
				if c.seen[key] != n {
					t.Errorf("C1: row %s: %d changes were read, %d written", key, c.seen[key], n)
				}
			}
			if len(c.waiting) > 0 {
				t.Errorf("%d partitions wait for tokens", len(c.waiting))
			}
		})
	}
}

// allowed fails the test at errors other than that of a key that does not fit.
func allowed(t *testing.T, err error) {
	t.Helper()
	if code := status.Code(err); code != codes.OK && code != codes.InvalidArgument {
		t.Fatal(err)
	}
}
