package fallback

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// adopt takes over the records of the partitions. It writes its epoch into each record, so that no
// late write of a former leader takes place afterwards. If there is no record, reading begins at the
// time of the way back's record.
func (r *term) adopt(ctx context.Context, f checkpoint.Fallback) error {
	records, err := r.Ledger.FallbackParts(ctx, r.Source)
	if err != nil {
		return err
	}
	current := records[:0]
	for _, p := range records {
		p.Epoch = r.held.Epoch()
		if err := r.Ledger.SaveFallbackPart(ctx, r.Source, &p); err != nil {
			return err
		}
		current = append(current, p)
	}
	for _, i := range markUsed(current) {
		if err := r.Ledger.SaveFallbackPart(ctx, r.Source, &current[i]); err != nil {
			return err
		}
	}
	keys, err := r.Ledger.FallbackParked(ctx, r.Source)
	if err != nil {
		return err
	}
	_, missing := hole(current)
	switch {
	case f.Begun != f.Attempt: // there are no records, or those of an earlier attempt
		if keys, err = nil, r.forget(ctx, keys); err != nil {
			return err
		}
	case !missing:
	// A former leader was killed while it began.
	case !allNew(current) && f.State != checkpoint.FallbackGap:
		return r.gap(ctx, errors.New("the records of the change stream's partitions are incomplete"))
	}
	if missing || f.Begun != f.Attempt {
		if current, err = r.start(ctx, current, f.From); err != nil {
			return err
		}
		if _, err = r.Ledger.UpdateFallback(ctx, r.Source, r.held.Epoch(), func(f *checkpoint.Fallback) error {
			if f.Attempt != r.attempt {
				return errOtherAttempt
			}
			f.Begun, f.Settled = f.Attempt, time.Time{}
			return nil
		}); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range current {
		r.parts[p.KeyRange] = &part{record: p}
	}
	for _, k := range keys {
		r.parked[string(k.Key)] = true
	}
	return nil
}

// forget removes the records of rows that were parked in an earlier attempt.
func (r *term) forget(ctx context.Context, keys []checkpoint.ParkedKey) error {
	for _, k := range keys {
		if err := r.Ledger.HealFallback(ctx, r.Source, string(k.Key)); err != nil {
			return err
		}
	}
	return nil
}

// allNew reports whether no partition has been read yet.
func allNew(records []checkpoint.FallbackPart) bool {
	return !slices.ContainsFunc(records, func(p checkpoint.FallbackPart) bool { return p.Closed || len(p.Tokens) > 0 })
}

// start writes the records of the partitions of now, which are read from a time on. Records of an
// earlier start that the service has split or merged since are closed.
func (r *term) start(ctx context.Context, had []checkpoint.FallbackPart, from time.Time) ([]checkpoint.FallbackPart, error) {
	ranges, err := r.Changes.Partitions(ctx, r.Table)
	if err != nil {
		return nil, fmt.Errorf("list the partitions of the change stream of %s: %w", r.Table, err)
	}
	var now []checkpoint.FallbackPart
	for _, p := range had {
		if !slices.Contains(ranges, p.KeyRange) {
			p.Closed, p.Tokens, p.Children = true, nil, nil
			if err := r.Ledger.SaveFallbackPart(ctx, r.Source, &p); err != nil {
				return nil, err
			}
			now = append(now, p)
		}
	}
	for _, kr := range ranges {
		p := checkpoint.FallbackPart{KeyRange: kr}
		if i := slices.IndexFunc(had, func(h checkpoint.FallbackPart) bool { return h.KeyRange == kr }); i >= 0 {
			p = had[i]
		}
		p.Epoch, p.From, p.Closed, p.Tokens, p.Children = r.held.Epoch(), from, false, nil, nil
		if err := r.Ledger.SaveFallbackPart(ctx, r.Source, &p); err != nil {
			return nil, err
		}
		now = append(now, p)
	}
	if at, missing := hole(now); missing {
		return nil, fmt.Errorf("the change stream of %s has no partition at %q", r.Table, at.Start)
	}
	return now, nil
}

// pass saves what was settled, begins partitions, and reads those that nobody reads.
func (r *term) pass(ctx context.Context) error {
	if err := r.save(ctx); err != nil {
		return err
	}
	if err := r.begin(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, record := range r.records() {
		kr, p := record.KeyRange, r.parts[record.KeyRange]
		if !p.record.Closed && !p.closed && !p.reading {
			p.reading = true
			r.tasks.Go("read a partition", func(ctx context.Context) error { return r.read(ctx, kr, p) })
		}
	}
	return nil
}

// records returns the records of all partitions, by range.
func (r *term) records() []checkpoint.FallbackPart {
	var all []checkpoint.FallbackPart
	for _, p := range r.parts {
		all = append(all, p.record)
	}
	slices.SortFunc(all, func(a, b checkpoint.FallbackPart) int {
		return strings.Compare(a.Start+"\x00"+a.End, b.Start+"\x00"+b.End)
	})
	return all
}

// begin begins the partitions whose continuations are complete. The record of the new partition is
// written first. Until its parents note that, markUsed finds it.
func (r *term) begin(ctx context.Context) error {
	r.mu.Lock()
	records := r.records()
	r.mu.Unlock()
	if err := r.saveUsed(ctx, records); err != nil {
		return err
	}
	now := task.Mono(ctx)
	all := begins(records, func(name string) bool {
		if _, known := r.first[name]; !known {
			r.first[name] = now
		}
		return now-r.first[name] >= r.times.Unused
	})
	for _, b := range all {
		r.mu.Lock()
		had := checkpoint.FallbackPart{}
		if p := r.parts[b.KeyRange]; p != nil {
			had = p.record
		}
		r.mu.Unlock()
		record := opened(b, had, r.held.Epoch())
		if err := r.Ledger.SaveFallbackPart(ctx, r.Source, &record); err != nil {
			return err
		}
		r.mu.Lock()
		r.parts[b.KeyRange] = &part{record: record}
		records = r.records()
		r.mu.Unlock()
		if err := r.saveUsed(ctx, records); err != nil {
			return err
		}
	}
	return nil
}

// saveUsed saves which continuations are used.
func (r *term) saveUsed(ctx context.Context, records []checkpoint.FallbackPart) error {
	for _, i := range markUsed(records) {
		if err := r.Ledger.SaveFallbackPart(ctx, r.Source, &records[i]); err != nil {
			return err
		}
		r.mu.Lock()
		r.parts[records[i].KeyRange].record = records[i]
		r.mu.Unlock()
	}
	return nil
}

// save writes the positions up to which everything is settled, and the closes behind which nothing
// waits (F4).
func (r *term) save(ctx context.Context) error {
	r.mu.Lock()
	parts := make([]*part, 0, len(r.parts))
	for _, record := range r.records() {
		parts = append(parts, r.parts[record.KeyRange])
	}
	r.mu.Unlock()
	settled, first := time.Time{}, true
	for _, p := range parts {
		if err := r.savePart(ctx, p); err != nil {
			return err
		}
		if done := p.record.Closed && !slices.ContainsFunc(p.record.Children, func(c checkpoint.Continuation) bool { return !c.Used }); !done {
			if at := p.record.Watermark; first || at.Before(settled) {
				settled, first = at, false
			}
		}
	}
	r.mu.Lock()
	parked, wrote := len(r.parked), r.wrote
	r.mu.Unlock()
	dirty, doubts := r.dirty.sizes()
	_, err := r.Ledger.UpdateFallback(ctx, r.Source, r.held.Epoch(), func(f *checkpoint.Fallback) error {
		if f.Attempt != r.attempt {
			return nil
		}
		was := *f
		f.Parked, f.Dirty, f.Doubts = parked, dirty, doubts
		if wrote.After(f.WroteAt) {
			f.WroteAt = wrote
		}
		if settled.After(f.Settled) {
			f.Settled = settled
		}
		// Figures without a change are written from time to time, because they show that a leader
		// lives.
		if now := r.Ledger.ServiceTime(ctx).UTC(); !reflect.DeepEqual(was, *f) || now.Sub(f.SavedAt) >= r.times.Heartbeat {
			f.SavedAt = now
		}
		return nil
	})
	return err
}

func (r *term) savePart(ctx context.Context, p *part) error {
	r.dirty.mu.Lock()
	m, rest := p.track.settled(), len(p.track.marks)
	r.dirty.mu.Unlock()
	next := p.record
	if m != nil && m.token != "" {
		next.Tokens = []checkpoint.Continuation{{KeyRange: next.KeyRange, Token: m.token}}
	}
	if m != nil && m.watermark.After(next.Watermark) {
		next.Watermark = m.watermark
	}
	r.mu.Lock()
	if p.closed && rest == 0 && !next.Closed {
		r.closes++
		next = closed(next, p.ended, r.held.Epoch(), r.closes)
	}
	r.mu.Unlock()
	if m == nil && next.Closed == p.record.Closed {
		return nil
	}
	if err := r.Ledger.SaveFallbackPart(ctx, r.Source, &next); err != nil {
		return err
	}
	r.mu.Lock()
	p.record = next
	r.mu.Unlock()
	return nil
}

// read reads one partition until it is closed. After a failure it continues at the last record that
// it has taken.
func (r *term) read(ctx context.Context, kr checkpoint.KeyRange, p *part) error {
	r.mu.Lock()
	place := Place{KeyRange: kr, Tokens: p.record.Tokens, From: p.record.From}
	r.mu.Unlock()
	for ctx.Err() == nil {
		err := r.Changes.Read(ctx, r.Table, place, r.times.Heartbeat, func(record Record) error {
			if record.Closed {
				slices.SortFunc(record.Children, func(a, b checkpoint.Continuation) int { return strings.Compare(a.Start, b.Start) })
				if !covers(record.Children, kr) {
					return fmt.Errorf("%w: a partition was closed, and what continues it does not cover it", ErrLost)
				}
				r.mu.Lock()
				p.closed, p.ended = true, record.Children
				r.mu.Unlock()
				return errClosed
			}
			for r.dirty.full() {
				if err := r.dirty.room.Wait(ctx, time.Second); err != nil {
					return err
				}
			}
			if record.Token != "" {
				place.Tokens = []checkpoint.Continuation{{KeyRange: kr, Token: record.Token}}
			}
			r.dirty.record(&p.track, record.Token, record.Watermark, record.Key)
			return nil
		})
		switch {
		case errors.Is(err, errClosed):
			return nil
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrLost):
			return r.gap(ctx, err)
		case err != nil:
			r.failed("read the change stream", err)
		}
		_ = task.Sleep(ctx, r.times.Retry)
	}
	return nil
}

// gap records that changes were lost, and reads the stream from now on.
func (r *term) gap(ctx context.Context, cause error) error {
	from := r.Ledger.ServiceTime(ctx).Add(-r.times.Before)
	_, err := r.Ledger.UpdateFallback(ctx, r.Source, r.held.Epoch(), func(f *checkpoint.Fallback) error {
		if f.State == checkpoint.FallbackStopping || f.State == checkpoint.FallbackStopped {
			return nil
		}
		if f.State != checkpoint.FallbackGap {
			f.State, f.Reason, f.Since = checkpoint.FallbackGap, cause.Error(), task.Now(ctx).UTC()
		}
		f.From = from
		return nil
	})
	if err != nil {
		return err
	}
	records, err := r.Ledger.FallbackParts(ctx, r.Source)
	if err == nil {
		_, err = r.start(ctx, records, from)
	}
	if err == nil {
		err = fmt.Errorf("the way back begins again: %w", cause)
	}
	return err // the next term reads the new records
}
