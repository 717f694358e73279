package checkpoint

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Process is a process that runs for the migration and held no lease when it said so. Nothing is
// decided by it: it is there so that people see standbys.
type Process struct {
	header
	Worker string `json:"worker"`
	Heartbeat
}

// forgotten is how old the beat of a process may be that ended without a word, before others remove
// its row.
const forgotten = 24 * time.Hour

func (l *Ledger) processPrefix() string { return l.name + "/process/" }

// ShowProcess says that this process runs. Who holds no lease does it once a lease. It removes the
// rows of processes that are long gone.
func (l *Ledger) ShowProcess(ctx context.Context) error {
	rows, err := l.store.Read(ctx, l.processPrefix())
	if err != nil {
		return err
	}
	key, was := l.processPrefix()+l.worker, uint64(0)
	for _, row := range rows {
		if row.Key == key {
			was = row.Counter
		} else if err := l.forget(ctx, row); err != nil {
			return err
		}
	}
	p := Process{Worker: l.worker, Heartbeat: l.heartbeat(ctx, Trouble{})}
	_, err = l.swap(ctx, l.store, key, was, l.stamp(&p.header, &p))
	return err
}

// forget removes the row of a process that is long gone.
func (l *Ledger) forget(ctx context.Context, row Row) error {
	p, err := l.processes.one(row)
	if err != nil || task.Now(ctx).Sub(p.WrittenAt) < forgotten {
		return err
	}
	_, err = l.swap(ctx, l.store, row.Key, row.Counter, nil)
	return err
}

// RemoveProcess says that this process ends.
func (l *Ledger) RemoveProcess(ctx context.Context) error {
	row, found, err := readRow(ctx, l.store, l.processPrefix()+l.worker)
	if err != nil || !found {
		return err
	}
	_, err = l.swap(ctx, l.store, row.Key, row.Counter, nil)
	return err
}

// Processes are those that said that they run, by name.
func (l *Ledger) Processes(ctx context.Context) ([]Process, error) {
	rows, err := l.store.Read(ctx, l.processPrefix())
	if err != nil {
		return nil, err
	}
	return l.processes.decode(l.processPrefix(), rows)
}
