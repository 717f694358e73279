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
	// appliedEvery is how often a part checks in the ledger whether changes are applied.
	appliedEvery = time.Second
	// appliedWithin is how long a part waits for changes to be applied before it fails.
	appliedWithin = 15 * time.Minute
)

// NotApplied is returned if changes committed before the check of a row are not applied in time.
// Then the row cannot be judged.
type NotApplied struct {
	To     time.Time
	Waited time.Duration
}

func (e *NotApplied) Error() string {
	return fmt.Sprintf("changes made before %s are not applied after %s", e.To.UTC().Format(time.RFC3339), e.Waited.Round(time.Second))
}

// direction is the kind of findings that a pass looks for: missing and different rows, or extra and
// foreign rows. So no row is found by two passes.
type direction uint8

const (
	forwards   direction = iota // missing and different
	backwards                   // extra and foreign
	living                      // extra and foreign rows with a live version
	loose                       // the other extra and foreign rows
	everything                  // for a comparison that has only one pass
)

// Candidate is a row that differed at its first check and waits for another check.
type Candidate struct {
	Look
	wants   direction
	checked int       // how often it was checked again
	stays   []Finding // findings in flight whose version did not change between two checks
}

// suspect keeps a row for its second check (V1), if there is room (V5).
func (r *working) suspect(ctx context.Context, c Candidate) error {
	bounds := r.Bounds.orDefault()
	if r.kept >= bounds.Findings {
		for _, f := range c.Findings {
			Count(&r.at.Counts, f.Kind)
			r.at.LeftOut++
		}
		return nil
	}
	if len(r.waiting) == 0 {
		r.oldest = task.Mono(ctx)
	}
	r.waiting = append(r.waiting, c.brief())
	if len(r.waiting) >= bounds.Candidates {
		return r.confirm(ctx, within)
	}
	return nil
}

// moment reports whether a part is within a page. Within a page, a save would count the page's rows
// twice.
type moment bool

const (
	within  moment = false // within a page
	between moment = true  // between two pages, or after the last page
)

// confirm checks the waiting rows a second time. It checks a row again if the row's version has
// risen. Each round may wait long until changes are applied. So the rows are saved before each
// round, and another worker can resume the wait.
func (r *working) confirm(ctx context.Context, at moment) error {
	for len(r.waiting) > 0 {
		if at == between {
			if err := r.store(ctx); err != nil {
				return err
			}
		}
		again, err := r.round(ctx, r.waiting)
		if err != nil {
			return err
		}
		r.waiting, r.stored, r.instead = nil, 0, true
		for _, c := range again {
			if c.checked < rounds {
				r.waiting = append(r.waiting, c)
			} else {
				r.fly(c)
			}
		}
	}
	return nil
}

// round checks rows once more, and returns the rows with risen versions.
func (r *working) round(ctx context.Context, waiting []Candidate) (again []Candidate, err error) {
	waits, err := r.settle(ctx, waiting)
	if err != nil {
		return nil, err
	}
	if waits != nil {
		waiting = r.setAside(waiting, waits)
	} else if r.Settle > 0 {
		if waiting, err = r.uncleared(ctx, waiting); err == nil && len(waiting) > 0 {
			err = r.sleep(ctx, r.Settle)
		}
		if err != nil {
			return nil, err
		}
	}
	err = r.lookAgain(ctx, waiting, func(c Candidate, look Look) {
		if next, moved := r.second(c, look); moved {
			again = append(again, next)
		}
	})
	return again, err
}

// uncleared checks rows as soon as earlier changes are applied, and returns those that still need a
// check after Settle. Most rows differed at their first check only because a change was in flight.
// So most comparisons need not wait for Settle.
func (r *working) uncleared(ctx context.Context, waiting []Candidate) (left []Candidate, err error) {
	err = r.lookAgain(ctx, waiting, func(c Candidate, look Look) {
		if !r.clears(c, look) {
			left = append(left, c)
		}
	})
	return left, err
}

// clears reports whether a check finds no difference, and no row whose version is still the one
// that differed. Such a row was corrected by hand, and second counts it.
func (r *working) clears(c Candidate, look Look) bool {
	now := look.Verdict
	if r.narrow(&now, c); now.differs() {
		return false
	}
	return !slices.ContainsFunc(c.Findings, func(was Finding) bool {
		return was.Kind != Foreign && look.heldBy(was.Owner).version == was.Version
	})
}

// lookAgain checks the rows of candidates, in their order.
func (r *working) lookAgain(ctx context.Context, waiting []Candidate, each func(c Candidate, look Look)) error {
	places := make([]Place, len(waiting))
	for i, c := range waiting {
		places[i] = c.Place
	}
	return r.looks(ctx, places, func(look Look) error {
		each(waiting[0], look)
		waiting = waiting[1:]
		return nil
	})
}

