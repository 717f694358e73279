package checkpoint

import (
	"context"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// NotAdmissible explains why a load would leave a hole between its images and the changes of the
// stream.
type NotAdmissible struct {
	Reason string
	// Yet reports that the load may become admissible later.
	Yet bool
}

func (e *NotAdmissible) Error() string { return "a load cannot begin yet: " + e.Reason }

// Roots returns the stream's root shards. A root is a shard whose parent never had a row, so it
// inherited no coverage. A child does not become a root when the row of its finished parent is
// removed, which may happen during a long load.
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

// LabelTime returns when the stream with the label was requested; zero if the label has no time.
// Source:
// https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_streams_StreamDescription.html
func LabelTime(label string) time.Time {
	at, err := time.Parse("2006-01-02T15:04:05.999", label)
	if err != nil {
		return time.Time{}
	}
	return at
}

// streamBegan returns the time from which the table's stream has every change; zero if unknown. It
// is the time at which the stream was requested. If a listing showed the stream being enabled, it
// is the time of the first listing that showed it enabled.
func (s TableState) streamBegan() time.Time { return later(LabelTime(s.Label), s.EnabledAt) }

// NoteEnabling records whether a listing showed that the stream was being enabled.
func (l *Ledger) NoteEnabling(ctx context.Context, source, label string, enabling bool, at time.Time) error {
	_, err := l.UpdateTable(ctx, source, func(s *TableState) error {
		switch {
		case s.Label != label || s.Enabling == enabling:
		case enabling:
			s.Enabling = true
		case !at.IsZero(): // without a time, wait for the next listing
			s.Enabling, s.EnabledAt = false, at.UTC()
		}
		return nil
	})
	return err
}

// Admissible returns nil if images that are read at the time `start` or later may be applied in the
// table's generation. That is so if the generation applies every change that is committed after
// `start`. All shards must have adopted the generation, and every gap must be declared. Each root
// must have been read from the horizon while the stream still kept all changes since `start`. The
// caller must check this before a load, and again when the load ends.
//
// The argument `late` bounds how long after a change the application may still write that change to
// the target. It is 0 if the application does not write the target. An image is written only once.
// So it must be read after the application has written all changes that this generation does not
// apply. From its adoption on, the generation applies and settles every change.
func Admissible(table TableState, shards []Shard, start time.Time, late time.Duration) error {
	if table.Adopted != table.Generation {
		return &NotAdmissible{"not every shard has adopted the generation yet", true}
	}
	if table.Listed == 0 {
		return &NotAdmissible{"the stream has not been listed completely yet", true}
	}
	if late > 0 && table.GapCount > 0 && table.AdoptedAt.IsZero() {
		return &NotAdmissible{"the start of this generation is not known yet", true}
	}
	if start.Before(table.AdoptedAt.Add(late)) && late > 0 {
		return &NotAdmissible{fmt.Sprintf("the application may still write rows for changes before the generation, until %s after its adoption", late), true}
	}
	for _, s := range shards {
		if s.Undeclared(table) {
			return &NotAdmissible{fmt.Sprintf("the gap of shard %s is not declared yet", s.ID), true}
		}
	}
	if table.Enabling {
		return &NotAdmissible{"the stream is still being enabled", true}
	}
	var served time.Time // when the stream was first read
	for _, s := range Roots(shards, table.Label) {
		if s.State == Gap {
			continue // the gap was declared, so the generation began after it
		}
		served = earlier(served, s.FirstRead)
		if s.FirstRead.IsZero() {
			return &NotAdmissible{fmt.Sprintf("shard %s has not been read yet", s.ID), true}
		}
		if start.Before(s.FirstRead.Add(Slack - cdc.Retention)) {
			return &NotAdmissible{fmt.Sprintf("shard %s was first read more than a day after %s, the time of the images", s.ID, stampOf(start)), false}
		}
	}
	// The stream does not have changes made before it began. Images read after the first read of
	// the stream need no slack. The rows of the roots may be removed during a load that takes days.
	// The load was checked when it began.
	began, early := table.streamBegan(), start.Before(served)
	if served.IsZero() {
		early = table.Load.Generation != table.Generation || table.Load.StartedAt.IsZero() || !table.Load.DoneAt.IsZero()
	}
	if early && !began.IsZero() && start.Before(began.Add(Slack)) {
		return &NotAdmissible{fmt.Sprintf("the images date from %s, but the stream began at %s and has every change from %s on: later images are needed", stampOf(start), stampOf(began), stampOf(began.Add(Slack))), false}
	}
	return nil
}
