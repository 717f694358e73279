package checkpoint

import (
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
	for _, s := range Roots(shards, table.Label) {
		if s.State == Gap {
			continue // its gap was declared: the generation began after it
		}
		if s.FirstRead.IsZero() {
			return &NotAdmissible{fmt.Sprintf("shard %s has not been read yet", s.ID), true}
		}
		if start.Before(s.FirstRead.Add(Slack - cdc.Retention)) {
			return &NotAdmissible{fmt.Sprintf("shard %s was first read more than a day after %s, the time of the images", s.ID, stampOf(start)), false}
		}
	}
	return nil
}
