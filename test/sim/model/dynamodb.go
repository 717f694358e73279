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

// Service behaviour that the model keeps, from the developer guide of DynamoDB Streams.
const (
	iteratorLife = 15 * time.Minute
	PageRecords  = 1000
)

// backBy is by how many seconds the time of a record may be behind that of one before it, at the
// most.
const BackBy = 60

// Table is the model of a DynamoDB table with its streams: the current one and those before it.
// Every call of its clients takes virtual time, during which other tasks go on.
type Table struct {
	world *virtual.World
	Name  string
	// ARN and ID are what descriptions say of it; "" is nothing.
	ARN, ID string
	Key     []string // names of the primary key's attributes

	ByID map[string]attribute.Item
	// Streams are all streams the table ever had, the current one last.
	Streams []*Stream

	// Fault, if set, is asked before every call: an error fails it. It may change the table.
	Fault func(op, shard string) error
	// Latency is the longest a call takes; the default is 20 ms.
	Latency time.Duration
	// TimeRunsBack lets every third record carry a time that is up to a minute (backBy) earlier
	// than it should be.
	TimeRunsBack bool
	// RestartSequence lets sequence numbers begin anew, lower, in a child.
	RestartSequence bool
	// PinHorizon lets an iterator of the horizon stand at the record that is the oldest when it is
	// given out, so that a trim under it is told, which the service may do (API reference,
	// TrimmedDataAccessException) and nothing may rest on. Otherwise it begins, without an error,
	// with what is the oldest when it is read.
	PinHorizon bool
	// KeepEnded lets a disabled stream be listed, without shards, when its last record is gone.
	// Otherwise it is not found then.
	KeepEnded bool
	// View is the view type of streams that have none of their own.
	View string
	// TimeToLive lets the service remove every other one of the items that are removed, as expired.
	TimeToLive bool
	// MissingUntil: until then the service does not know the table. Its stream it does.
	MissingUntil time.Time
	// Chances in [0, 1): that a call is throttled or unavailable, that an iterator has expired
	// before its time, that a new shard is listed late, and that a closed one is shown open for a
	// while.
	Throttle, Expire, ListLate, ShowOpen float64
	// Overlap is the chance that an iterator after a change begins with that change, or one before
	// it.
	Overlap float64
	// DescribeLate is the chance that a change of the stream is not seen in every description for
	// minutes, nor that it is over in its listing.
	DescribeLate float64
	// Silent is the chance that a call is not answered for minutes.
	Silent float64
	// PageSize bounds a page of records, at most 1,000.
	PageSize int
	// ShardPage lets some listings come in pages of so many shards at the most; 0 is none. Paging
	// decides which, and what goes wrong between pages.
	ShardPage int
	Paging    *rand.Rand

	// Written and Trimmed, if set, see every write of an item, and every record that the stream
	// drops.
	Written func(w Write)
	Trimmed func(sh *Shard, r *Record)

	writes int
	number int
	latest time.Time // of the times of all records

	changed    []described // what descriptions said before, since they began to be late
	StaleUntil time.Time
}

// described is what a description says of a table's stream.
type described struct {
	stream  *Stream
	enabled bool
}

// Write is one change of an item as the application makes it.
type Write struct {
	ID       string // of the item
	Old, New attribute.Item
	At       time.Time
	// Shard and Sequence are the change's place; Shard is nil if no stream records it.
	Shard    *Shard
	Sequence cdc.SequenceNumber
	Expired  bool // by the time to live
	// Number counts the writes of the table: the true order.
	Number int
	Latest time.Time // of all changes' times so far, as the stream tells them
}

// Stream is one stream of a table.
type Stream struct {
	table  *Table
	ARN    string
	Label  string
	Shards []*Shard
	// View is the stream's view type, if it is not the table's.
	View string
	// Ended is set once the stream is disabled.
	Ended   bool
	endedAt time.Time
	ending  time.Time       // until then its listing does not say that it is over
	next    uint64          // the next sequence number, in steps
	Whole   []ListedShards  // what complete listings showed, each that differs from the one before
	WholeAt time.Time       // when the last complete listing ended
	parts   map[string]part // of listings that are under way, by what asks for their next page
}

