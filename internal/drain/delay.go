package drain

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
)

// listingTakes is how long a worker takes to list a shard's children, once the stream lists them.
const listingTakes = 2 * time.Second

// Delay is the minimum length of a freeze that begins now, and its cause.
type Delay struct {
	Length time.Duration
	Shard  string // the shard with children that may be listed late; "" if there is none
}

// Foreseen returns the minimum length of a freeze that begins now. It depends only on its
// arguments. A shard that has ended receives no canary, so all its children must have rows. The
// stream lists all children at most `bound` after the shard's end. If a listing is overdue, or the
// end is unknown, a new worker may wait for all of `bound` again.
func Foreseen(f readiness.Figures, bound time.Duration, now time.Time) (d Delay) {
	for _, sh := range LineageOf(f).rows {
		if !sh.Incomplete() {
			continue
		}
		left := bound + listingTakes
		if end := sh.EndTime(); !end.IsZero() && now.Before(end.Add(left)) {
			left = min(left, end.Add(left).Sub(now))
		}
		if left > d.Length || left == d.Length && sh.ID < d.Shard {
			d = Delay{left, sh.ID}
		}
	}
	return d
}

// LongestListing returns the longest time until the children of a shard that ends are known.
func LongestListing(plan checkpoint.CutoverPlan) time.Duration {
	return plan.ListedWithin() + listingTakes
}
