package checkpoint_test

import (
	"testing"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// Witnesses of former targets are removed with the pass that ends the sweep. A pass that only
// counted, and found rows, leaves them to the next.
func TestWhichPassEndsASweep(t *testing.T) {
	for _, c := range []struct {
		pass   int
		counts checkpoint.Counts
		ends   bool
	}{
		{0, checkpoint.Counts{}, true}, {0, checkpoint.Counts{Seen: 1}, false}, {0, checkpoint.Counts{Unexplained: 1}, false},
		{1, checkpoint.Counts{Seen: 5}, true}, {1, checkpoint.Counts{Seen: 5, Left: 2}, true}, {1, checkpoint.Counts{Put: 1}, false},
		{2, checkpoint.Counts{Removed: 1}, false}, {2, checkpoint.Counts{Put: 2, Bare: 2}, true}, {1, checkpoint.Counts{Unexplained: 1}, false},
	} {
		if got := c.counts.Ends(c.pass); got != c.ends {
			t.Errorf("pass %d with %+v ends it: %t", c.pass, c.counts, got)
		}
	}
}