// fly records a row as in flight: at every check, it was in flight or had a higher version than
// before.
func (r *working) fly(c Candidate) {
	for _, f := range c.stays {
		f.Kind = InFlight
		f.Reason = cmp.Or(f.Reason, "its change was not applied at any check")
		r.keep(f)
	}
	r.moving = append(r.moving, c)
}

// setAside records rows as in flight if they have changes that no process applies. It returns the
// other rows.
func (r *working) setAside(waiting []Candidate, waits func(Place) bool) (others []Candidate) {
	for _, c := range waiting {
		if !waits(c.Place) {
			others = append(others, c)
			continue
		}
		for _, f := range slices.Concat(c.Findings, c.pending) {
			f.Kind, f.Reason = InFlight, "the stream has an unapplied change of this item, and no worker reads the stream"
			r.keep(f)
		}
		r.moving = append(r.moving, c)
	}
	return others
}

// second compares two checks of a row. Before the second check, all changes that were committed
// before the end of the first check are applied. Each check reads a row before its items. So a row
// that differed and still has the same version has lost a change, even if its item has changed
// since. A row with a higher version than in the check `before` is checked again.
func (r *working) second(before Candidate, look Look) (next Candidate, moved bool) {
	next = Candidate{Look: look, wants: before.wants, checked: before.checked + 1}
	r.narrow(&next.Verdict, before)
	for _, was := range before.Findings {
		now := look.heldBy(was.Owner)
		i := slices.IndexFunc(next.Findings, func(f Finding) bool {
			return f.Owner == was.Owner && (f.Kind == Foreign) == (was.Kind == Foreign)
		})
		switch {
		case was.Kind == Foreign && i < 0, was.Kind != Foreign && now.version != was.Version:
			continue
		case i >= 0:
			r.keep(next.Findings[i])
			next.Findings = slices.Delete(next.Findings, i, i+1)
		case now.image != was.image: // if the image has changed, a person has corrected the row
			r.keep(was)
		}
	}
	for _, f := range next.pending {
		same := func(was Finding) bool { return was.Owner == f.Owner && was.Version == f.Version }
		if slices.ContainsFunc(before.pending, same) {
			next.stays = append(next.stays, f)
		}
	}
	return next.brief(), next.differs()
}

// brief returns the candidate without values.
func (c Candidate) brief() Candidate {
	for _, findings := range [][]Finding{c.Findings, c.pending, c.stays} {
		for i := range findings {
			findings[i] = findings[i].brief()
		}
	}
	return c
}

// keep counts a finding, and keeps it if there is room (V5).
func (r *working) keep(f Finding) {
	Count(&r.at.Counts, f.Kind)
	if r.kept >= r.Bounds.orDefault().Findings {
		r.at.LeftOut++
		return
	}
	r.kept++
	r.found = append(r.found, f.brief())
}

// differs reports whether a check found a difference, either final or in flight.
func (v Verdict) differs() bool { return len(v.Findings)+len(v.pending) > 0 }

// narrow reduces a verdict to the findings that the pass looks for.
func (r *working) narrow(v *Verdict, c Candidate) {
	for _, found := range []*[]Finding{&v.Findings, &v.pending} {
		*found = slices.DeleteFunc(slices.Clone(*found), func(f Finding) bool { return !r.seeks(f, c) })
	}
}

// seeks reports whether the candidate's pass looks for such a finding.
func (r *working) seeks(f Finding, c Candidate) bool {
	ofItem := f.Kind == Missing || f.Kind == Different
	switch {
	case c.wants == forwards:
		return ofItem && slices.ContainsFunc(c.Keys, f.Keys.Equal)
	case c.wants != everything && ofItem, c.wants == living && !f.lives(), c.wants == loose && f.lives():
		return false
	}
	var items []attribute.Item
	if f.Keys.Exists() {
		items = append(items, f.Keys)
	}
	return r.inSample(items, f.Table, f.Row)
}

// settle waits until all changes that were committed when the rows were first checked are applied.
// If no process applies changes, it returns a function that reports which rows wait for changes.
func (r *working) settle(ctx context.Context, waiting []Candidate) (waits func(Place) bool, err error) {
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
			return nil, err
		}
		if applied {
			break
		}
		if r.Unapplied != nil {
			if waits, err := r.Unapplied(ctx, to); err != nil || waits != nil {
				return waits, err
			}
		}
		if waited := task.Mono(ctx) - began; waited > cmp.Or(r.Patience, appliedWithin) {
			return nil, &NotApplied{to, waited}
		}
		if err := r.sleep(ctx, appliedEvery); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// sleep waits. It returns early with an error if the part must stop.
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

// lives reports whether the finding is an extra row with a live version. Sums of addresses detect
// such rows.
func (f Finding) lives() bool { return f.Kind == Extra && f.Live }
