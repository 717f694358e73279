package status

import (
	"context"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// readFences adds to each table the ledger's records of the table's targets.
func readFences(ctx context.Context, ledger *checkpoint.Ledger, tables []config.Table, inputs []TableInput) error {
	all, err := ledger.Targets(ctx)
	if err != nil {
		return err
	}
	known := make(map[string]checkpoint.Target, len(all))
	for _, t := range all {
		known[t.Table] = t
	}
	for i := range tables {
		for _, at := range tables[i].Targets() {
			if t, ok := known[at.Table]; ok {
				inputs[i].Targets = append(inputs[i].Targets, t)
			}
		}
	}
	return nil
}

// fenced sets whether late writes to a table's targets can be rejected. If that differs between
// targets, the worst case is shown.
func (t *Table) fenced(in TableInput) {
	for _, target := range in.Targets {
		if target.Withheld != "" {
			t.Fence, t.FenceReason = terminal.Known("withheld"), terminal.Known(target.Withheld)
			return
		}
		if target.Fence > 0 {
			t.Fence = terminal.Known("kept")
		}
	}
}
