package fallback

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
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// This file models both services as weakly as their documentation allows.

// change is a record in the log of a partition.
type change struct {
	key string
	at  time.Time // of the commit
}

// partition is a partition of the change stream of the model.
type partition struct {
	checkpoint.KeyRange
	log    []change
	closed bool
}

// cursor is a position in one partition, for a part of its range. A token is a list of them.
type cursor struct {
	checkpoint.KeyRange
	P, At int
}

// table is the Bigtable table of the model.
type table struct {
	world      *virtual.World
	rows       map[string]string
	partitions []*partition
	pending    []change             // committed, not readable yet
	readable   map[string]time.Time // when the last record of a row becomes readable
	failing    bool
	lost       bool // tokens are too old
}

func newTable(w *virtual.World) *table {
	return &table{world: w, rows: map[string]string{}, partitions: []*partition{{}}, readable: map[string]time.Time{}}
}

func holdsKey(r checkpoint.KeyRange, key string) bool { return key >= r.Start && before(key, r.End) }

// set changes a row; "" deletes it. The record can be read some time later, in the order of the row.
func (t *table) set(key, value string) {
	if t.rows[key] = value; value == "" {
		delete(t.rows, key)
	}
	at := t.world.Now()
	t.world.Tracef("row %s is %q", key, value)
	c := change{key, at}
	t.pending = append(t.pending, c)
	readable := at.Add(t.world.UpTo(20 * time.Second))
	if readable.Before(t.readable[key]) {
		readable = t.readable[key]
	}
	t.readable[key] = readable
	t.world.After(readable.Sub(at), func() {
		t.pending = slices.DeleteFunc(t.pending, func(p change) bool { return p == c })
		for _, p := range t.partitions {
			if !p.closed && holdsKey(p.KeyRange, key) {
				p.log = append(p.log, c)
			}
		}
	})
}

// now returns the index of the open partition of a key.
func (t *table) now(key string) int {
	return slices.IndexFunc(t.partitions, func(p *partition) bool { return !p.closed && holdsKey(p.KeyRange, key) })
}

// split or merge changes the partitions at a key.
func (t *table) reshape(at string) {
	p := t.partitions[t.now(at)]
	p.closed = true
	if at > p.Start {
		t.partitions = append(t.partitions, &partition{KeyRange: checkpoint.KeyRange{Start: p.Start, End: at}}, &partition{KeyRange: checkpoint.KeyRange{Start: at, End: p.End}})
		return
	}
	for _, left := range t.partitions {
		if !left.closed && left.End == p.Start && p.Start != "" {
			left.closed = true
			t.partitions = append(t.partitions, &partition{KeyRange: checkpoint.KeyRange{Start: left.Start, End: p.End}})
			return
		}
	}
	p.closed = false
}

func (t *table) Partitions(ctx context.Context, _ string) (all []checkpoint.KeyRange, err error) {
	_ = task.Sleep(ctx, t.world.UpTo(100*time.Millisecond))
	for _, p := range t.partitions {
		if !p.closed {
			all = append(all, p.KeyRange)
		}
	}
	return all, ctx.Err()
}

func intersect(a, b checkpoint.KeyRange) (checkpoint.KeyRange, bool) {
	r := checkpoint.KeyRange{Start: max(a.Start, b.Start), End: a.End}
	if before(b.End, a.End) {
		r.End = b.End
	}
	return r, r.End == "" || r.Start < r.End
}

// children returns what a partition that is read up to its end is closed with: the partitions that
// followed it then or those of now.
func (t *table) children(c cursor) (all []checkpoint.Continuation) {
	first := c.P + 1
	if !t.partitions[c.P].closed {
		first = c.P
	}
	seen := []checkpoint.KeyRange{}
	onlyNow := t.world.Chance(0.5)
	for i := first; i < len(t.partitions); i++ {
		p := t.partitions[i]
		r, common := intersect(c.KeyRange, p.KeyRange)
		again := slices.ContainsFunc(seen, func(s checkpoint.KeyRange) bool { _, is := intersect(s, r); return is })
		if !common || again || onlyNow && p.closed && i > c.P {
			continue
		}
		seen = append(seen, r)
		at := 0
		if i == c.P {
			at = c.At
		}
		all = append(all, checkpoint.Continuation{KeyRange: r, Into: p.KeyRange, Token: token([]cursor{{r, i, at}})})
	}
	return all
}

