package model

import (
	"crypto/md5"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// The same random life of a table is read through the model and, over HTTP with the AWS client,
// from the embedded DynamoDB. Every shard must return the same changes in the same order, end at
// the same place, and fail for the same reason. Sequence numbers, shard ids and iterators differ
// between the services, and are matched by their meaning.
//
// The intended differences are behindLastTrimmed and goneBeforeExpired.
func TestStreamEqualsEmbeddedDynamoDB(t *testing.T) {
	const lives, steps = max(4, 24/fewer), 350
	done := map[string]int{}
	for seed := range uint64(lives) {
		views := []types.StreamViewType{
			types.StreamViewTypeNewAndOldImages, types.StreamViewTypeNewImage, types.StreamViewTypeKeysOnly, types.StreamViewTypeOldImage,
		}
		l := newLife(t, seed, views[seed%4])
		l.done = done
		for step := range steps {
			l.step = step
			l.act()
		}
		l.readAll()
	}
	t.Log(done)
	events := []string{
		"put", "no-op put", "delete", "split", "roll", "empty page", "page", "end", "iterator expired", "trimmed", "not found", "shard forgotten",
		"stream replaced", "time ran back", "children listed", "write without a stream", "ended stream not found", behindLastTrimmed, goneBeforeExpired,
	}
	for _, event := range events {
		if done[event] == 0 && fewer == 1 { // the rarest event needs all lives
			t.Errorf("%q never happened", event)
		}
	}
}

// Pages end at the same places. The last page of a closed shard has its changes and is marked as
// the last.
func TestPagesEqualEmbeddedDynamoDB(t *testing.T) {
	l := newLife(t, 0, types.StreamViewTypeNewAndOldImages)
	l.done = map[string]int{}
	pk := l.keys[0]
	l.other.clock.Store(l.world.Now().UnixNano())
	for n := range 2*PageRecords + 300 {
		item := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String(pk)}, {Name: "n", Value: integer(n)}})
		l.table.Put(item)
		l.sameTime(pk)
		l.other.put(item)
	}
	for _, ends := range []bool{false, true} {
		p := l.current()
		full := p.model.Shards[0]
		if ends {
			child, err := l.other.server.RollShard(differentialTable, p.shards[full.ID])
			l.other.check(err)
			p.shards[p.model.Roll(full).ID] = child
		}
		clear(l.done)
		l.readAll()
		if (l.done["end"] == 1) != ends || l.done["page"] != 3 {
			t.Errorf("the shard ends: %v; %v", ends, l.done)
		}
	}
}

// life is one table on both sides.
type life struct {
	t      *testing.T
	seed   uint64
	step   int
	random *rand.Rand
	world  *virtual.World
	table  *Table
	other  *embedded
	view   types.StreamViewType
	done   map[string]int

	keys    []string
	streams []*pair
	cursors []*cursor
}

// pair is one stream on both sides.
type pair struct {
	model  *Stream
	other  cdc.Source
	shards map[string]string // the embedded service's id by the model's id
	// The changes read so far: by the model's shard id, and by shard and the model's number.
	seen  map[string][]twin
	twins map[string]cdc.SequenceNumber
}

// twin is one change with its number in the model (here) and in the embedded service (there).
type twin struct{ here, there cdc.SequenceNumber }

// cursor is an iterator on both sides.
type cursor struct {
	pair        *pair
	shard       string // the model's id
	here, there cdc.Iterator
}

func newLife(t *testing.T, seed uint64, view types.StreamViewType) *life {
	l := &life{
		t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 77)), world: virtual.NewWorld(seed, start.Add(123456789), false), view: view,
	}
	l.table = NewTable(l.world, differentialTable, 2, "pk")
	l.table.Latency, l.table.View, l.table.RestartSequence = 1, string(view), seed%2 == 1
	l.table.TimeRunsBack = seed%3 == 0
	l.other = newEmbedded(t, l.world.Now(), seed, 2, view)
	if l.table.RestartSequence {
		l.other.check(l.other.server.RestartSequences(differentialTable, true))
	}
	l.keys = agreeing(2 << depth)
	l.streams = []*pair{l.paired()}
	return l
}

// depth is how often a hash range can be split.
const depth = 3

