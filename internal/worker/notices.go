package worker

import (
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/notify"
)

// notices returns the sender of notifications; nil if this process sends none. A process that only
// publishes sends none, because the appliers of the same pipeline do. A run with Once sends none,
// because its exit status says how it ended.
func (w *Worker) notices(ledger *checkpoint.Ledger, o *observer) *notify.Sender {
	if w.Once || w.NoWrite {
		return nil
	}
	return notify.New(notify.Options{Config: w.Config, Env: w.Console.Env, Ledger: ledger, Log: w.Log, Count: o.metrics.Notified})
}
