package dynamodbtest

import (
	"crypto/md5"
	"encoding/hex"
	"math"
	"slices"
	"strings"
	"time"
)

// stream is one stream of a table. A table has several streams if its stream was disabled and
// enabled again. The table's mu guards it, except the fields that never change.
type stream struct {
	table   *table
	arn     string
	label   string
	view    string
	created time.Time

	enabled    bool
	disabledAt time.Time
	shards     []*shard // the readable shards, by id
	open       []*shard // sorted by range
	epoch      uint64   // raised to make every issued iterator expire
}

// View types, as StreamSpecification names them.
const (
	viewKeys = "KEYS_ONLY"
	viewNew  = "NEW_IMAGE"
	viewOld  = "OLD_IMAGE"
	viewBoth = "NEW_AND_OLD_IMAGES"
)

func (st *stream) showsNew() bool { return st.view == viewNew || st.view == viewBoth }

func (st *stream) showsOld() bool { return st.view == viewOld || st.view == viewBoth }

// labelFormat is the form of a stream's label. The stream's ARN ends with the label.
const labelFormat = "2006-01-02T15:04:05.000"

// enableStream gives the table a new stream with a new label. The caller holds the
// table's mu and the server's.
func (t *table) enableStream(view string, now time.Time) {
	at := now.UTC()
	arn := t.arn() + "/stream/" + at.Format(labelFormat)
	for t.server.streams[arn] != nil {
		// The clock has not advanced since the last label, and a label is never used twice.
		at = at.Add(time.Millisecond)
		arn = t.arn() + "/stream/" + at.Format(labelFormat)
	}
	st := &stream{table: t, arn: arn, label: at.Format(labelFormat), view: view, created: now, enabled: true}
	n := uint64(t.server.opts.InitialShards)
	width := math.MaxUint64/n + 1 // 0 if n is 1: one shard owns everything
	for i := range n {
		low, high := i*width, (i+1)*width-1
		if i == n-1 {
			high = math.MaxUint64
		}
		st.open = append(st.open, st.newShard(nil, low, high, now))
	}
	t.stream = st
	t.streams = append(t.streams, st)
	t.server.streams[arn] = st
}

// disable closes all shards. They can still be read for the retention time. The caller holds the
// table's mu.
func (st *stream) disable(now time.Time) {
	st.enabled = false
	st.disabledAt = now
	for _, sh := range st.open {
		st.closeShard(sh, now)
	}
	st.open = nil
}

func (st *stream) status() string {
	if st.enabled {
		return "ENABLED"
	}
	return "DISABLED"
}

// gone reports whether a disabled stream is older than its retention.
func (st *stream) gone(now time.Time) bool {
	return !st.enabled && now.Sub(st.disabledAt) >= retention
}

// tend applies the effects of time to a stream. It rolls shards that are due, and trims old
// records. The caller holds the table's mu.
func (st *stream) tend(now time.Time) {
	for _, sh := range slices.Clone(st.open) {
		if st.rollDue(sh, now) {
			st.replace(sh, now, 1)
		}
	}
	st.trim(now.Add(-retention))
}

// trim removes records written at or before the horizon. It also removes closed shards that ended
// by then and have no records left.
func (st *stream) trim(horizon time.Time) {
	for _, sh := range st.shards {
		sh.trim(horizon)
	}
	st.shards = slices.DeleteFunc(st.shards, func(sh *shard) bool { return sh.vanished(horizon) })
}

// shard returns a shard that can be read, listed or not; nil if there is none.
func (st *stream) shard(id string) *shard {
	i, found := slices.BinarySearchFunc(st.shards, id, func(s *shard, id string) int { return strings.Compare(s.id, id) })
	if !found {
		return nil
	}
	return st.shards[i]
}

// appendEventID appends 32 hexadecimal digits that are unique to this record.
func (st *stream) appendEventID(dst []byte, sh *shard, r *record) []byte {
	sum := md5.Sum([]byte(st.arn + "|" + sh.id + "|" + r.sequence))
	return hex.AppendEncode(dst, sum[:])
}
