package bigtabletest

import (
	"slices"
	"sort"
	"time"

	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// change is one committed change of one row.
type change struct {
	key       string
	kind      bigtablepb.ReadChangeStreamResponse_DataChange_Type
	at        time.Time // of the commit, in whole microseconds
	due       time.Time // readable from then on
	number    uint64    // counts the commits of the stream
	mutations []*bigtablepb.Mutation
}

// changeStream is the change stream of a table from the time at which it is enabled until it is
// disabled. The mutex of the Server guards it.
//
// All partitions read one log. A position is an index into the log. So a token stays valid when
// partitions split and merge, and a split or merge moves no record.
type changeStream struct {
	epoch     uint64 // distinguishes the stream from earlier streams
	seed      uint64
	retention time.Duration
	created   time.Time
	layout    layout
	log       []*change            // what may be read, in the order of delivery
	pending   []*change            // what may be read later, by the time from which it may be read
	due       map[string]time.Time // for rows with pending changes, when the last one may be read
	latest    time.Time            // the latest reading of the clock
	commits   uint64

	delay, spread  time.Duration
	repeat, rewind int
	quietUntil     time.Time // no records until then
	heartbeats     bool      // heartbeats are sent nevertheless
	held           time.Time // no watermark is reported above it, if set

	cuts    int // counts calls of CutStreams
	cutWith codes.Code
	ended   error // why the stream exists no longer, if set
	open    int   // requests that are being answered
	changed chan struct{}
}

func newChangeStream(epoch, seed uint64, retention time.Duration, splits []string, now time.Time) *changeStream {
	s := &changeStream{epoch: epoch, seed: seed, retention: retention, layout: newLayout(splits), due: map[string]time.Time{}, changed: make(chan struct{})}
	s.created = s.tick(now)
	return s
}

// wake lets every waiting reader look again.
func (s *changeStream) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// tick returns the time in whole microseconds. It never goes back, even if the clock does.
// Otherwise a commit could be older than a watermark that was sent before.
func (s *changeStream) tick(now time.Time) time.Time {
	if now = now.Truncate(time.Microsecond); now.After(s.latest) {
		s.latest = now
	}
	return s.latest
}

// commit adds a change. A change of a row can never be read before an earlier change of that row.
func (s *changeStream) commit(key string, kind bigtablepb.ReadChangeStreamResponse_DataChange_Type, mutations []*bigtablepb.Mutation, now time.Time) {
	s.publish(now)
	s.commits++
	c := &change{key: key, kind: kind, at: s.tick(now), number: s.commits, mutations: mutations}
	c.due = c.at.Add(s.delay)
	if s.spread > 0 {
		c.due = c.due.Add(time.Duration(mix(s.seed^mix(c.number)) % uint64(s.spread)))
	}
	if last := s.due[key]; last.After(c.due) {
		c.due = last
	}
	s.due[key] = c.due
	i := sort.Search(len(s.pending), func(i int) bool { return s.pending[i].due.After(c.due) })
	s.pending = slices.Insert(s.pending, i, c)
	s.publish(now)
	s.wake()
}

// publish moves to the log what may be read now.
func (s *changeStream) publish(now time.Time) {
	now = s.tick(now)
	n := 0
	for n < len(s.pending) && !s.pending[n].due.After(now) {
		n++
	}
	s.log = append(s.log, s.pending[:n]...)
	s.pending = slices.Delete(s.pending, 0, n)
	if len(s.pending) == 0 {
		clear(s.due)
	}
}

// expired reports whether the retention period of a time is over.
func (s *changeStream) expired(at, now time.Time) bool { return at.Before(now.Add(-s.retention)) }

// low returns the low watermark of a range at a position: the smallest commit time of what is not
// delivered, or the current time if everything is delivered.
func (s *changeStream) low(p Partition, index int, now time.Time) time.Time {
	low := s.tick(now)
	for _, changes := range [][]*change{s.log[min(index, len(s.log)):], s.pending} {
		for _, c := range changes {
			if c.at.Before(low) && p.contains(c.key) {
				low = c.at
			}
		}
	}
	return low
}

// report limits a watermark to the one that HoldWatermark holds.
func (s *changeStream) report(low time.Time) time.Time {
	if !s.held.IsZero() && low.After(s.held) {
		return s.held
	}
	return low
}

// indexAt returns the position from which every change is read that was committed at the time or
// later.
func (s *changeStream) indexAt(from time.Time) int {
	for i, c := range s.log {
		if !c.at.Before(from) {
			return i
		}
	}
	return len(s.log)
}

// before returns the position that is so many records of the range before a position.
func (s *changeStream) before(p Partition, index, records int, now time.Time) int {
	for index > 0 && records > 0 && !s.expired(s.log[index-1].at, now) {
		if index--; p.contains(s.log[index].key) {
			records--
		}
	}
	return index
}

// end ends the stream and with it every open request.
func (s *changeStream) end(code codes.Code, why string) {
	s.ended = status.Error(code, why)
	s.wake()
}
