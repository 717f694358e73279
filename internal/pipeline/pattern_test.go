package pipeline

import (
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
)

// A table of a pattern whose target has rows is suspended, and the others continue.
func TestATableOfAPatternWaitsForTheAnswer(t *testing.T) {
	for _, joined := range []bool{true, false} {
		k := &coordinator{joined: joined}
		why, aside := k.unfollowable(t.Context(), &engine.RowsError{Table: "Orders2026", Target: "orders"})
		if aside != joined || joined && !strings.Contains(why, "target table orders has rows; to allow overwriting them, use replicator run --adopt-rows") {
			t.Errorf("joined %t: %t, %q", joined, aside, why)
		}
	}
}