// Shard is one shard with everything it ever held.
type Shard struct {
	ID, Parent string
	Closed     bool
	// ListedFrom hides the shard from listings until then; ShownOpenUntil keeps it looking open.
	ListedFrom, ShownOpenUntil time.Time
	// Hidden hides it altogether. Gone makes reading it "not found". StaysListed keeps it listed
	// though everything of it is gone.
	Hidden, Gone, StaysListed bool
	Vanished                  bool // it was gone before it was trimmed
	// EmptyPages are given before the next page with records.
	EmptyPages int

	Label     string // of its stream
	Begun     time.Time
	ListedAt  time.Time // when a listing first had it
	ShownOpen time.Time // when a listing last showed it open
	closedAt  time.Time
	FirstRead time.Time // when it first gave a page
	ReadAt    time.Time // when it last did
	Given     int       // records before this index were in one of its pages, or gone by then
	EmptyAt   time.Time // when it last gave one of EmptyPages
	lo, hi    uint64    // hash range [lo, hi)
	Records   []Record
	next      uint64
	Trimmed   int // records before this index are gone
}

type Record struct {
	Change cdc.Change
	At     time.Time // when it was written, exactly
}

const hashSpace = uint64(1) << 32

// NewTable makes an empty table with an enabled stream of the given number of shards.
func NewTable(w *virtual.World, name string, shards int, key ...string) *Table {
	t := &Table{world: w, Name: name, Key: key, ByID: map[string]attribute.Item{}, Latency: 20 * time.Millisecond, PageSize: PageRecords, View: "NEW_AND_OLD_IMAGES"}
	t.EnableStream(shards)
	return t
}

// Stream is the current stream.
func (t *Table) Stream() *Stream { return t.Streams[len(t.Streams)-1] }

// EnableStream gives the table a new stream, as disabling and enabling it does.
func (t *Table) EnableStream(shards int) *Stream {
	switch {
	case len(t.Streams) == 0:
	case t.Stream().Ended:
		t.describeLate()
	default:
		t.DisableStream()
	}
	label := fmt.Sprintf("%s.%03d", t.world.Now().UTC().Format("2006-01-02T15:04:05"), len(t.Streams))
	// Just below a power of ten, so that lengths change early: 99… is followed by 100….
	s := &Stream{table: t, ARN: "arn:aws:dynamodb:eu-west-1:000000000000:table/" + t.Name + "/stream/" + label, Label: label, next: 999_999_900, parts: map[string]part{}}
	t.Streams = append(t.Streams, s)
	for i := range uint64(shards) {
		s.add("", hashSpace*i/uint64(shards), hashSpace*(i+1)/uint64(shards))
	}
	return s
}

// DisableStream closes every shard and ends the stream. It stays readable.
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

// describeLate lets descriptions of the time before a change that is about to be made go on for a
// while.
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
		sh.ListedFrom = p.ListedFrom // a listing lags; it does not leave out the middle of a lineage
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
func (s *Stream) Split(sh *Shard) (a, b *Shard) {
	s.close(sh)
	s.table.world.Inject("shard split")
	mid := sh.lo + (sh.hi-sh.lo)/2
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

// Open are the shards that take writes.
func (s *Stream) Open() []*Shard {
	var open []*Shard
	for _, sh := range s.Shards {
		if !sh.Closed {
			open = append(open, sh)
		}
	}
	return open
}

// Vanish makes reading the shard "not found", whatever it holds.
func (sh *Shard) Vanish() { sh.Gone, sh.Vanished = true, true }

// Trim drops everything written before t, as time does after 24 hours.
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

// name is an item's key for a person.
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

// Put stores an item at once.
func (t *Table) Put(item attribute.Item) {
	keys, id := t.KeyOf(item)
	old := t.ByID[id]
	if old.Equal(item) {
		return // a write that changes nothing leaves no record
	}
	t.ByID[id] = item
	event := cdc.Modify
	if !old.Exists() {
		event = cdc.Insert
	}
	t.record(id, cdc.Change{Event: event, Keys: keys, Old: old, New: item})
}

// Delete removes an item, if it is there.
func (t *Table) Delete(key attribute.Item) {
	keys, id := t.KeyOf(key)
	old, ok := t.ByID[id]
	if !ok {
		return
	}
	delete(t.ByID, id)
	t.record(id, cdc.Change{Event: cdc.Remove, Keys: keys, Old: old, Expired: t.TimeToLive && t.number%2 == 0})
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
		seq, err := cdc.ParseSequenceNumber(fmt.Sprintf("%09d000000000000", sh.next)) // 21 digits at least, as local services write them
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

// Items are the items of the table, sorted by key.
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

// after is the index of the first record after a change.
func (s *Shard) After(n cdc.SequenceNumber) int {
	return sort.Search(len(s.Records), func(i int) bool { return s.Records[i].Change.Sequence.Compare(n) > 0 })
}

func (t *Table) Shard(label, id string) *Shard {
	if stream := t.StreamOf(label); stream != nil {
		return stream.Shard(id)
	}
	return nil
}

// streamOf is the stream with a label; nil if the table never had it.
func (t *Table) StreamOf(label string) *Stream {
	for _, s := range t.Streams {
		if s.Label == label {
			return s
		}
	}
	return nil
}
