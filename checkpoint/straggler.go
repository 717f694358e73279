package checkpoint

import (
	"fmt"
	"slices"
	"time"
)

// CutoverStraggler is a change of a source that was made after it was frozen.
type CutoverStraggler struct {
	Table string    `json:"table"`
	Key   string    `json:"key"` // a hash
	At    time.Time `json:"at"`
}

// CutoverUnwatched is a time after the freeze of which the streams were not read: whoever wrote to a
// source then was not seen.
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

// Watch notes that the streams were read up to a time. What was written more than keeps before it, and
// after they were read last, is trimmed, and was not seen.
func (c *Cutover) Watch(at time.Time, keeps time.Duration) {
	from := later(c.WatchedTo, c.FrozenAt)
	if trimmed := at.Add(-keeps); trimmed.After(from) {
		c.Unwatch(from, trimmed, at, "no process read the streams until their records were trimmed")
	}
	c.WatchedTo = at.UTC()
}

// Unwatch notes at a time that nobody read what was written between two others.
func (c *Cutover) Unwatch(from, until, at time.Time, why string) {
	gap := CutoverUnwatched{from.UTC(), until.UTC(), why}
	c.Unwatched = append(slices.Clone(c.Unwatched), gap)
	c.Note(at, fmt.Sprintf("not watched from %s to %s: %s", gap.From.Format(time.RFC3339), gap.Until.Format(time.RFC3339), why))
}

// Stray notes a change that somebody made after the freeze; false if it was noted already.
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
