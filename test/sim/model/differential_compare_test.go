package model

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// outcome returns the meaning of an error for its caller, or "".
func outcome(err error) string {
	if err == nil {
		return ""
	}
	var e *cdc.Error
	if !errors.As(err, &e) {
		return "an error that is no *cdc.Error"
	}
	return e.Op + ": " + e.Reason.String()
}

// Intended differences. The model trims exactly, so a gap is declared only where there is one, and
// a checker can require this. The embedded service is as careful as a real service may be. And for
// an old iterator of a shard that no longer exists, two errors are both correct.
const (
	behindLastTrimmed = "a position right behind the last trimmed change"
	goneBeforeExpired = "an old iterator of a shard that is gone"
)

// seek gets an iterator for the horizon, or for the position after a change that was read before.
func (l *life) seek(horizon bool) {
	p, id := l.anyShard()
	var here, there cdc.Position
	if seen := p.seen[id]; !horizon && len(seen) > 0 {
		at := seen[l.random.IntN(len(seen))]
		here, there = cdc.Position{After: at.here}, cdc.Position{After: at.there}
	}
	c := &cursor{pair: p, shard: id}
	var errHere, errThere error
	c.there, errThere = p.other.Seek(l.t.Context(), p.shards[id], there)
	c.here, errHere = outside{l.world, p.model}.Seek(l.t.Context(), id, here)
	switch {
	case errHere == nil && cdc.Is(errThere, cdc.Trimmed) && p.lastTrimmed(id) == here.After:
		l.done[behindLastTrimmed]++
	case outcome(errHere) != outcome(errThere):
		l.fail("seek in %s: %v here, %v there", id, errHere, errThere)
	case errHere != nil:
		l.failed(errHere)
	default:
		l.cursors = append(l.cursors, c)
	}
}

func (p *pair) lastTrimmed(id string) cdc.SequenceNumber {
	if sh := p.model.Shard(id); sh.Trimmed > 0 {
		return sh.Records[sh.Trimmed-1].Change.Sequence
	}
	return cdc.SequenceNumber{}
}

func (l *life) failed(err error) {
	for reason, event := range map[cdc.Reason]string{cdc.Expired: "iterator expired", cdc.Trimmed: "trimmed", cdc.NotFound: "not found"} {
		if cdc.Is(err, reason) {
			l.done[event]++
		}
	}
}

// read reads a page with an iterator. Afterwards the iterator advances, or is kept for another use.
func (l *life) read() {
	if len(l.cursors) == 0 {
		l.seek(true)
		return
	}
	i := l.random.IntN(len(l.cursors))
	next := l.page(l.cursors[i])
	switch {
	case next == nil:
		l.cursors = slices.Delete(l.cursors, i, i+1)
	case l.random.IntN(8) > 0:
		l.cursors[i] = next
	}
}

// page reads a page on both sides and returns the next iterator, or nil if the shard ended or the
// iterator is no longer valid.
func (l *life) page(c *cursor) *cursor {
	p := c.pair
	there, errThere := p.other.Read(l.t.Context(), c.there)
	here, errHere := outside{l.world, p.model}.Read(l.t.Context(), c.here)
	if cdc.Is(errHere, cdc.NotFound) && cdc.Is(errThere, cdc.Expired) {
		l.done[goneBeforeExpired]++
		return nil
	}
	if outcome(errHere) != outcome(errThere) {
		l.fail("read of %s: %v here, %v there", c.shard, errHere, errThere)
	}
	if errHere != nil {
		l.failed(errHere)
		return nil
	}
	if a, b := show(here), show(there); a != b {
		l.fail("a page of %s\nhere:\n%s\nthere:\n%s", c.shard, a, b)
	}
	for i := range here.Changes {
		l.twin(p, c.shard, twin{here.Changes[i].Sequence, there.Changes[i].Sequence})
		if i > 0 && (here.Changes[i-1].Sequence.Compare(here.Changes[i].Sequence) >= 0 || there.Changes[i-1].Sequence.Compare(there.Changes[i].Sequence) >= 0) {
			l.fail("numbers of %s do not rise", c.shard)
		}
	}
	event := "page"
	if len(here.Changes) == 0 {
		event = "empty page"
	}
	l.done[event]++
	if here.End {
		l.done["end"]++
		return nil
	}
	return &cursor{pair: p, shard: c.shard, here: here.Next, there: there.Next}
}

