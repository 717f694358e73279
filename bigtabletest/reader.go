package bigtabletest

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// reader decides what one request to read a partition receives. The mutex of the Server guards it.
type reader struct {
	stream    *changeStream
	cluster   string
	chunkSize int
	tooOld    codes.Code

	partition Partition
	id        int // of the partition when the request came; 0 if the range was no partition
	cuts      int // of the stream when the request came
	index     int // of the next record in the log
	passed    int // of the first record that is left out because it is later than until; -1 if none is
	// from and until limit the commit times; a zero time is no limit.
	from, until time.Time
	every       time.Duration
	beat        time.Time // of the next heartbeat

	parts []*response // of the record that is being sent
	low   time.Time   // a lower bound of the watermark, as long as index is less than lowTo
	lowTo int
}

// step is one decision of a reader. It is a message, an error that ends the request, or a time to
// wait until.
type step struct {
	message *response
	last    bool // the request ends after this message
	wait    time.Time
	err     error
}

// watermarkEvery is the number of records of the log after which a watermark is computed again. It
// takes time in proportion to the number of undelivered records.
const watermarkEvery = 256

// next decides the next step.
func (r *reader) next(now time.Time) step {
	s := r.stream
	now = s.tick(now)
	s.publish(now)
	silent := now.Before(s.quietUntil)
	switch {
	case s.ended != nil:
		return step{err: s.ended}
	case r.cuts != s.cuts:
		return step{err: status.Error(s.cutWith, "the stream was cut on request of the test: resume it")}
	case silent && !s.heartbeats:
		return step{wait: s.quietUntil}
	case len(r.parts) > 0:
		return r.pop()
	case !silent && (r.id == 0 || r.id != s.layout.id(r.partition)):
		return step{message: r.divide(now), last: true}
	case !now.Before(r.beat):
		r.beat = now.Add(r.every)
		low := s.low(r.partition, r.resumeAt(), now)
		r.low, r.lowTo = low, r.index+watermarkEvery
		return step{message: heartbeat(r.position(r.partition, low), s.report(low))}
	case silent:
		return step{wait: earliest(s.quietUntil, r.beat)}
	}
	if found := r.find(); found != nil {
		return r.start(found, now)
	}
	if !r.until.IsZero() && s.low(r.partition, r.index, now).After(r.until) {
		return step{message: closeOf(nil, nil), last: true}
	}
	return step{wait: r.wakeAt(now)}
}

// find moves to the next record of the partition within the limits of time; nil if there is none.
func (r *reader) find() *change {
	for ; r.index < len(r.stream.log); r.index++ {
		c := r.stream.log[r.index]
		if !r.partition.contains(c.key) || c.at.Before(r.from) {
			continue
		}
		if r.until.IsZero() || !c.at.After(r.until) {
			return c
		}
		if r.passed < 0 {
			r.passed = r.index
		}
	}
	return nil
}

// resumeAt returns the index for tokens. A request that resumes may have no end time, so it starts
// at the first record that was left out.
func (r *reader) resumeAt() int {
	if r.passed >= 0 {
		return r.passed
	}
	return r.index
}

// start begins to send a record.
func (r *reader) start(c *change, now time.Time) step {
	s := r.stream
	if s.expired(c.at, now) {
		return step{err: status.Error(r.tooOld, "records were removed after the retention period before they were read: start at a later time")}
	}
	if r.index >= r.lowTo {
		r.low, r.lowTo = s.low(r.partition, r.index, now), r.index+watermarkEvery
	}
	r.index++
	messages := dataChanges(c, r.cluster, r.position(r.partition, r.low).encode(), s.report(r.low), r.chunkSize)
	for range 1 + s.repeat {
		r.parts = append(r.parts, messages...)
	}
	return r.pop()
}

func (r *reader) pop() step {
	message := r.parts[0]
	r.parts = r.parts[1:]
	return step{message: message}
}

// position is the reader's position, for a token of a range.
func (r *reader) position(of Partition, low time.Time) position {
	return position{Epoch: r.stream.epoch, Start: []byte(of.Start), End: []byte(of.End), Index: r.resumeAt(), Low: low.UnixMicro()}
}

// divide closes the stream of a range that is no partition, or no longer. It gives one token for
// each part that belongs to another partition.
func (r *reader) divide(now time.Time) *response {
	var tokens []position
	var partitions []Partition
	for _, p := range r.stream.layout.pieces(r.partition) {
		tokens = append(tokens, r.position(p.part, r.stream.low(p.part, r.resumeAt(), now)))
		partitions = append(partitions, p.of)
	}
	return closeOf(tokens, partitions)
}

// wakeAt returns the time at which there may be something to send although nothing is committed.
func (r *reader) wakeAt(now time.Time) time.Time {
	at := r.beat
	if len(r.stream.pending) > 0 {
		at = earliest(at, r.stream.pending[0].due)
	}
	if !r.until.IsZero() && !r.until.Before(now) {
		at = earliest(at, r.until.Add(time.Microsecond))
	}
	return at
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