// agreeing finds keys that both sides place in the same range, one for each of n ranges, although
// their hashes differ. The keys then also agree for all halves, quarters and so on of the ranges.
func agreeing(n uint64) []string {
	keys, missing := make([]string, n), n
	for i := 0; missing > 0; i++ {
		pk := fmt.Sprint("k", i)
		here := hashOf("/"+string(attribute.String(pk).AppendKey(nil))) * n / hashSpace
		sum := md5.Sum([]byte(pk)) // dynamodbtest.Server.Shards computes ranges like this
		there := uint64(binary.BigEndian.Uint32(sum[:])) * n / hashSpace
		if here == there && keys[here] == "" {
			keys[here] = pk
			missing--
		}
	}
	return keys
}

// paired matches the latest stream of both sides, and its shards by their hash ranges.
func (l *life) paired() *pair {
	p := &pair{model: l.table.Stream(), other: l.other.source(), shards: map[string]string{}, twins: map[string]cdc.SequenceNumber{}, seen: map[string][]twin{}}
	for _, sh := range l.thereNow() {
		p.shards[l.owner(sh.FirstHash>>32).ID] = sh.ID
	}
	return p
}

func (l *life) current() *pair { return l.streams[len(l.streams)-1] }

// owner returns the model's open shard for a hash.
func (l *life) owner(hash uint64) *Shard {
	for _, sh := range l.table.Stream().Open() {
		if sh.lo <= hash && hash < sh.hi {
			return sh
		}
	}
	l.fail("no shard owns %x", hash)
	return nil
}

// thereNow returns the open shards of the embedded DynamoDB.
func (l *life) thereNow() []dynamodbtest.Shard {
	shards, err := l.other.server.Shards(differentialTable)
	l.other.check(err)
	return slices.DeleteFunc(shards, func(s dynamodbtest.Shard) bool { return !s.Open })
}

func (l *life) fail(format string, args ...any) {
	l.t.Helper()
	l.t.Fatalf("seed %d, step %d: %s", l.seed, l.step, fmt.Sprintf(format, args...))
}

// act makes one random step on both sides.
func (l *life) act() {
	l.other.clock.Store(l.world.Now().UnixNano())
	switch n := l.random.IntN(100); {
	case n < 30:
		l.put()
	case n < 36:
		l.delete()
	case n < 41:
		l.reshard()
	case n < 50:
		l.wait()
	case n < 52:
		l.trim()
	case n < 54:
		l.toggle()
	case n < 56:
		l.emptyPages()
	case n < 68:
		l.seek(l.random.IntN(2) == 0)
	case n < 95:
		l.read()
	default:
		l.list()
	}
}

func (l *life) put() {
	pk := l.keys[l.random.IntN(len(l.keys))]
	event := "put"
	item := l.item(pk)
	if was, ok := l.stored(pk); ok && l.random.IntN(5) == 0 {
		item, event = was, "no-op put" // it leaves no record
	}
	l.table.Put(item)
	l.sameTime(pk)
	l.other.put(item)
	l.wrote(event)
}

func (l *life) delete() {
	pk := l.keys[l.random.IntN(len(l.keys))]
	if _, ok := l.stored(pk); ok {
		l.wrote("delete")
	}
	key := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String(pk)}})
	l.table.Delete(key)
	l.sameTime(pk)
	l.other.delete(key)
}

func (l *life) wrote(event string) {
	l.done[event]++
	if l.table.Stream().Ended {
		l.done["write without a stream"]++
	}
}

func (l *life) stored(pk string) (attribute.Item, bool) {
	for _, item := range l.table.Items() {
		if v, _ := item.Get("pk"); v.Text() == pk {
			return item, true
		}
	}
	return attribute.Item{}, false
}

// sameTime makes the embedded DynamoDB give its next record the time of the model's last record,
// because the model's times sometimes run backwards.
func (l *life) sameTime(pk string) {
	if l.table.Stream().Ended {
		return
	}
	now, offset := l.world.Now(), time.Duration(0)
	sh := l.owner(hashOf("/" + string(attribute.String(pk).AppendKey(nil))))
	if n := len(sh.Records); n > 0 && sh.Records[n-1].At.Equal(now) {
		offset = sh.Records[n-1].Change.Time.Sub(now.Truncate(time.Second))
	}
	if offset < 0 {
		l.done["time ran back"]++
	}
	l.other.check(l.other.server.SetRecordTimeOffset(differentialTable, offset))
}

