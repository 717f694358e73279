package dynamodbtest

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/dynamodbtest/item"
)

// retention is how long a stream keeps a record. It is also how long a disabled stream keeps its
// shards ("Change data capture for DynamoDB Streams").
const retention = 24 * time.Hour

// shard is an append-only run of records for a range of hashes.
type shard struct {
	id, parent string
	low, high  uint64 // the hashes that it owns, both ends inclusive
	created    time.Time
	closedAt   time.Time // zero while open

	starting string // less than or equal to every record's number
	last     string // the highest number used
	ending   string // greater than every record's number; set once the shard is closed

	records     []record
	trimmed     int64  // number of records removed from the front
	lastTrimmed string // the sequence number of the last trimmed record

	hiddenUntil    time.Time // not listed before this time
	shownOpenUntil time.Time // listed without an ending number before this time
	emptyPages     int       // number of future pages that are empty
}

// record is one change in a stream.
type record struct {
	sequence string
	written  time.Time // by the clock, for trimming
	second   int64     // ApproximateCreationDateTime, Unix seconds
	keys     []byte    // JSON
	size     int       // SizeBytes: keys and the images of the view
	old, new *stored   // nil if the item did not exist
	expired  bool
}

func (r *record) event() string {
	switch {
	case r.old == nil:
		return "INSERT"
	case r.new == nil:
		return "REMOVE"
	}
	return "MODIFY"
}

func (sh *shard) open() bool { return sh.closedAt.IsZero() }

// end returns the position after the last record, counted from the shard's first.
func (sh *shard) end() int64 { return sh.trimmed + int64(len(sh.records)) }

// seek returns the position of the first record for which reached returns true. Once reached
// returns true, it must do so for all later records.
func (sh *shard) seek(reached func(*record) bool) int64 {
	i := sort.Search(len(sh.records), func(i int) bool { return reached(&sh.records[i]) })
	return sh.trimmed + int64(i)
}

// trim removes the records that were written at the horizon or before.
func (sh *shard) trim(horizon time.Time) {
	n := 0
	for n < len(sh.records) && !sh.records[n].written.After(horizon) {
		n++
	}
	if n == 0 {
		return
	}
	sh.lastTrimmed = sh.records[n-1].sequence
	sh.trimmed += int64(n)
	clear(sh.records[:n]) // lets the images be freed
	sh.records = sh.records[n:]
}

// vanished reports whether a trimmed shard no longer exists.
func (sh *shard) vanished(horizon time.Time) bool {
	return !sh.open() && len(sh.records) == 0 && !sh.closedAt.After(horizon)
}

// nextSequence returns a number greater than all previous numbers. The differences vary, because
// the service does not promise consecutive numbers.
func (st *stream) nextSequence(sh *shard) string {
	sh.last = addSequence(sh.last, fmt.Sprint(1+st.table.random.Uint64N(3)))
	return sh.last
}

// append writes the record of a change into the shard that owns its key. The caller
// holds the table's mu.
func (st *stream) append(c change, old *stored, now time.Time) {
	sh := st.owner(c.key.hash)
	if st.rollDue(sh, now) {
		st.replace(sh, now, 1)
		sh = st.owner(c.key.hash)
	}
	sh.trim(now.Add(-retention))
	keys := attribute.AppendItem(nil, c.key.item)
	size := item.Size(c.key.item)
	if c.image != nil && st.showsNew() {
		size += c.image.size
	}
	if old != nil && st.showsOld() {
		size += old.size
	}
	sh.records = append(sh.records, record{
		sequence: st.nextSequence(sh),
		written:  now,
		second:   now.Add(st.table.timeOffset).Unix(),
		keys:     keys,
		size:     size,
		old:      old,
		new:      c.image,
		expired:  c.expired,
	})
}

// owner returns the open shard that owns a hash (S1).
func (st *stream) owner(hash uint64) *shard {
	i := sort.Search(len(st.open), func(i int) bool { return st.open[i].high >= hash })
	return st.open[i]
}

