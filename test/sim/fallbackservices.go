package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/fallback"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// This file models what the way back needs of both services, as weakly as their documentation
// allows: the change stream of a Bigtable table, and requests to DynamoDB with signatures.

// endsBefore compares two ends of ranges. An empty end is after every key.
func endsBefore(a, b string) bool { return a != "" && (b == "" || a < b) }

// change is a record in the log of a partition.
type streamChange struct {
	key string
	at  time.Time // of the commit
}

// partition is a partition of the change stream of the model.
type streamPartition struct {
	checkpoint.KeyRange
	log    []streamChange
	closed bool
}

// cursor is a position in one partition, for a part of its range. A token is a list of them.
type streamCursor struct {
	checkpoint.KeyRange
	P, At int
}

// table is the Bigtable table of the model.
type followedTable struct {
	world      *virtual.World
	rows       map[string]string
	partitions []*streamPartition
	pending    []streamChange       // committed, not readable yet
	readable   map[string]time.Time // when the last record of a row becomes readable
	failing    bool
	lost       bool // tokens are too old
}

func newFollowedTable(w *virtual.World) *followedTable {
	return &followedTable{world: w, rows: map[string]string{}, partitions: []*streamPartition{{}}, readable: map[string]time.Time{}}
}

func rangeHolds(r checkpoint.KeyRange, key string) bool {
	return key >= r.Start && endsBefore(key, r.End)
}

// set changes a row; "" deletes it. The record can be read some time later, in the order of the row.
func (t *followedTable) set(key, value string) {
	if t.rows[key] = value; value == "" {
		delete(t.rows, key)
	}
	at := t.world.Now()
	t.world.Tracef("row %s is %q", key, value)
	c := streamChange{key, at}
	t.pending = append(t.pending, c)
	readable := at.Add(t.world.UpTo(20 * time.Second))
	if readable.Before(t.readable[key]) {
		readable = t.readable[key]
	}
	t.readable[key] = readable
	t.world.After(readable.Sub(at), func() {
		t.pending = slices.DeleteFunc(t.pending, func(p streamChange) bool { return p == c })
		for _, p := range t.partitions {
			if !p.closed && rangeHolds(p.KeyRange, key) {
				p.log = append(p.log, c)
			}
		}
	})
}

// now returns the index of the open partition of a key.
func (t *followedTable) now(key string) int {
	return slices.IndexFunc(t.partitions, func(p *streamPartition) bool { return !p.closed && rangeHolds(p.KeyRange, key) })
}

// split or merge changes the partitions at a key.
func (t *followedTable) reshape(at string) {
	p := t.partitions[t.now(at)]
	p.closed = true
	if at > p.Start {
		t.world.Inject("partition split")
		t.partitions = append(t.partitions, &streamPartition{KeyRange: checkpoint.KeyRange{Start: p.Start, End: at}}, &streamPartition{KeyRange: checkpoint.KeyRange{Start: at, End: p.End}})
		return
	}
	for _, left := range t.partitions {
		if !left.closed && left.End == p.Start && p.Start != "" {
			left.closed = true
			t.world.Inject("partitions merged")
			t.partitions = append(t.partitions, &streamPartition{KeyRange: checkpoint.KeyRange{Start: left.Start, End: p.End}})
			return
		}
	}
	p.closed = false
}

func (t *followedTable) Partitions(ctx context.Context, _ string) (all []checkpoint.KeyRange, err error) {
	_ = task.Sleep(ctx, t.world.UpTo(100*time.Millisecond))
	for _, p := range t.partitions {
		if !p.closed {
			all = append(all, p.KeyRange)
		}
	}
	return all, ctx.Err()
}

func commonRange(a, b checkpoint.KeyRange) (checkpoint.KeyRange, bool) {
	r := checkpoint.KeyRange{Start: max(a.Start, b.Start), End: a.End}
	if endsBefore(b.End, a.End) {
		r.End = b.End
	}
	return r, r.End == "" || r.Start < r.End
}

