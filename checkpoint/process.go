package checkpoint

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Role is what a process does while it holds no lease.
type Role string

// The roles.
const (
	RoleStandby Role = ""     // waits for leases of other processes
	RoleIdle    Role = "idle" // stays up without work, because the tables are cut over
)

// Process is the record of a running process of the migration that held no lease when it wrote the
// record. The record shows standbys and idle processes to operators. Only finalize decides by it:
// finalize accepts idle processes and no others.
type Process struct {
	header
	Worker string `json:"worker"`
	// Role is idle for a process whose tables are cut over, and empty for a standby.
	Role Role `json:"role,omitempty"`
	Heartbeat
}

// forgotten is the age of a process's last heartbeat after which other processes remove its row.
const forgotten = 24 * time.Hour

func (l *Ledger) processPrefix() string { return l.name + "/process/" }

// ShowProcess records that this process runs, and what it does. A process without a lease calls it
// once per lease duration. It also removes old rows of processes that ended uncleanly.
func (l *Ledger) ShowProcess(ctx context.Context, role Role) error {
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
	p := Process{Worker: l.worker, Role: role, Heartbeat: l.heartbeat(ctx, Trouble{})}
	_, err = l.swap(ctx, l.store, key, was, l.stamp(&p.header, &p))
	return err
}

// forget removes the row of a process whose last heartbeat is too old.
func (l *Ledger) forget(ctx context.Context, row Row) error {
	p, err := l.processes.one(row)
	if err != nil || task.Now(ctx).Sub(p.WrittenAt) < forgotten {
		return err
	}
	_, err = l.swap(ctx, l.store, row.Key, row.Counter, nil)
	return err
}

// RemoveProcess removes the row of this process when the process ends.
func (l *Ledger) RemoveProcess(ctx context.Context) error {
	row, found, err := readRow(ctx, l.store, l.processPrefix()+l.worker)
	if err != nil || !found {
		return err
	}
	_, err = l.swap(ctx, l.store, row.Key, row.Counter, nil)
	return err
}

// Processes reads the records of running processes, by name.
func (l *Ledger) Processes(ctx context.Context) ([]Process, error) {
	rows, err := l.store.Read(ctx, l.processPrefix())
	if err != nil {
		return nil, err
	}
	return l.processes.decode(l.processPrefix(), rows)
}
