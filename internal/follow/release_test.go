package follow

import (
	"errors"
	"fmt"
	"testing"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// TestReleases: after a cutover fenced the target, a reader whose write was refused must not leave
// a lease that makes its process look alive to finalize. A shard that is lost is declared under the
// lease, and a lease that is gone has nothing to release.
func TestReleases(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want bool
	}{
		{"the shard was read to its end", nil, true},
		{"a write was refused", fmt.Errorf("page: %w", sink.ErrFenced), true},
		{"another worker is to try it", engine.ErrYield, true},
		{"the tables were cut over", checkpoint.ErrCutOver, true},
		{"the lease was lost", checkpoint.ErrLeaseLost, false},
		{"the stream no longer has it", &cdc.Error{Reason: cdc.Trimmed}, false},
		{"anything else", errors.New("broken"), false},
	} {
		if got := releases(c.err); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