func token(cs []cursor) string { text, _ := json.Marshal(cs); return string(text) }

func (t *table) Read(ctx context.Context, _ string, from Place, heartbeat time.Duration, take func(Record) error) error {
	var at []cursor
	for _, c := range from.Tokens {
		var cs []cursor
		if err := json.Unmarshal([]byte(c.Token), &cs); err != nil {
			return err
		}
		at = append(at, cs...)
	}
	if len(from.Tokens) == 0 {
		// Reading begins at a time: at the first record of the range's partition.
		for i, p := range t.partitions {
			if p.KeyRange == from.KeyRange {
				at = []cursor{{p.KeyRange, i, 0}}
				break
			}
		}
	}
	if t.lost {
		return ErrLost
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
			if !holdsKey(c.KeyRange, record.key) {
				continue
			}
			if t.world.Chance(0.05) { // an earlier record again
				if old := log[t.world.Rand().IntN(c.At)]; holdsKey(c.KeyRange, old.key) {
					if err := take(Record{Key: &old.key, Token: token(at), Watermark: t.watermark(at)}); err != nil {
						return err
					}
				}
			}
			// This record must be delivered before its token: take is called with both.
			if err := take(Record{Key: &record.key, Token: token(at), Watermark: t.watermark(at)}); err != nil {
				return err
			}
			quiet = task.Mono(ctx)
		case !ended && t.advance(&at):
		case ended, foreign:
			var children []checkpoint.Continuation
			for _, c := range at {
				children = append(children, t.children(c)...)
			}
			return take(Record{Closed: true, Children: children})
		case task.Mono(ctx)-quiet >= heartbeat:
			quiet = task.Mono(ctx)
			if err := take(Record{Token: token(at), Watermark: t.watermark(at)}); err != nil {
				return err
			}
		}
	}
}

// advance moves cursors that are at the end of a closed partition to the partitions that follow. It
// reports whether there was one.
func (t *table) advance(at *[]cursor) (moved bool) {
	var next []cursor
	for _, c := range *at {
		if p := t.partitions[c.P]; !p.closed || c.At < len(p.log) {
			next = append(next, c)
			continue
		}
		moved = true
		for _, child := range t.children(c) {
			var cs []cursor
			_ = json.Unmarshal([]byte(child.Token), &cs)
			next = append(next, cs...)
		}
	}
	*at = next
	return moved
}

