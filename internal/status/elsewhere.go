package status

import (
	"context"
	"fmt"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// lookWhere reads to which cluster the app profile routes. If that is unknown, it reports nothing.
func (l *Input) lookWhere(ctx context.Context, ask func(context.Context) (string, error)) {
	if l.Ledger == nil || l.Cutover.Step.Switched() {
		return // no process uses the profile after the switch
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

// elsewhere reports that the target is in another cluster than the ledger's. No worker writes that
// cluster, and its contents are unknown.
func (m *Document) elsewhere(why string) {
	if why == "" {
		return
	}
	for i := range m.Tables {
		t := &m.Tables[i]
		t.troubled(checkpoint.Trouble{Step: "write the target", Since: m.At, Cause: why}, 0)
	}
}
