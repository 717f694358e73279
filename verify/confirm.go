package verify

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

const (
	// appliedEvery is how often the ledger is asked whether changes are applied.
	appliedEvery = time.Second
	// appliedWithin is how long that may take before a part fails.
	appliedWithin = 15 * time.Minute
)

// NotApplied is returned when changes that were committed before a row was looked at are not
// applied for so long that nothing can be said of it.
type NotApplied struct {
	To     time.Time
	Waited time.Duration
}

func (e *NotApplied) Error() string {
	return fmt.Sprintf("changes made before %s are not applied after %s", e.To.UTC().Format(time.RFC3339), e.Waited.Round(time.Second))
}

// direction says which findings a pass looks for: rows of items, or what has no item. So nothing is
// found twice.
type direction uint8

const (
	forwards   direction = iota // missing and different
	backwards                   // extra and foreign
	living                      // of those what has a live version
	loose                       // and what has not
	everything                  // of a pass that is the only one
)

// candidate is a row that differed at its first look.
type candidate struct {
	Look
	wants direction
}

// flies reports whether the row is in flight, as far as its pass looks.
func (c candidate) flies() bool {
	switch c.wants {
	case forwards:
		return c.InFlight
	case everything:
		return c.InFlight || c.Leaving
	}
	return c.Leaving
}

// suspect keeps a row for its second look (V1), as many as there is room for (V5).
func (r *working) suspect(ctx context.Context, c candidate) error {
	bounds := r.Bounds.orDefault()
	if r.kept >= bounds.Findings {
		for _, f := range c.Findings {
			count(&r.at.Counts, f.Kind)
			r.at.LeftOut++
		}
		return nil
	}
	if len(r.waiting) == 0 {
		r.oldest = task.Mono(ctx)
	}
	for i := range c.Findings {
		c.Findings[i].Columns = nil // the second look reads them again
	}
	r.waiting = append(r.waiting, c)
	if len(r.waiting) >= bounds.Candidates {
		return r.confirm(ctx)
	}
	return nil
}

// confirm takes second looks at what waits.
func (r *working) confirm(ctx context.Context) error {
	waiting := r.waiting
	r.waiting = nil
	for round := 0; len(waiting) > 0 && round < rounds; round++ {
		if err := r.settle(ctx, waiting); err != nil {
			return err
		}
		var again []candidate
		for batch := range slices.Chunk(waiting, r.Bounds.orDefault().PageRows) {
			places := make([]Place, len(batch))
			for i, c := range batch {
				places[i] = c.Place
			}
			looks, err := r.Comparison.Look(ctx, places...)
			if err != nil {
				return err
			}
			for i, look := range looks {
				if next, moved := r.second(batch[i], look); moved {
					again = append(again, next)
				}
			}
		}
		waiting = again
	}
	r.at.InFlight += int64(len(waiting))
	r.moving = append(r.moving, waiting...)
	return nil
}

// second compares two looks at a row. What differs at the version that it had, while its item is as
// it was, is found; what moved on meanwhile is looked at again: a row that the first look saw newer
// than its item may lack a change of after that.
func (r *working) second(before candidate, look Look) (next candidate, moved bool) {
	next = candidate{look, before.wants}
	r.narrow(&next.Verdict, before)
	next.Findings = slices.DeleteFunc(next.Findings, func(f Finding) bool {
		same := func(o Finding) bool {
			return o.Owner == f.Owner && o.Version == f.Version && o.image == f.image && (o.Kind == Foreign) == (f.Kind == Foreign)
		}
		if !slices.ContainsFunc(before.Findings, same) {
			return false
		}
		count(&r.at.Counts, f.Kind)
		if r.kept >= r.Bounds.orDefault().Findings {
			r.at.LeftOut++
		} else {
			r.kept++
			r.found = append(r.found, f)
		}
		return true
	})
	return next, len(next.Findings) > 0 || next.flies()
}

// narrow leaves of a verdict what the pass looks for.
func (r *working) narrow(v *Verdict, c candidate) {
	v.Findings = slices.DeleteFunc(slices.Clone(v.Findings), func(f Finding) bool {
		ofItem := f.Kind == Missing || f.Kind == Different
		switch {
		case c.wants == forwards:
			return !ofItem || !slices.ContainsFunc(c.Keys, f.Keys.Equal)
		case c.wants != everything && ofItem, c.wants == living && !f.lives(), c.wants == loose && f.lives():
			return true
		}
		var items []attribute.Item
		if f.Keys.Exists() {
			items = append(items, f.Keys)
		}
		return !r.inSample(items, f.Table, f.Row)
	})
}

// settle waits until everything that was committed when the rows were first looked at is applied,
// and for the time after that.
func (r *working) settle(ctx context.Context, waiting []candidate) error {
	var to time.Time
	for _, c := range waiting {
		if c.At.After(to) {
			to = c.At
		}
	}
	began := task.Mono(ctx)
	for r.Applied != nil {
		applied := false
		err := r.retry(ctx, func(ctx context.Context) (err error) { applied, err = r.Applied(ctx, to); return err })
		if err != nil {
			return err
		}
		if applied {
			break
		}
		if waited := task.Mono(ctx) - began; waited > cmp.Or(r.Patience, appliedWithin) {
			return &NotApplied{to, waited}
		}
		if err := r.sleep(ctx, appliedEvery); err != nil {
			return err
		}
	}
	if r.Settle > 0 {
		return r.sleep(ctx, r.Settle)
	}
	return nil
}

// sleep waits, unless the part is to be left.
func (r *working) sleep(ctx context.Context, d time.Duration) error {
	until := ctx
	if r.Drain != nil {
		until = r.Drain
	}
	err := task.Sleep(until, d)
	if left := r.leave(ctx); left != nil {
		return left
	}
	return err
}

// lives reports whether a row is extra by a live version, which sums of addresses show.
func (f Finding) lives() bool { return f.Kind == Extra && f.Live }