// children returns what a partition that is read up to its end is closed with: the partitions that
// followed it then or those of now.
func (t *followedTable) children(c streamCursor) (all []checkpoint.Continuation) {
	first := c.P + 1
	if !t.partitions[c.P].closed {
		first = c.P
	}
	seen := []checkpoint.KeyRange{}
	onlyNow := t.world.Chance(0.5)
	for i := first; i < len(t.partitions); i++ {
		p := t.partitions[i]
		r, common := commonRange(c.KeyRange, p.KeyRange)
		again := slices.ContainsFunc(seen, func(s checkpoint.KeyRange) bool { _, is := commonRange(s, r); return is })
		if !common || again || onlyNow && p.closed && i > c.P {
			continue
		}
		seen = append(seen, r)
		at := 0
		if i == c.P {
			at = c.At
		}
		all = append(all, checkpoint.Continuation{KeyRange: r, Into: p.KeyRange, Token: streamToken([]streamCursor{{r, i, at}})})
	}
	return all
}

func streamToken(cs []streamCursor) string { text, _ := json.Marshal(cs); return string(text) }

func (t *followedTable) Read(ctx context.Context, _ string, from fallback.Place, heartbeat time.Duration, take func(fallback.Record) error) error {
	var at []streamCursor
	for _, c := range from.Tokens {
		var cs []streamCursor
		if err := json.Unmarshal([]byte(c.Token), &cs); err != nil {
			return err
		}
		at = append(at, cs...)
	}
	if len(from.Tokens) == 0 {
		// Reading begins at a time: at the first record of the range's partition.
		for i, p := range t.partitions {
			if p.KeyRange == from.KeyRange {
				at = []streamCursor{{p.KeyRange, i, 0}}
				break
			}
		}
	}
	if t.lost {
		return fallback.ErrLost
	}
	quiet := task.Mono(ctx)
	for {
		if err := task.Sleep(ctx, t.world.UpTo(300*time.Millisecond)); err != nil {
			return err
		}
		if t.failing || t.world.Chance(0.005) {
			return errors.New("the stream is cut")
		}
		var ready []int
		ended, foreign := true, false
		for i, c := range at {
			p := t.partitions[c.P]
			foreign = foreign || !p.closed && p.KeyRange != from.KeyRange
			if c.At < len(p.log) {
				ready = append(ready, i)
			}
			ended = ended && p.closed && c.At >= len(p.log)
		}
		switch {
		case len(ready) > 0:
			c := &at[ready[t.world.Rand().IntN(len(ready))]]
			log := t.partitions[c.P].log
			record := log[c.At]
			c.At++
			if !rangeHolds(c.KeyRange, record.key) {
				continue
			}
			if t.world.Chance(0.05) { // an earlier record again
				if old := log[t.world.Rand().IntN(c.At)]; rangeHolds(c.KeyRange, old.key) {
					if err := take(fallback.Record{Key: &old.key, Token: streamToken(at), Watermark: t.watermark(at)}); err != nil {
						return err
					}
				}
			}
			// This record must be delivered before its token: take is called with both.
			if err := take(fallback.Record{Key: &record.key, Token: streamToken(at), Watermark: t.watermark(at)}); err != nil {
				return err
			}
			quiet = task.Mono(ctx)
		case !ended && t.advance(&at):
		case ended, foreign:
			var children []checkpoint.Continuation
			for _, c := range at {
				children = append(children, t.children(c)...)
			}
			return take(fallback.Record{Closed: true, Children: children})
		case task.Mono(ctx)-quiet >= heartbeat:
			quiet = task.Mono(ctx)
			if err := take(fallback.Record{Token: streamToken(at), Watermark: t.watermark(at)}); err != nil {
				return err
			}
		}
	}
}

// advance moves cursors that are at the end of a closed partition to the partitions that follow. It
// reports whether there was one.
func (t *followedTable) advance(at *[]streamCursor) (moved bool) {
	var next []streamCursor
	for _, c := range *at {
		if p := t.partitions[c.P]; !p.closed || c.At < len(p.log) {
			next = append(next, c)
			continue
		}
		moved = true
		for _, child := range t.children(c) {
			var cs []streamCursor
			_ = json.Unmarshal([]byte(child.Token), &cs)
			next = append(next, cs...)
		}
	}
	*at = next
	return moved
}

