package pipeline

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// anew is a constant database whose table is recreated after some minutes, with a sort key.
type anew struct {
	steady
	after time.Duration
}

func (a anew) Describe(ctx context.Context, table string) (backfill.Description, error) {
	d, err := a.steady.Describe(ctx, table)
	d.PrimaryKey = []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}}
	if task.Mono(ctx) >= a.after {
		d.StreamARN, d.StreamLabel = "arn/M", "M"
		d.PrimaryKey = append(d.PrimaryKey, transform.KeyAttribute{Name: "line", Type: attribute.KindN})
	}
	return d, err
}

// TestH25_CreatedAnewWithAnotherKey: the former key would mix up items of a recreated table. So
// nothing of that table is followed, whether or not the former one was. The process ends, and the
// next one makes its mapping for the new key.
func TestH25_CreatedAnewWithAnotherKey(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration
		label string // of the followed stream
	}{"before it was followed": {0, ""}, "while it was followed": {5 * time.Minute, "L"}} {
		t.Run(name, func(t *testing.T) {
			o := clusterOptions(t, &rolled{}, nil)
			o.Cluster, o.Database = nil, anew{after: c.after}
			var ledger *checkpoint.Ledger
			opened := func(_ context.Context, l *checkpoint.Ledger) error { ledger = l; return nil }
			runs(t, &checkpointtest.Memory{}, time.Hour, o, opened, func(ctx context.Context, err error) {
				var key *engine.KeyError
				if !errors.As(err, &key) || key.Table != "Orders" {
					t.Errorf("ended by %v", err)
				}
				state, _, err := ledger.Table(ctx, "Orders")
				if err != nil || state.Label != c.label || state.NeedsLoad {
					t.Errorf("followed: %q, needs a load: %v, %v", state.Label, state.NeedsLoad, err)
				}
			})
		})
	}
}

// A table of a pattern does not end the others: it is suspended, with what to do.
func TestATableOfAPatternWithAnotherKeyIsSuspended(t *testing.T) {
	k := enginetest.NewRig(nil, engine.Spec{Joined: true})
	if reason, yes := coordinatorOf(k).unfollowable(t.Context(), &engine.KeyError{Table: "Orders"}); !yes || reason != "the primary key of the table has changed since it joined; restart the workers" {
		t.Errorf("suspended: %v, %q", yes, reason)
	}
}
