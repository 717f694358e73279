package status

import (
	"context"
	"fmt"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// lookWhere reads the cluster to which the app profile routes. If the cluster is unknown, it
// records nothing.
func (l *Input) lookWhere(ctx context.Context, ask func(context.Context) (string, error)) {
	if l.Ledger == nil || l.allLeft() {
		return // after the switch, no process uses the profile
	}
	ctx, cancel := task.WithTimeout(ctx, preflight.ProbeTime)
	defer cancel()
	known, err := l.Ledger.Cluster(ctx)
	if err != nil || known == "" {
		return
	}
	if leads, err := ask(ctx); err == nil && leads != "" && leads != known {
		l.Elsewhere = fmt.Sprintf("the app profile routes to cluster %s, but the ledger uses cluster %s (%s)", leads, known, diag.ClusterChanged)
	}
}

// elsewhere records that the app profile routes to another cluster than the ledger's. No worker
// writes to that cluster, and its content is unknown.
func (m *Document) elsewhere(why string) {
	if why == "" {
		return
	}
	for i := range m.Tables {
		t := &m.Tables[i]
		t.troubled(checkpoint.Trouble{Step: "write the target", Since: m.At, Cause: why}, 0)
	}
}