// watermark returns a time before which no record follows.
func (t *table) watermark(at []cursor) time.Time {
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

func (t *table) Row(ctx context.Context, _ string, key string) ([]transform.Cell, error) {
	_ = task.Sleep(ctx, t.world.UpTo(50*time.Millisecond))
	value, ok := t.rows[key]
	_ = task.Sleep(ctx, t.world.UpTo(50*time.Millisecond))
	if err := context.Cause(ctx); err != nil || !ok {
		return nil, err
	}
	return []transform.Cell{{Family: "f", Qualifier: "v", Value: []byte(value)}}, nil
}

// items is the DynamoDB table of the model. Its servers' clocks differ.
type items struct {
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
func (s *items) clock() time.Time {
	return s.world.Now().Add(s.world.UpTo(30*time.Second) - 15*time.Second)
}

func keyOf(item attribute.Item) string { v, _ := item.Get("k"); return v.Text() }

func itemOf(key, value string) attribute.Item {
	return attribute.NewItem([]attribute.Attribute{{Name: "k", Value: attribute.String(key)}, {Name: "v", Value: attribute.String(value)}})
}

func (s *items) Item(ctx context.Context, _ string, key attribute.Item) (attribute.Item, bool, error) {
	_ = task.Sleep(ctx, s.world.UpTo(50*time.Millisecond))
	value, ok := s.values[keyOf(key)]
	_ = task.Sleep(ctx, s.world.UpTo(50*time.Millisecond))
	if err := context.Cause(ctx); err != nil {
		return attribute.Item{}, false, err
	}
	if s.world.Chance(0.01) {
		return attribute.Item{}, false, errors.New("throttled")
	}
	return itemOf(keyOf(key), value), ok, nil
}

func (s *items) Write(ctx context.Context, _ string, w Write, signed time.Time) Answer {
	answer := make(map[bool]Answer, 1)
	event := task.NewEvent(ctx)
	s.world.After(s.world.UpTo(100*time.Millisecond), func() {
		if s.clock().Sub(signed) > s.window {
			answer[true] = Answer{Outcome: Expired}
			event.Set()
			return
		}
		if s.world.Chance(s.refuse) {
			answer[true] = Answer{Outcome: Refused}
			event.Set()
			return
		}
		after := s.world.UpTo(50 * time.Millisecond)
		if s.world.Chance(s.late) {
			after = s.world.UpTo(s.execution)
		}
		if s.world.Chance(s.twice) {
			s.world.After(after+s.world.UpTo(s.execution-after), func() { s.execute(w) })
		}
		s.world.After(after, func() {
			answer[true] = s.execute(w)
			s.world.Tracef("write of %s signed %s: %v, item %q", keyOf(w.Key), signed, answer[true], s.values[keyOf(w.Key)])
			event.Set()
		})
	})
	if s.world.Chance(s.lose) {
		_ = task.Sleep(ctx, 2*time.Second)
		return Answer{}
	}
	_ = event.Wait(ctx)
	return answer[true] // Unknown if the context ended first
}

func (s *items) execute(w Write) Answer {
	key := keyOf(w.Key)
	value, exists := s.values[key]
	if had, _ := w.Had.Get("v"); exists != w.Existed || exists && value != had.Text() {
		return Answer{Outcome: Changed}
	}
	to := ""
	for _, a := range w.Set {
		to = a.Value.Text()
	}
	s.set(key, to)
	return Answer{Outcome: Done}
}

// set changes an item; "" deletes it. The change can be read from the stream some time later.
func (s *items) set(key, to string) {
	if s.values[key] = to; to == "" {
		delete(s.values, key)
	}
	at := s.world.Now().Truncate(time.Second)
	s.world.After(s.world.UpTo(5*time.Second), func() {
		number, _ := cdc.ParseSequenceNumber(fmt.Sprint(1000 + len(s.log)))
		s.log = append(s.log, cdc.Change{Event: cdc.Modify, Sequence: number, Time: at, Keys: itemOf(key, "")})
	})
}

func (s *items) ListPage(ctx context.Context, _, _ string) (cdc.ListingPage, error) {
	_ = task.Sleep(ctx, s.world.UpTo(50*time.Millisecond))
	return cdc.ListingPage{Shards: []cdc.Shard{{ID: "shard"}}, At: s.clock()}, ctx.Err()
}

func (s *items) Seek(ctx context.Context, _ string, from cdc.Position) (cdc.Iterator, error) {
	n := 0
	for !from.AtHorizon() && n < len(s.log) && s.log[n].Sequence.Compare(from.After) <= 0 {
		n++
	}
	return cdc.Iterator(fmt.Sprint(n)), ctx.Err()
}

func (s *items) Read(ctx context.Context, at cdc.Iterator) (cdc.Page, error) {
	_ = task.Sleep(ctx, s.world.UpTo(50*time.Millisecond))
	n := 0
	_, _ = fmt.Sscan(string(at), &n)
	page := cdc.Page{Changes: slices.Clone(s.log[n:]), Next: cdc.Iterator(fmt.Sprint(len(s.log))), At: s.clock()}
	return page, ctx.Err()
}

// plainForm maps the attribute v to the cell f:v.
type plainForm struct{}

func (plainForm) Key(row string) (attribute.Item, error) {
	if strings.HasPrefix(row, "bad") {
		return attribute.Item{}, errors.New("no key")
	}
	return attribute.NewItem([]attribute.Attribute{{Name: "k", Value: attribute.String(row)}}), nil
}

func (plainForm) Row(key attribute.Item) (string, error) { return keyOf(key), nil }

func (plainForm) Invert(row string, cells []transform.Cell) (attribute.Item, error) {
	if strings.HasPrefix(string(cells[0].Value), "?") {
		return attribute.Item{}, fmt.Errorf("column %s: no value", cells[0].Qualifier)
	}
	return itemOf(row, string(cells[0].Value)), nil
}

func (plainForm) Differences(item, row attribute.Item) (set []attribute.Attribute, remove []string) {
	a, _ := item.Get("v")
	if b, _ := row.Get("v"); a.Text() != b.Text() {
		set = append(set, attribute.Attribute{Name: "v", Value: b})
	}
	return set, nil
}

func (plainForm) Expired(item attribute.Item, _ time.Time) bool {
	v, _ := item.Get("v")
	return strings.HasPrefix(v.Text(), "expired")
}
