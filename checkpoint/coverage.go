package checkpoint

import (
	"context"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// NotAdmissible says why a load would leave a hole between its images and the stream.
type NotAdmissible struct {
	Reason string
	// Yet tells that waiting mends it.
	Yet bool
}

func (e *NotAdmissible) Error() string { return "a load cannot begin yet: " + e.Reason }

// Roots are the shards of the stream whose coverage rests on their own first read: those that never had a parent's row. That rows of finished
// parents are removed makes no roots: a load may take longer than that.
func Roots(shards []Shard, label string) []Shard {
	known := map[string]bool{}
	for _, s := range shards {
		if s.Label == label {
			known[s.ID] = true
		}
	}
	var roots []Shard
	for _, s := range shards {
		if s.Label == label && !known[s.Parent] && !s.Inherited {
			roots = append(roots, s)
		}
	}
	return roots
}

// LabelTime is when the stream of a label was asked for; zero if the label does not say.
// Source: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_streams_StreamDescription.html
func LabelTime(label string) time.Time {
	at, err := time.Parse("2006-01-02T15:04:05.999", label)
	if err != nil {
		return time.Time{}
	}
	return at
}

// streamBegan is from when on the table's stream has every change: since it was asked for or, if it
// was seen being enabled, since it was first seen enabled. Zero if nothing says.
func (s TableState) streamBegan() time.Time { return later(LabelTime(s.Label), s.EnabledAt) }

// NoteEnabling notes whether a listing showed the stream of a label being enabled.
func (l *Ledger) NoteEnabling(ctx context.Context, source, label string, enabling bool, at time.Time) error {
	_, err := l.UpdateTable(ctx, source, func(s *TableState) error {
		switch {
		case s.Label != label || s.Enabling == enabling:
		case enabling:
			s.Enabling = true
		case !at.IsZero(): // else the next listing may say when it was
			s.Enabling, s.EnabledAt = false, at.UTC()
		}
		return nil
	})
	return err
}

// Admissible tells whether an image read at or after start may be applied in the table's generation: every change committed after
// that must be applied in it. The generation has to be adopted by all shards, every gap declared, and each root must have been read at the horizon
// early enough that what the stream kept then reaches back to start. Asked before a load, and again when it ends.
//
// Late is how long after its change the application may still write the target, 0 if it does not. An image is written once and exactly, so it
// must not be read before all writes have landed that belong to changes which this generation does not apply: from its adoption on, all
// are applied and settled.
func Admissible(table TableState, shards []Shard, start time.Time, late time.Duration) error {
	if table.Adopted != table.Generation {
		return &NotAdmissible{"not every shard has adopted the generation yet", true}
	}
	if table.Listed == 0 {
		return &NotAdmissible{"the stream has not been listed completely yet", true}
	}
	if late > 0 && table.GapCount > 0 && table.AdoptedAt.IsZero() {
		return &NotAdmissible{"the start of this generation is unknown yet", true}
	}
	if start.Before(table.AdoptedAt.Add(late)) && late > 0 {
		return &NotAdmissible{fmt.Sprintf("the application may still write rows of changes from before the generation, until %s after its adoption", late), true}
	}
	for _, s := range shards {
		if s.Undeclared(table) {
			return &NotAdmissible{fmt.Sprintf("the gap of shard %s is not declared yet", s.ID), true}
		}
	}
	if table.Enabling {
		return &NotAdmissible{"the stream is still being enabled", true}
	}
	var served time.Time // from then on the stream was read
	for _, s := range Roots(shards, table.Label) {
		if s.State == Gap {
			continue // its gap was declared: the generation began after it
		}
		served = earlier(served, s.FirstRead)
		if s.FirstRead.IsZero() {
			return &NotAdmissible{fmt.Sprintf("shard %s has not been read yet", s.ID), true}
		}
		if start.Before(s.FirstRead.Add(Slack - cdc.Retention)) {
			return &NotAdmissible{fmt.Sprintf("shard %s was first read more than a day after %s, the time of the images", s.ID, stampOf(start)), false}
		}
	}
	// No read shows a change that was made before there was a stream. What is read while the stream
	// already is needs no slack. A load that takes days outlives the rows of the roots: it was asked
	// when it began.
	began, early := table.streamBegan(), start.Before(served)
	if served.IsZero() {
		early = table.Load.Generation != table.Generation || table.Load.StartedAt.IsZero() || !table.Load.DoneAt.IsZero()
	}
	if early && !began.IsZero() && start.Before(began.Add(Slack)) {
		return &NotAdmissible{fmt.Sprintf("the images are of %s, but the stream began at %s and has every change from %s on: later images are needed", stampOf(start), stampOf(began), stampOf(began.Add(Slack))), false}
	}
	return nil
}
