package cdc

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// HorizonMargin shortens Retention: changes older than Retention less HorizonMargin count as
// trimmed. It covers differences between the clocks of one service, and rounding to whole seconds.
const HorizonMargin = 10 * time.Minute

// Reader reads one shard from a position on. It keeps the service's iterator between reads. It gets
// a new iterator if the caller's position is not the iterator's position. It is not safe for
// concurrent use. It does not retry. Its errors are *Error, and reading the same changes again is
// safe.
type Reader struct {
	Source Source
	Shard  string
	// Covered is an event time up to which every change of the shard's lineage is applied, or was
	// declared lost. For a child shard, it is the time that its ancestors cover. While the reader
	// is at the horizon, a listing that still shows the shard is no reason to advance Covered. Zero
	// means that nothing is covered, as for a root in the first listing. Then Covered begins with
	// the time of the first page.
	Covered time.Time
	// AppliedTo is the service's time up to which every change of the shard itself is applied. Read
	// advances it with the last page of a run of empty pages and with each empty page after that.
	// The shard's previous reader passes AppliedTo on; zero means that it is not known.
	AppliedTo time.Time
	// Changed is the event time of the last change at or before the applied position; zero if it is
	// not known. The caller must set it before Read.
	Changed time.Time

	iterator Iterator // "" if there is none
	at       Position // the iterator's position: after the last change of the previous page
	fresh    bool     // no page was read with this iterator yet
	aged     Position // a trimmed position; the horizon replaces it, because no later change is missing
	empty    int      // consecutive empty pages
}

// EmptyRun is how many consecutive empty pages prove that the shard had no change to read. Fewer
// pages prove nothing, because the service may return empty pages before a page with changes (H18).
// One more page is necessary for each emptyStep that the reader is behind, because the service
// walks through that time in empty pages.
const (
	EmptyRun  = 10
	emptyStep = 30 * time.Minute
)

// Read returns the page that follows the applied position. It holds only changes after that
// position, with rising sequence numbers. An expired iterator is replaced once within the call.
//
// At the horizon the service reports no error for trimmed changes. Instead, Read itself returns an
// error with reason Trimmed if changes later than Covered may be trimmed. The service may have
// trimmed the last change of an idle shard. If empty pages prove that no later change can be
// trimmed, Read continues from the horizon. Both decisions use only the time in the service's
// answers (H64).
func (r *Reader) Read(ctx context.Context, applied Position) (Page, error) {
	page, err := r.read(ctx, applied)
	if Is(err, Trimmed) && !r.atHorizon(applied) && !r.AppliedTo.IsZero() {
		r.iterator, r.aged = "", applied
		page, err = r.read(ctx, applied)
	}
	if Is(err, Expired) {
		page, err = r.read(ctx, applied)
	}
	if err != nil {
		return Page{}, r.named(err)
	}
	empty := len(page.Changes) == 0 && len(page.Canaries) == 0
	if page, err = r.check(page, applied); err != nil {
		r.iterator = ""
		return Page{}, r.named(err)
	}
	r.claim(page, empty)
	r.iterator, r.at, r.fresh = page.Next, applied, false
	if n := len(page.Changes); n > 0 {
		r.at = Position{page.Changes[n-1].Sequence}
	}
	return page, nil
}

// named adds the shard to the error of a record.
func (r *Reader) named(err error) error {
	if record, ok := errors.AsType[*RecordError](err); ok {
		record.Shard = r.Shard
	}
	return err
}

// read makes one attempt. After an error it keeps the iterator only if the error is transient.
func (r *Reader) read(ctx context.Context, applied Position) (Page, error) {
	if r.iterator == "" || r.at != applied {
		if err := r.seek(ctx, applied); err != nil {
			return Page{}, err
		}
	}
	page, err := r.Source.Read(ctx, r.iterator)
	if r.atHorizon(applied) && Is(err, Trimmed) {
		// The service may report that a record was trimmed before the first use of an iterator for
		// the horizon. That report shows no loss. The horizon is always the oldest kept change, and
		// the next seek uses Covered to check for a missing change. So the iterator counts as
		// expired, not as trimmed.
		err = &Error{opGetRecords, Expired, fmt.Errorf("the stream was trimmed under an iterator of the horizon: %w", err)}
	}
	if err == nil && r.fresh && r.atHorizon(applied) {
		err = r.horizon(page.At, applied)
	}
	if err != nil {
		// An unused iterator for the horizon is always discarded, so that the check of Covered
		// precedes every first read.
		passing := Is(err, Throttled) || Is(err, Unavailable)
		if !passing || r.fresh && r.atHorizon(applied) {
			r.iterator = ""
		}
		return Page{}, err
	}
	return page, nil
}

