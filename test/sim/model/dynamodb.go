package model

import (
	"crypto/md5"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// These are limits of the service, from the developer guide of DynamoDB Streams.
const (
	iteratorLife = 15 * time.Minute
	PageRecords  = 1000
)

// BackBy is the most seconds by which a record's time may be before an earlier record's time.
const BackBy = 60

// Table is the model of a DynamoDB table with its current and earlier streams. Every call of its
// clients takes virtual time, during which other tasks run.
type Table struct {
	world *virtual.World
	Name  string
	// ARN and ID are the values in descriptions, or "".
	ARN, ID string
	Key     []string // names of the primary key's attributes

	ByID map[string]attribute.Item
	// Streams holds all streams of the table, the current one last.
	Streams []*Stream

	// Fault, if set, is called before every call. An error fails the call. It may change the table.
	Fault func(op, shard string) error
	// Latency is the longest a call takes; the default is 20 ms.
	Latency time.Duration
	// TimeRunsBack gives every third record a time that is up to a minute (BackBy) too early.
	TimeRunsBack bool
	// Timeless is the share of the records without a time.
	Timeless float64
	// RestartSequence lets the sequence numbers of a child begin again, lower.
	RestartSequence bool
	// PinHorizon ties an iterator of the horizon to the record that is the oldest when the iterator
	// is returned, so that a later trim causes an error. The service may do so (API reference,
	// TrimmedDataAccessException), but the product must not rely on it. Otherwise the iterator
	// begins, without an error, with the record that is the oldest at the first read.
	PinHorizon bool
	// KeepEnded keeps a disabled stream in listings, without shards, after its last record is
	// dropped. Otherwise it is then not found.
	KeepEnded bool
	// View is the view type of streams that have no other.
	View string
	// TimeToLive makes the service remove every second removed item, as expired.
	TimeToLive bool
	// MissingUntil is the time until which the service does not know the table, only its stream.
	MissingUntil time.Time
	// These are chances in [0, 1): that a call is throttled or unavailable, that an iterator
	// expires early, that a new shard is listed late, and that a closed shard is shown open for
	// some time.
	Throttle, Expire, ListLate, ShowOpen float64
	// Overlap is the chance that an iterator after a change begins with that change or an earlier
	// one.
	Overlap float64
	// DescribeLate is the chance that, for minutes, some descriptions do not show a new stream and
	// listings do not show the end of the old one.
	DescribeLate float64
	// Silent is the chance that a call gets no answer for minutes.
	Silent float64
	// PageSize bounds a page of records, at most 1,000.
	PageSize int
	// ShardPage makes some listings come in pages of at most this many shards; 0 means no pages.
	// Paging decides which listings, and the faults between pages.
	ShardPage int
	Paging    *rand.Rand

	// Written and Trimmed, if set, are called for every write of an item, and for every record that
	// the stream drops.
	Written func(w Write)
	Trimmed func(sh *Shard, r *Record)

	writes int
	number int
	latest time.Time // the latest time of all records

	changed    []described // earlier descriptions, since descriptions began to be late
	StaleUntil time.Time
}

// described is a description of a table's stream.
type described struct {
	stream  *Stream
	enabled bool
}

// Write is one change of an item by the application.
type Write struct {
	ID       string // of the item
	Old, New attribute.Item
	At       time.Time
	// Shard and Sequence locate the change. Shard is nil if no stream records it.
	Shard    *Shard
	Sequence cdc.SequenceNumber
	Expired  bool // by the time to live
	// Number counts the writes of the table: the true order.
	Number int
	Latest time.Time // the latest time of all changes so far, in the stream's records
}

// Stream is one stream of a table.
type Stream struct {
	table  *Table
	ARN    string
	Label  string
	Shards []*Shard
	// View is the stream's view type, if it differs from the table's.
	View string
	// Ended is set once the stream is disabled.
	Ended   bool
	endedAt time.Time
	ending  time.Time       // until then, listings do not show its end
	next    uint64          // the next sequence number, in steps
	Whole   []ListedShards  // the complete listings, without repetitions
	WholeAt time.Time       // when the last complete listing ended
	parts   map[string]part // listings in progress, by the token of their next page
}

// Shard is one shard with all records that it ever held.
type Shard struct {
	ID, Parent string
	Closed     bool
	// ListedFrom hides the shard from listings until then. Until ShownOpenUntil listings show it as
	// open.
	ListedFrom, ShownOpenUntil time.Time
	// Hidden hides the shard from listings permanently. Gone makes reads fail with "not found".
	// StaysListed keeps it listed after all its records are gone.
	Hidden, Gone, StaysListed bool
	Vanished                  bool // it was gone before it was trimmed
	// EmptyPages is the number of empty pages before the next page with records.
	EmptyPages int

	Label     string // of its stream
	Begun     time.Time
	ListedAt  time.Time // when it was first listed
	ShownOpen time.Time // when a listing last showed it as open
	closedAt  time.Time
	FirstRead time.Time // the time of its first page
	ReadAt    time.Time // the time of its last page
	Given     int       // records before this index were returned, or dropped before that
	EmptyAt   time.Time // the time of the last of EmptyPages
	lo, hi    uint64    // hash range [lo, hi)
	Records   []Record
	next      uint64
	Trimmed   int // records before this index are dropped
}

type Record struct {
	Change cdc.Change
	At     time.Time // the exact time of the write
}

const hashSpace = uint64(1) << 32

// NewTable returns an empty table with an enabled stream of the given number of shards.
func NewTable(w *virtual.World, name string, shards int, key ...string) *Table {
	t := &Table{world: w, Name: name, Key: key, ByID: map[string]attribute.Item{}, Latency: 20 * time.Millisecond, PageSize: PageRecords, View: "NEW_AND_OLD_IMAGES"}
	t.EnableStream(shards)
	return t
}

// Stream returns the current stream.
func (t *Table) Stream() *Stream { return t.Streams[len(t.Streams)-1] }

// EnableStream gives the table a new stream, as disabling and enabling does.
func (t *Table) EnableStream(shards int) *Stream {
	switch {
	case len(t.Streams) == 0:
	case t.Stream().Ended:
		t.describeLate()
	default:
		t.DisableStream()
	}
	label := fmt.Sprintf("%s.%03d", t.world.Now().UTC().Format("2006-01-02T15:04:05"), len(t.Streams))
	// The first number is just below a power of ten, so that its length soon changes: 99… is
	// followed by 100….
	s := &Stream{table: t, ARN: "arn:aws:dynamodb:eu-west-1:000000000000:table/" + t.Name + "/stream/" + label, Label: label, next: 999_999_900, parts: map[string]part{}}
	t.Streams = append(t.Streams, s)
	for i := range uint64(shards) {
		s.add("", hashSpace*i/uint64(shards), hashSpace*(i+1)/uint64(shards))
	}
	return s
}

// DisableStream closes every shard and ends the stream, which stays readable.
func (t *Table) DisableStream() {
	s := t.Stream()
	if s.Ended {
		return
	}
	for _, sh := range s.Shards {
		s.close(sh)
	}
	t.describeLate()
	s.Ended, s.endedAt = true, t.world.Now()
	if t.world.Chance(t.DescribeLate) {
		s.ending = s.endedAt.Add(t.world.UpTo(2 * time.Minute))
	}
}

// describeLate lets the next change of the stream appear late in some descriptions.
func (t *Table) describeLate() {
	now := t.world.Now()
	if !now.Before(t.StaleUntil) {
		t.changed = nil
		if !t.world.Chance(t.DescribeLate) {
			return
		}
		t.StaleUntil = now.Add(t.world.UpTo(9 * time.Minute))
	}
	s := t.Stream()
	t.changed = append(t.changed, described{s, !s.Ended})
}

func (s *Stream) add(parent string, lo, hi uint64) *Shard {
	sh := &Shard{ID: fmt.Sprintf("shardId-%020d-%08x", s.table.world.Now().UnixMilli(), len(s.Shards)), Parent: parent, Label: s.Label, Begun: s.table.world.Now(), lo: lo, hi: hi, next: s.next}
	w := s.table.world
	if s.table.RestartSequence {
		if parent != "" {
			w.Inject("sequence numbers restarted")
		}
		sh.next = 1000 + w.Rand().Uint64N(1_000_000)
	}
	if p := s.Shard(parent); p != nil {
		sh.ListedFrom = p.ListedFrom // a listing lags, but does not omit the middle of a lineage
		if w.Chance(s.table.ListLate) {
			if late := w.Now().Add(w.UpTo(3 * time.Minute)); late.After(sh.ListedFrom) {
				sh.ListedFrom = late
			}
		}
	}
	s.Shards = append(s.Shards, sh)
	return sh
}

func (s *Stream) close(sh *Shard) {
	w := s.table.world
	if sh.Closed {
		return
	}
	sh.Closed, sh.closedAt = true, w.Now()
	if w.Chance(s.table.ShowOpen) {
		longest := 5 * time.Minute
		if w.Chance(0.25) {
			longest = 3 * time.Hour
		}
		sh.ShownOpenUntil = w.Now().Add(w.UpTo(longest))
	}
}

// Split closes the shard and gives it two children.
func (s *Stream) Split(sh *Shard) (a, b *Shard) { return s.split(sh, sh.lo+(sh.hi-sh.lo)/2) }

func (s *Stream) split(sh *Shard, mid uint64) (a, b *Shard) {
	s.close(sh)
	s.table.world.Inject("shard split")
	s.table.world.Tracef("splits %s", sh.ID)
	return s.add(sh.ID, sh.lo, mid), s.add(sh.ID, mid, sh.hi)
}

// Roll closes the shard and gives it one child, as the service does about every four hours.
func (s *Stream) Roll(sh *Shard) *Shard {
	s.close(sh)
	s.table.world.Inject("shard rolled")
	s.table.world.Tracef("rolls %s", sh.ID)
	return s.add(sh.ID, sh.lo, sh.hi)
}

// Open returns the shards that accept writes.
func (s *Stream) Open() []*Shard {
	var open []*Shard
	for _, sh := range s.Shards {
		if !sh.Closed {
			open = append(open, sh)
		}
	}
	return open
}

// Vanish makes reads of the shard fail with "not found".
func (sh *Shard) Vanish() { sh.Gone, sh.Vanished = true, true }

// Trim drops all records written before t, as the service does after 24 hours.
func (s *Stream) Trim(t time.Time) {
	for _, sh := range s.Shards {
		for sh.Trimmed < len(sh.Records) && sh.Records[sh.Trimmed].At.Before(t) {
			if s.table.Trimmed != nil {
				s.table.Trimmed(sh, &sh.Records[sh.Trimmed])
			}
			sh.Trimmed++
		}
		if sh.Closed && sh.closedAt.Before(t) {
			sh.Gone, sh.Hidden = true, !sh.StaysListed
		}
	}
}

// ---- the application's side

func (t *Table) KeyOf(item attribute.Item) (attribute.Item, string) {
	keys := make([]attribute.Attribute, 0, 2)
	var id []byte
	for _, name := range t.Key {
		v, ok := item.Get(name)
		if !ok {
			panic("sim: an item without its key")
		}
		keys = append(keys, attribute.Attribute{Name: name, Value: v})
		id = v.AppendKey(append(id, '/'))
	}
	return attribute.NewItem(keys), string(id)
}

// NameOf formats an item's key for people.
func (t *Table) NameOf(keys attribute.Item) string {
	var parts []string
	for _, name := range t.Key {
		v, _ := keys.Get(name)
		parts = append(parts, v.Text())
	}
	return strings.Join(parts, "#")
}

func hashOf(id string) uint64 {
	pk, _, _ := strings.Cut(id[1:], "/")
	sum := md5.Sum([]byte(pk))
	return uint64(binary.BigEndian.Uint32(sum[:]))
}

// Put stores an item immediately.
func (t *Table) Put(item attribute.Item) {
	keys, id := t.KeyOf(item)
	old := t.ByID[id]
	if old.Equal(item) {
		return // a write without an effect leaves no record
	}
	t.ByID[id] = item
	event := cdc.Modify
	if !old.Exists() {
		event = cdc.Insert
	}
	t.record(id, cdc.Change{Event: event, Keys: keys, Old: old, New: item})
}

// Delete removes an item, if it is there.
func (t *Table) Delete(key attribute.Item) { t.remove(key, t.TimeToLive && t.number%2 == 0) }

// ExpireItem removes an item by the time to live, if it is there.
func (t *Table) ExpireItem(key attribute.Item) { t.remove(key, true) }

func (t *Table) remove(key attribute.Item, expired bool) {
	keys, id := t.KeyOf(key)
	old, ok := t.ByID[id]
	if !ok {
		return
	}
	delete(t.ByID, id)
	t.record(id, cdc.Change{Event: cdc.Remove, Keys: keys, Old: old, Expired: expired})
}

func (t *Table) record(id string, c cdc.Change) {
	s := t.Stream()
	t.number++
	if s.Ended {
		t.wrote(Write{ID: id, Old: c.Old, New: c.New, Expired: c.Expired})
		return
	}
	hash := hashOf(id)
	for _, sh := range s.Shards {
		if sh.Closed || hash < sh.lo || hash >= sh.hi {
			continue
		}
		step := 1 + t.world.Rand().Uint64N(7)
		sh.next += step
		s.next = max(s.next, sh.next)
		// At least 21 digits, like local services.
		seq, err := cdc.ParseSequenceNumber(fmt.Sprintf("%09d000000000000", sh.next))
		if err != nil {
			panic(err)
		}
		if n := len(sh.Records); n > 0 && len(sh.Records[n-1].Change.Sequence.String()) < len(seq.String()) {
			t.world.Inject("sequence numbers grew longer")
		}
		c.Sequence = seq
		c.Time = t.world.Now().Truncate(time.Second)
		t.writes++
		if t.TimeRunsBack && t.writes%3 == 0 {
			c.Time = c.Time.Add(-time.Second * time.Duration(1+t.world.Rand().IntN(BackBy)))
			t.world.Inject("time ran back")
		}
		if t.Timeless > 0 && t.world.Chance(t.Timeless) {
			c.Time = time.Time{}
			t.world.Inject("record without a time")
		}
		if c.Time.After(t.latest) {
			t.latest = c.Time
		}
		sh.Records = append(sh.Records, Record{Change: c, At: t.world.Now()})
		t.wrote(Write{ID: id, Old: c.Old, New: c.New, Expired: c.Expired, Shard: sh, Sequence: seq})
		if t.world.Tracing() {
			t.world.Tracef("source %s of item %s in %s at %s", c.Event, t.NameOf(c.Keys), sh.ID, seq)
		}
		return
	}
	panic("sim: no shard takes " + id)
}

func (t *Table) wrote(w Write) {
	if t.Written != nil {
		w.At, w.Number, w.Latest = t.world.Now(), t.number, t.latest
		t.Written(w)
	}
}

// Items returns the items of the table, sorted by key.
func (t *Table) Items() []attribute.Item {
	ids := make([]string, 0, len(t.ByID))
	for id := range t.ByID {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	items := make([]attribute.Item, len(ids))
	for i, id := range ids {
		items[i] = t.ByID[id]
	}
	return items
}

func (t *Table) OutOfSight() bool { return t.world.Now().Before(t.MissingUntil) }

// After returns the index of the first record after a change.
func (s *Shard) After(n cdc.SequenceNumber) int {
	return sort.Search(len(s.Records), func(i int) bool { return s.Records[i].Change.Sequence.Compare(n) > 0 })
}

func (t *Table) Shard(label, id string) *Shard {
	if stream := t.StreamOf(label); stream != nil {
		return stream.Shard(id)
	}
	return nil
}

// StreamOf returns the stream with a label, or nil.
func (t *Table) StreamOf(label string) *Stream {
	for _, s := range t.Streams {
		if s.Label == label {
			return s
		}
	}
	return nil
}