// reshard splits or rolls an open shard.
func (l *life) reshard() {
	open := l.table.Stream().Open()
	if len(open) == 0 {
		return
	}
	p, sh := l.current(), open[l.random.IntN(len(open))]
	there := p.shards[sh.ID]
	if l.random.IntN(2) == 0 && sh.hi-sh.lo > hashSpace>>(depth+1) {
		a, b := p.model.Split(sh)
		children, err := l.other.server.SplitShard(differentialTable, there)
		l.other.check(err)
		p.shards[a.ID], p.shards[b.ID] = children[0], children[1]
		l.done["split"]++
		return
	}
	child, err := l.other.server.RollShard(differentialTable, there)
	l.other.check(err)
	p.shards[p.model.Roll(sh).ID] = child
	l.done["roll"]++
}

// wait lets time pass: mostly little, sometimes longer than iterators live, and occasionally many
// hours.
func (l *life) wait() {
	longest := []time.Duration{10 * time.Second, 10 * time.Second, 4 * time.Minute, 20 * time.Minute, 9 * time.Hour}
	pass(l.world, time.Millisecond+time.Duration(l.random.Int64N(int64(longest[l.random.IntN(len(longest))]))))
}

// trim drops records older than some minutes, in all streams.
func (l *life) trim() {
	until := l.world.Now().Add(-time.Duration(l.random.Int64N(int64(30 * time.Minute))))
	for _, p := range l.streams {
		p.model.Trim(until)
	}
	l.other.check(l.other.server.TrimTo(differentialTable, until))
}

// toggle disables the stream, or enables the next one.
func (l *life) toggle() {
	if p := l.current(); !p.model.Ended {
		l.table.DisableStream()
		l.other.enable(l.view, false)
		return
	}
	l.table.EnableStream(2)
	l.other.enable(l.view, true)
	l.streams = append(l.streams, l.paired())
	l.done["stream replaced"]++
}

func (l *life) emptyPages() {
	p, id := l.anyShard()
	if sh := p.model.Shard(id); !sh.Gone {
		sh.EmptyPages = 1 + l.random.IntN(3)
		if l.other.server.EmptyPages(differentialTable, p.shards[id], sh.EmptyPages) != nil {
			sh.EmptyPages = 0 // the shard is gone; the model notices this at the next read
		}
	}
}

// anyShard returns a shard of any stream, mostly of the current one.
func (l *life) anyShard() (*pair, string) {
	p := l.current()
	if l.random.IntN(4) == 0 {
		p = l.streams[l.random.IntN(len(l.streams))]
	}
	return p, p.model.Shards[l.random.IntN(len(p.model.Shards))].ID
}

// item returns an item with attributes of any type.
func (l *life) item(pk string) attribute.Item {
	number := integer(l.random.IntN(1000) - 500)
	text := attribute.String(strings.Repeat("x\u00e9", l.random.IntN(4)))
	set, err := attribute.NumberSet([]string{"1", "2.5", "-" + fmt.Sprint(3+l.random.IntN(5))})
	if err != nil {
		panic(err)
	}
	values := []attribute.Value{
		number, text, attribute.Binary([]byte{0, 0xff, byte(l.random.IntN(3))}), attribute.Bool(l.random.IntN(2) == 0), attribute.Null(),
		attribute.Map([]attribute.Attribute{{Name: "n", Value: number}, {Name: "", Value: text}}), attribute.List([]attribute.Value{text, number, attribute.List(nil)}),
		attribute.StringSet([]string{"b", "a", "\u00e9"}), set, attribute.BinarySet([][]byte{{1}, {0, byte(l.random.IntN(3))}}),
	}
	attributes := []attribute.Attribute{{Name: "pk", Value: attribute.String(pk)}}
	for i, v := range values {
		if l.random.IntN(4) == 0 {
			attributes = append(attributes, attribute.Attribute{Name: fmt.Sprint("a", i), Value: v})
		}
	}
	return attribute.NewItem(attributes)
}