// watermark returns a time before which no record follows.
func (t *followedTable) watermark(at []streamCursor) time.Time {
	low := t.world.Now().Add(-time.Second)
	for _, c := range t.pending {
		if c.at.Before(low) {
			low = c.at
		}
	}
	for _, c := range at {
		for _, r := range t.partitions[c.P].log[min(c.At, len(t.partitions[c.P].log)):] {
			if r.at.Before(low) {
				low = r.at
			}
		}
	}
	return low.Add(-time.Millisecond)
}

func (t *followedTable) Row(ctx context.Context, _ string, key string) ([]transform.Cell, error) {
	_ = task.Sleep(ctx, t.world.UpTo(50*time.Millisecond))
	value, ok := t.rows[key]
	_ = task.Sleep(ctx, t.world.UpTo(50*time.Millisecond))
	if err := context.Cause(ctx); err != nil || !ok {
		return nil, err
	}
	return []transform.Cell{{Family: "f", Qualifier: "v", Value: []byte(value)}}, nil
}

// items is the DynamoDB table of the model. Its servers' clocks differ.
type followingItems struct {
	world     *virtual.World
	values    map[string]string
	window    time.Duration
	execution time.Duration // longest time between admission and execution
	late      float64       // share of requests that are executed late
	lose      float64       // share of replies that are lost
	twice     float64       // share of requests that are executed twice
	log       []cdc.Change  // the stream: one shard, which never ends
	refuse    float64       // share of requests that are refused
}

// clock returns the time of one of the servers.
func (s *followingItems) clock() time.Time {
	return s.world.Now().Add(s.world.UpTo(30*time.Second) - 15*time.Second)
}

func followedKey(item attribute.Item) string { v, _ := item.Get("k"); return v.Text() }

func followedItem(key, value string) attribute.Item {
	return attribute.NewItem([]attribute.Attribute{{Name: "k", Value: attribute.String(key)}, {Name: "v", Value: attribute.String(value)}})
}

func (s *followingItems) Item(ctx context.Context, _ string, key attribute.Item) (attribute.Item, bool, error) {
	_ = task.Sleep(ctx, s.world.UpTo(50*time.Millisecond))
	value, ok := s.values[followedKey(key)]
	_ = task.Sleep(ctx, s.world.UpTo(50*time.Millisecond))
	if err := context.Cause(ctx); err != nil {
		return attribute.Item{}, false, err
	}
	if s.world.Chance(0.01) {
		return attribute.Item{}, false, errors.New("throttled")
	}
	return followedItem(followedKey(key), value), ok, nil
}

// again is the longest time between two executions of one request. The second one comes although
// the first was answered, so nothing waits for it. A rollback's minute of quiet must be longer.
const again = 30 * time.Second

func (s *followingItems) Write(ctx context.Context, _ string, w fallback.Write, signed time.Time) fallback.Answer {
	answer := make(map[bool]fallback.Answer, 1)
	event := task.NewEvent(ctx)
	s.world.After(s.world.UpTo(100*time.Millisecond), func() {
		if s.clock().Sub(signed) > s.window {
			s.world.Inject("signature too old")
			answer[true] = fallback.Answer{Outcome: fallback.Expired}
			event.Set()
			return
		}
		if s.world.Chance(s.refuse) {
			answer[true] = fallback.Answer{Outcome: fallback.Refused}
			event.Set()
			return
		}
		after := s.world.UpTo(50 * time.Millisecond)
		if s.world.Chance(s.late) {
			after = s.world.UpTo(s.execution)
			s.world.Inject("request to DynamoDB executed late")
		}
		if s.world.Chance(s.twice) {
			s.world.Inject("request to DynamoDB executed twice")
			s.world.After(after+s.world.UpTo(again), func() { s.execute(w) })
		}
		s.world.After(after, func() {
			answer[true] = s.execute(w)
			s.world.Tracef("write of %s signed %s: %v, item %q", followedKey(w.Key), signed, answer[true], s.values[followedKey(w.Key)])
			event.Set()
		})
	})
	if s.world.Chance(s.lose) {
		s.world.Inject("answer of DynamoDB lost")
		_ = task.Sleep(ctx, 2*time.Second)
		return fallback.Answer{}
	}
	_ = event.Wait(ctx)
	return answer[true] // Unknown if the context ended first
}