func (r *Reader) seek(ctx context.Context, applied Position) error {
	r.iterator = ""
	from := applied
	if r.atHorizon(applied) {
		from = Position{}
	}
	iterator, err := r.Source.Seek(ctx, r.Shard, from)
	if err != nil {
		return err
	}
	r.iterator, r.at, r.fresh = iterator, applied, true
	return nil
}

// atHorizon reports whether reading continues at the horizon for a position.
func (r *Reader) atHorizon(applied Position) bool { return applied.AtHorizon() || applied == r.aged }

// claim sets Covered to the time of the first page if Covered is zero. The ledger does the same for
// the shard's next reader. This is right, because the load covers everything before that page.
// Without a covered time, this reader could seek the horizon again after a day of throttling, and
// lost changes would go unnoticed (H75). A run of empty pages advances AppliedTo. A change older
// than AppliedTo resets it.
func (r *Reader) claim(page Page, empty bool) {
	if r.Covered.IsZero() {
		r.Covered = page.At
	}
	if !empty {
		r.empty = 0
		for _, c := range page.Changes {
			if !c.Time.IsZero() && c.Time.Before(r.AppliedTo.Add(-HorizonMargin)) {
				r.AppliedTo = time.Time{}
			}
		}
		return
	}
	if r.empty++; r.empty >= EmptyRun+int(r.behind(page.At)/emptyStep) && page.At.After(r.AppliedTo) {
		r.AppliedTo = page.At
	}
}

// behind returns for how long before `now` the shard may have changes that are not applied.
func (r *Reader) behind(now time.Time) time.Duration {
	known := r.Covered
	for _, t := range []time.Time{r.AppliedTo, r.Changed} {
		if t.After(known) {
			known = t
		}
	}
	return now.Sub(known)
}

// horizon returns an error if changes between the covered time and the oldest kept change may be
// trimmed. The argument `now` is the time of the first page (H75).
func (r *Reader) horizon(now time.Time, applied Position) error {
	covered, what, lost := r.Covered, "the shard's ancestors are applied", "first changes of the shard"
	switch {
	case !applied.AtHorizon():
		covered, what, lost = r.AppliedTo, "the shard is applied", "changes after that"
	case r.AppliedTo.After(covered) && !covered.IsZero():
		covered, what = r.AppliedTo, "the shard was found empty"
	}
	switch age := now.Sub(covered); {
	case covered.IsZero():
	case now.IsZero():
		return &Error{opGetRecords, Unavailable, errors.New("the answer has no time, which the check of the horizon needs")}
	case !applied.AtHorizon() && now.Sub(r.Changed) <= Retention-HorizonMargin:
		return &Error{opGetRecords, Trimmed, fmt.Errorf(
			"the shard is applied up to a change of %s, and DynamoDB trimmed it early; later changes may be lost",
			r.Changed.UTC().Format(time.RFC3339))}
	case age > Retention-HorizonMargin:
		return &Error{opGetRecords, Trimmed, fmt.Errorf("%s up to %s, %s ago, and the stream keeps %s, so %s may be lost",
			what, covered.UTC().Format(time.RFC3339), age.Truncate(time.Second), Retention, lost)}
	}
	return nil
}

// check verifies the order of a page, because a page that goes back in the shard would move the
// checkpoint back. It drops the change at the applied position itself, because that change is
// already applied. Changes below that position are allowed only in a page from the horizon. In a
// page from an iterator for the position, such changes show that the service restarted its numbers.
// They must not be dropped, because they would be lost.
func (r *Reader) check(page Page, applied Position) (Page, error) {
	if page.End != (page.Next == "") {
		return Page{}, malformed(opGetRecords, "an end and an iterator, or neither")
	}
	skip := 0
	for i, c := range page.Changes {
		switch order := c.Sequence.Compare(applied.After); {
		case c.Sequence.IsZero():
			return Page{}, unreadable("", errors.New("no sequence number"))
		case i > 0 && c.Sequence.Compare(page.Changes[i-1].Sequence) <= 0:
			return Page{}, unreadable(c.Sequence.String(), fmt.Errorf(
				"change %d of %d comes after sequence number %s", i+1, len(page.Changes), page.Changes[i-1].Sequence))
		case order < 0 && !r.atHorizon(applied):
			return Page{}, unreadable(c.Sequence.String(), fmt.Errorf(
				"its sequence number is below %s, up to which the shard is applied: did the service restart its numbers?", applied.After))
		case order <= 0:
			skip = i + 1
		}
	}
	page.Changes = page.Changes[skip:]
	return page, nil
}
