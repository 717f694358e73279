package cdc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// HorizonMargin is how much earlier than Retention the oldest changes of a stream count as trimmed. It covers what the
// clocks of the worker and the service differ by, and that times are whole seconds.
const HorizonMargin = 10 * time.Minute

// Reader reads one shard from a position on. It keeps the service's iterator between reads and gets a new one whenever the
// position it is told is not where the iterator stands. It is not safe for concurrent use, and it does not retry: its
// errors are *Error, and what was read before is safe to read again.
type Reader struct {
	Source Source
	Shard  string
	// Covered is an event time up to which every change of the shard's lineage is applied, or was declared lost: for a child,
	// what its ancestors cover. It must not move on while the shard itself stands at the horizon, only because the shard is
	// still listed. Zero claims nothing, as for a root in the first listing: then what the first page saw is claimed from that page on.
	Covered time.Time

	iterator Iterator // "" if there is none
	at       Position // where the iterator stands: after the last change of the page before
	fresh    bool     // no page was read with an iterator of this seek yet
}

// Read returns the page that follows the applied position. It holds only changes after that position, with rising sequence
// numbers. An iterator that expired is replaced once within the call.
//
// At the horizon the service gives no error for what it trimmed. There Read itself returns an error with the reason Trimmed
// when changes later than Covered may be gone.
func (r *Reader) Read(ctx context.Context, applied Position) (Page, error) {
	page, err := r.read(ctx, applied)
	if Is(err, Expired) {
		page, err = r.read(ctx, applied)
	}
	if err != nil {
		return Page{}, err
	}
	if page, err = r.check(page, applied); err != nil {
		r.iterator = ""
		return Page{}, err
	}
	r.claim(ctx, page)
	r.iterator, r.at, r.fresh = page.Next, applied, false
	if n := len(page.Changes); n > 0 {
		r.at = Position{page.Changes[n-1].Sequence}
	}
	return page, nil
}

// read is one attempt. After an error the iterator is kept only where the service took nothing amiss but the moment.
func (r *Reader) read(ctx context.Context, applied Position) (Page, error) {
	if r.iterator == "" || r.at != applied {
		if err := r.seek(ctx, applied); err != nil {
			return Page{}, err
		}
	}
	page, err := r.Source.Read(ctx, r.iterator)
	if applied.AtHorizon() && Is(err, Trimmed) {
		// The service may tell that a record was trimmed under the iterator before it was used. Nothing is lost by that: the horizon is whatever is the
		// oldest, and whether what is missing there was needed is judged by Covered alone, with the next seek. The iterator is outrun, no more.
		err = &Error{opGetRecords, Expired, fmt.Errorf("the stream was trimmed under an iterator of the horizon: %w", err)}
	}
	if err == nil && r.fresh && applied.AtHorizon() {
		// Once more after the answer: this worker may have stood still since the iterator was given, and its clock may be
		// behind the service's, which the answer tells.
		now := task.Now(ctx)
		if page.At.After(now) {
			now = page.At
		}
		err = r.horizon(now, opGetRecords)
	}
	if err != nil {
		// A horizon iterator that was not used yet is given up in any case, so that the check stands before each first read.
		passing := Is(err, Throttled) || Is(err, Unavailable)
		if !passing || r.fresh && applied.AtHorizon() {
			r.iterator = ""
		}
		return Page{}, err
	}
	return page, nil
}

func (r *Reader) seek(ctx context.Context, applied Position) error {
	r.iterator = ""
	if applied.AtHorizon() {
		if err := r.horizon(task.Now(ctx), opGetShardIterator); err != nil {
			return err
		}
	}
	iterator, err := r.Source.Seek(ctx, r.Shard, applied)
	if err != nil {
		return err
	}
	r.iterator, r.at, r.fresh = iterator, applied, true
	return nil
}

// claim begins coverage with the first page, as the ledger does for whoever reads the shard next: what is loaded, or was there before, rests on
// it. Else this reader could seek the horizon anew after a day of throttles, and nothing would tell what is gone (H75).
func (r *Reader) claim(ctx context.Context, page Page) {
	if !r.Covered.IsZero() {
		return
	}
	if r.Covered = page.At; page.At.IsZero() {
		r.Covered = task.Now(ctx)
	}
}

// horizon refuses the horizon when what lies between Covered and the oldest kept change may be trimmed at the time now (H75).
func (r *Reader) horizon(now time.Time, op string) error {
	if r.Covered.IsZero() {
		return nil
	}
	if age := now.Sub(r.Covered); age > Retention-HorizonMargin {
		return &Error{op, Trimmed, fmt.Errorf(
			"the shard's ancestors are applied up to %s, %s ago, and the stream keeps %s: first changes of the shard may be gone",
			r.Covered.UTC().Format(time.RFC3339), age.Truncate(time.Second), Retention)}
	}
	return nil
}

// check holds a page to the order that everything after it rests on: a page that goes back would move the checkpoint back.
// Changes that are applied already are left out.
func (r *Reader) check(page Page, applied Position) (Page, error) {
	if page.End != (page.Next == "") {
		return Page{}, malformed(opGetRecords, "an end and an iterator, or neither")
	}
	skip := 0
	for i, c := range page.Changes {
		if i > 0 && c.Sequence.Compare(page.Changes[i-1].Sequence) <= 0 {
			return Page{}, &Error{opGetRecords, Malformed, fmt.Errorf(
				"change %d of %d has the sequence number %s after %s", i+1, len(page.Changes), c.Sequence, page.Changes[i-1].Sequence)}
		}
		if c.Sequence.IsZero() {
			return Page{}, &Error{opGetRecords, Malformed, errors.New("a change without a sequence number")}
		}
		if c.Sequence.Compare(applied.After) <= 0 {
			skip = i + 1
		}
	}
	page.Changes = page.Changes[skip:]
	return page, nil
}