func (s *followingItems) execute(w fallback.Write) fallback.Answer {
	key := followedKey(w.Key)
	value, exists := s.values[key]
	if had, _ := w.Had.Get("v"); exists != w.Existed || exists && value != had.Text() {
		return fallback.Answer{Outcome: fallback.Changed}
	}
	to := ""
	for _, a := range w.Set {
		to = a.Value.Text()
	}
	s.set(key, to)
	return fallback.Answer{Outcome: fallback.Done}
}

// set changes an item; "" deletes it. The change can be read from the stream some time later.
func (s *followingItems) set(key, to string) {
	if s.values[key] = to; to == "" {
		delete(s.values, key)
	}
	at := s.world.Now().Truncate(time.Second)
	s.world.After(s.world.UpTo(5*time.Second), func() {
		number, _ := cdc.ParseSequenceNumber(fmt.Sprint(1000 + len(s.log)))
		s.log = append(s.log, cdc.Change{Event: cdc.Modify, Sequence: number, Time: at, Keys: followedItem(key, "")})
	})
}

func (s *followingItems) ListPage(ctx context.Context, _, _ string) (cdc.ListingPage, error) {
	_ = task.Sleep(ctx, s.world.UpTo(50*time.Millisecond))
	return cdc.ListingPage{Shards: []cdc.Shard{{ID: "shard"}}, At: s.clock()}, ctx.Err()
}

func (s *followingItems) Seek(ctx context.Context, _ string, from cdc.Position) (cdc.Iterator, error) {
	n := 0
	for n < len(s.log) && (from.AtHorizon() && s.trimmed(n) || !from.AtHorizon() && s.log[n].Sequence.Compare(from.After) <= 0) {
		n++
	}
	if !from.AtHorizon() && n > 0 && s.trimmed(n-1) {
		return "", model.Fail("GetShardIterator", cdc.Trimmed)
	}
	return cdc.Iterator(fmt.Sprint(n)), ctx.Err()
}

// trimmed reports whether the stream no longer keeps a change.
func (s *followingItems) trimmed(n int) bool {
	return s.world.Now().Sub(s.log[n].Time) > cdc.Retention
}

func (s *followingItems) Read(ctx context.Context, at cdc.Iterator) (cdc.Page, error) {
	_ = task.Sleep(ctx, s.world.UpTo(50*time.Millisecond))
	n := 0
	_, _ = fmt.Sscan(string(at), &n)
	page := cdc.Page{Changes: slices.Clone(s.log[n:]), Next: cdc.Iterator(fmt.Sprint(len(s.log))), At: s.clock()}
	return page, ctx.Err()
}

// followedForm maps the attribute v to the cell f:v.
type followedForm struct{}

func (followedForm) Key(row string) (attribute.Item, error) {
	if strings.HasPrefix(row, "bad") {
		return attribute.Item{}, errors.New("no key")
	}
	return attribute.NewItem([]attribute.Attribute{{Name: "k", Value: attribute.String(row)}}), nil
}

func (followedForm) Row(key attribute.Item) (string, error) { return followedKey(key), nil }

func (followedForm) Invert(row string, cells []transform.Cell) (attribute.Item, error) {
	if strings.HasPrefix(string(cells[0].Value), "?") {
		return attribute.Item{}, fmt.Errorf("column %s: no value", cells[0].Qualifier)
	}
	return followedItem(row, string(cells[0].Value)), nil
}

func (followedForm) Differences(item, row attribute.Item) (set []attribute.Attribute, remove []string) {
	a, _ := item.Get("v")
	if b, _ := row.Get("v"); a.Text() != b.Text() {
		set = append(set, attribute.Attribute{Name: "v", Value: b})
	}
	return set, nil
}

func (followedForm) Expired(item attribute.Item, _ time.Time) bool {
	v, _ := item.Get("v")
	return strings.HasPrefix(v.Text(), "expired")
}