func (st *stream) rollDue(sh *shard, now time.Time) bool {
	every := st.table.autoRoll
	return every > 0 && now.Sub(sh.created) >= every
}

// newShard makes an open shard and puts it into the listing.
func (st *stream) newShard(parent *shard, low, high uint64, now time.Time) *shard {
	sh := &shard{low: low, high: high, created: now}
	for sh.id == "" || st.shard(sh.id) != nil {
		sh.id = fmt.Sprintf("shardId-%020d-%08x", max(now.UnixMilli(), 0), st.table.random.Uint32())
	}
	sh.starting = st.table.server.opts.FirstSequenceNumber
	if parent != nil {
		sh.parent = parent.id
		sh.hiddenUntil = now.Add(st.table.childrenDelay)
		if !st.table.restartSequences {
			// Numbers of later shards are far higher, and eventually have one more digit.
			jump := fmt.Sprint(1+st.table.random.Uint64N(9)) + "00000000000000000000"
			sh.starting = addSequence(parent.ending, jump)
		}
	}
	sh.last = sh.starting
	at, _ := slices.BinarySearchFunc(st.shards, sh.id, func(s *shard, id string) int { return strings.Compare(s.id, id) })
	st.shards = slices.Insert(st.shards, at, sh)
	return sh
}

// closeShard ends a shard. Its ending number belongs to no record. So a client that waits for a
// record with that number would wait forever.
func (st *stream) closeShard(sh *shard, now time.Time) {
	sh.ending = st.nextSequence(sh)
	sh.closedAt = now
	sh.shownOpenUntil = now.Add(st.table.closingDelay)
}

// replace closes an open shard and gives its range to n children. One child is a roll, and two
// children are a split. The caller holds the table's mu.
func (st *stream) replace(sh *shard, now time.Time, n int) []*shard {
	st.closeShard(sh, now)
	var children []*shard
	if n == 1 {
		children = []*shard{st.newShard(sh, sh.low, sh.high, now)}
	} else {
		middle := sh.low + (sh.high-sh.low)/2
		children = []*shard{
			st.newShard(sh, sh.low, middle, now),
			st.newShard(sh, middle+1, sh.high, now),
		}
	}
	at := slices.Index(st.open, sh)
	st.open = slices.Replace(st.open, at, at+1, children...)
	return children
}

// appendRecord appends a record's JSON in the form of GetRecords.
func (st *stream) appendRecord(dst []byte, sh *shard, r *record) []byte {
	dst = append(dst, `{"awsRegion":`...)
	dst = attribute.AppendString(dst, st.table.server.opts.Region)
	dst = append(dst, `,"dynamodb":{"ApproximateCreationDateTime":`...)
	dst = fmt.Append(dst, r.second)
	dst = append(dst, `,"Keys":`...)
	dst = append(dst, r.keys...)
	if r.new != nil && st.showsNew() {
		dst = append(dst, `,"NewImage":`...)
		dst = append(dst, r.new.wire...)
	}
	if r.old != nil && st.showsOld() {
		dst = append(dst, `,"OldImage":`...)
		dst = append(dst, r.old.wire...)
	}
	dst = append(dst, `,"SequenceNumber":"`...)
	dst = append(dst, r.sequence...)
	dst = append(dst, `","SizeBytes":`...)
	dst = fmt.Append(dst, r.size)
	dst = append(dst, `,"StreamViewType":"`...)
	dst = append(dst, st.view...)
	dst = append(dst, `"},"eventID":"`...)
	dst = st.appendEventID(dst, sh, r)
	dst = append(dst, `","eventName":"`...)
	dst = append(dst, r.event()...)
	dst = append(dst, `","eventSource":"aws:dynamodb","eventVersion":"1.1"`...)
	if r.expired {
		dst = append(dst, `,"userIdentity":{"PrincipalId":"dynamodb.amazonaws.com","Type":"Service"}`...)
	}
	return append(dst, '}')
}
