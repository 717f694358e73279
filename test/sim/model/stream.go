package model

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Call is part of every request: it takes time, may fail, and notices a caller that gave up.
func (t *Table) Call(ctx context.Context, op, shard string) error {
	if err := task.Sleep(ctx, t.world.Travel(t.Latency)); err != nil {
		return &cdc.Error{Op: op, Reason: cdc.Unavailable, Err: err}
	}
	if t.world.Chance(t.Silent) {
		t.world.Inject("no answer for minutes")
		_ = task.Sleep(ctx, t.world.UpTo(LongSilence))
		return Fail(op, cdc.Unavailable)
	}
	switch {
	case op == "GetRecords" && t.world.Chance(t.Expire):
		t.world.Inject("iterator expired")
		return Fail(op, cdc.Expired)
	case t.world.Chance(t.Throttle):
		t.world.Inject("call throttled")
		return Fail(op, cdc.Throttled)
	case t.world.Chance(t.Throttle):
		t.world.Inject("service unavailable")
		return Fail(op, cdc.Unavailable)
	}
	if t.Fault != nil {
		if err := t.Fault(op, shard); err != nil {
			t.world.Tracef("%s %s fails: %v", op, shard, err)
			return err
		}
	}
	return nil
}

// answer takes the time of the answer's way back.
func (t *Table) answer(ctx context.Context) error {
	if err := task.Sleep(ctx, t.world.Travel(t.Latency)); err != nil {
		return &cdc.Error{Op: "answer", Reason: cdc.Unavailable, Err: err}
	}
	return nil
}

// Fail returns an error as the service does.
func Fail(op string, reason cdc.Reason) error {
	return &cdc.Error{Op: op, Reason: reason, Err: errors.New("injected")}
}

// seen returns a change as the stream's view type shows it.
func (s *Stream) seen(c cdc.Change) cdc.Change {
	view := s.view()
	if view == "NEW_IMAGE" || view == "KEYS_ONLY" {
		c.Old = attribute.Item{}
	}
	if view == "OLD_IMAGE" || view == "KEYS_ONLY" {
		c.New = attribute.Item{}
	}
	return c
}

func (s *Stream) view() string {
	if s.View != "" {
		return s.View
	}
	return s.table.View
}

// Forgotten reports whether the service no longer knows the stream.
func (s *Stream) Forgotten() bool {
	return s.Ended && !s.table.KeepEnded && s.table.world.Now().Sub(s.endedAt) >= cdc.Retention
}

// Shard finds a shard by its id.
func (s *Stream) Shard(id string) *Shard {
	for _, sh := range s.Shards {
		if sh.ID == id {
			return sh
		}
	}
	return nil
}

func (s *Stream) readable(op, id string) (*Shard, error) {
	s.Trim(s.table.world.Now().Add(-cdc.Retention))
	sh := s.Shard(id)
	if sh == nil || sh.Gone {
		return nil, Fail(op, cdc.NotFound)
	}
	return sh, nil
}

// Seek implements cdc.Source.
func (s *Stream) Seek(ctx context.Context, shard string, from cdc.Position) (cdc.Iterator, error) {
	const op = "GetShardIterator"
	if err := s.table.Call(ctx, op, shard); err != nil {
		return "", err
	}
	sh, err := s.readable(op, shard)
	if err != nil {
		return "", err
	}
	index := horizon
	if s.table.PinHorizon {
		index = sh.Trimmed
	}
	if !from.AtHorizon() {
		index = sh.Trimmed
		if sh.Trimmed > 0 && from.After.Compare(sh.Records[sh.Trimmed-1].Change.Sequence) < 0 {
			return "", Fail(op, cdc.Trimmed)
		}
		for index < len(sh.Records) && sh.Records[index].Change.Sequence.Compare(from.After) <= 0 {
			index++
		}
		if index > 0 && sh.Records[index-1].Change.Sequence.Compare(from.After) == 0 && sh.Records[index-1].Change.Sequence != from.After {
			// A service may accept only tokens that it returned, digit by digit.
			return "", Fail(op, cdc.Malformed)
		}
		if s.table.world.Chance(s.table.Overlap) && index > sh.Trimmed {
			s.table.world.Inject("page with changes that were read before")
			index = max(sh.Trimmed, index-1-s.table.world.Rand().IntN(3))
		}
	}
	return s.iterator(sh, index), nil
}

func (s *Stream) iterator(sh *Shard, index int) cdc.Iterator {
	text := append(append(make([]byte, 0, 80), sh.ID...), '|')
	text = append(strconv.AppendInt(text, int64(index), 10), '|')
	return cdc.Iterator(strconv.AppendInt(text, int64(s.table.world.Elapsed()), 10))
}

// horizon is the position of an iterator that begins with the record that is the oldest at its
// first read.
const horizon = -1

// Read implements cdc.Source.
func (s *Stream) Read(ctx context.Context, at cdc.Iterator) (cdc.Page, error) {
	const op = "GetRecords"
	parts := strings.Split(string(at), "|")
	if len(parts) != 3 {
		return cdc.Page{}, Fail(op, cdc.Malformed)
	}
	if err := s.table.Call(ctx, op, parts[0]); err != nil {
		return cdc.Page{}, err
	}
	sh, err := s.readable(op, parts[0])
	if err != nil {
		return cdc.Page{}, err
	}
	index, errIndex := strconv.Atoi(parts[1])
	issued, errIssued := strconv.ParseInt(parts[2], 10, 64)
	if errIndex != nil || errIssued != nil {
		return cdc.Page{}, Fail(op, cdc.Malformed)
	}
	if s.table.world.Elapsed()-time.Duration(issued) > iteratorLife {
		s.table.world.Inject("iterator too old")
		return cdc.Page{}, Fail(op, cdc.Expired)
	}
	switch {
	case index == horizon:
		if index = sh.Trimmed; index > 0 {
			s.table.world.Inject("horizon after a trim, without an error")
		}
	case index < sh.Trimmed:
		return cdc.Page{}, Fail(op, cdc.Trimmed)
	}
	sh.ReadAt = s.table.world.Now()
	if sh.FirstRead.IsZero() {
		sh.FirstRead = sh.ReadAt
	}
	page := cdc.Page{At: sh.ReadAt.Truncate(time.Second)}
	if sh.EmptyPages > 0 {
		sh.EmptyPages--
		sh.EmptyAt = sh.ReadAt
		page.Next = s.iterator(sh, index)
		return page, nil
	}
	for index < len(sh.Records) && len(page.Changes) < min(s.table.PageSize, PageRecords) {
		page.Changes = append(page.Changes, s.seen(sh.Records[index].Change))
		index++
	}
	sh.Given = max(sh.Given, index)
	if sh.Closed && index == len(sh.Records) {
		page.End = true // together with its last records, as the service does
	} else {
		page.Next = s.iterator(sh, index)
	}
	if w := s.table.world; w.Tracing() {
		w.Tracef("gives %d records of %s, end %v", len(page.Changes), sh.ID, page.End)
	}
	return page, s.table.answer(ctx)
}
