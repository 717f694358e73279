package checkpoint

import (
	"fmt"
	"slices"
	"time"
)

// CutoverStraggler is a change of a source table that the target lacks.
type CutoverStraggler struct {
	Table string    `json:"table"`
	Key   string    `json:"key"` // a hash
	At    time.Time `json:"at"`
	// Tail reports a late tail: the change is from before the end of the freeze's first second, but
	// the stream returned it only after the drain. Otherwise a straggler wrote after the freeze.
	Tail bool `json:"tail,omitempty"`
}

// CutoverUnwatched is a period after the freeze whose changes were not read from the streams.
// Writes to a source in that period went unnoticed.
type CutoverUnwatched struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	Why   string    `json:"why"`
}

// Watched ends the watch for stragglers.
func (c *Cutover) Watched(now time.Time) error {
	if c.Step != CutoverWatching || now.Sub(c.SwitchedAt) < c.WatchFor {
		return c.refuse("end the watch of", "the watch lasts until "+c.SwitchedAt.Add(c.WatchFor).Format(time.RFC3339))
	}
	c.enter(CutoverDone, now, "the watch is over")
	c.EndedAt = now.UTC()
	return nil
}

// Watch records that the streams were read up to a time. The argument `keeps` is the stream's
// retention. Changes that were made after the previous read were trimmed unread if they are older
// than keeps by then.
func (c *Cutover) Watch(at time.Time, keeps time.Duration) {
	from := later(c.WatchedTo, c.StraysFrom())
	if trimmed := at.Add(-keeps); trimmed.After(from) {
		c.Unwatch(from, trimmed, at, "no process read the streams until their records were trimmed")
	}
	c.WatchedTo = at.UTC()
}

// Unwatch records that no process read the changes made between the times `from` and `until`. The
// argument `at` is the current time.
func (c *Cutover) Unwatch(from, until, at time.Time, why string) {
	gap := CutoverUnwatched{from.UTC(), until.UTC(), why}
	c.Unwatched = append(slices.Clone(c.Unwatched), gap)
	c.Note(at, fmt.Sprintf("not watched from %s to %s: %s", gap.From.Format(time.RFC3339), gap.Until.Format(time.RFC3339), why))
}

// Unanswered returns the number of stragglers' changes and late tails that no operator has
// reviewed. Each such change is missing from the target.
func (c *Cutover) Unanswered() int { return max(c.Strays-c.StraysSeen, 0) }

// See records that an operator has reviewed n changes after the freeze; n must be the number of all
// such changes.
func (c *Cutover) See(n int, now time.Time) error {
	if n != c.Strays {
		return &CutoverError{Step: "answer the late writes of", Reason: fmt.Sprintf("there are %d, not %d", c.Strays, n), Cure: "review them again: replicator cutover status"}
	}
	if c.StraysSeen != n {
		c.StraysSeen = n
		c.Note(now, fmt.Sprintf("an operator has reviewed the late writes: %d", n))
	}
	return nil
}

// Stray records a change that the target lacks. It returns false if the change was recorded
// already.
func (c *Cutover) Stray(s CutoverStraggler) bool {
	if slices.Contains(c.Stragglers, s) {
		return false
	}
	c.Strays++
	if len(c.Stragglers) < mostStragglers {
		c.Stragglers = append(slices.Clone(c.Stragglers), s)
	}
	return true
}