// twin records that two numbers identify the same change. Later reads must agree.
func (l *life) twin(p *pair, shard string, t twin) {
	key := shard + "/" + t.here.String()
	known, ok := p.twins[key]
	if !ok {
		p.twins[key] = t.there
		p.seen[shard] = append(p.seen[shard], t)
	} else if known != t.there {
		l.fail("number %s of %s was %s there, and is %s", t.here, shard, known, t.there)
	}
}

// show formats a page, without numbers and iterators. It may show item data, because these items
// are invented.
func show(p cdc.Page) string {
	var b strings.Builder
	fmt.Fprintf(&b, "at %s, end %v, next %v", p.At.UTC(), p.End, p.Next != "")
	for _, c := range p.Changes {
		text, err := cdc.MarshalChange(cdc.Change{Event: c.Event, Sequence: cdc.SequenceOf(1), Time: c.Time, Keys: c.Keys, Old: c.Old, New: c.New, Expired: c.Expired})
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(&b, "\n%s", text)
	}
	return b.String()
}

// list compares the complete listing of a stream, or the children of a shard.
func (l *life) list() {
	p, id := l.anyShard()
	parent, parentThere := "", ""
	if l.random.IntN(3) == 0 {
		parent, parentThere = id, p.shards[id]
	}
	there, errThere := cdc.ListShards(l.t.Context(), p.other, parentThere)
	here, errHere := cdc.ListShards(l.t.Context(), outside{l.world, p.model}, parent)
	if outcome(errHere) != outcome(errThere) {
		l.fail("listing: %v here, %v there", errHere, errThere)
	}
	if errHere != nil {
		l.done["ended stream not found"]++
		return
	}
	if here.Ended != there.Ended || !here.At.Equal(there.At) {
		l.fail("listing: ended %v at %s here, ended %v at %s there", here.Ended, here.At, there.Ended, there.At)
	}
	for i, sh := range here.Shards {
		here.Shards[i].ID, here.Shards[i].Parent = p.shards[sh.ID], p.shards[sh.Parent]
	}
	byID := func(a, b cdc.Shard) int { return strings.Compare(a.ID, b.ID) }
	slices.SortFunc(here.Shards, byID)
	slices.SortFunc(there.Shards, byID)
	if !slices.Equal(here.Shards, there.Shards) {
		l.fail("listing\nhere:  %+v\nthere: %+v", here.Shards, there.Shards)
	}
	if parent != "" && len(here.Shards) > 0 {
		l.done["children listed"]++
	}
	if parent == "" && len(here.Shards) < len(p.model.Shards) {
		l.done["shard forgotten"]++
	}
}

// readAll reads every shard of every stream from the horizon to its end, or until there are no more
// changes.
func (l *life) readAll() {
	l.other.clock.Store(l.world.Now().UnixNano())
	for _, p := range l.streams {
		for _, sh := range p.model.Shards {
			here, errHere := outside{l.world, p.model}.Seek(l.t.Context(), sh.ID, cdc.Position{})
			there, errThere := p.other.Seek(l.t.Context(), p.shards[sh.ID], cdc.Position{})
			if outcome(errHere) != outcome(errThere) {
				l.fail("seek in %s at last: %v here, %v there", sh.ID, errHere, errThere)
			}
			if errHere != nil {
				continue
			}
			c := &cursor{pair: p, shard: sh.ID, here: here, there: there}
			for range 10 {
				if c = l.page(c); c == nil {
					break
				}
			}
		}
	}
}
