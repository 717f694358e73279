package worker

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/build"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/environment"
	"github.com/dynamodb-bigtable/replicator/internal/load"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// LendOptions are the settings of a process that copies parts of a table's load, and that is not a
// worker.
type LendOptions struct {
	Config  *config.Config
	Console *terminal.Console
	Ends    desk.Ends
	Log     *slog.Logger
	Build   build.Info
	Allowed environment.Allowed
	Table   string
	As      string // prefix of the id under which the process writes to the ledger
	Hints   string // flags to append to commands in messages
}

// Lending is a migration that such a process has opened.
type Lending struct {
	LendOptions
	*desk.Migration
	worker *Worker
	end    context.CancelFunc // ends the process's tasks; nil before Lender
	tasks  *task.Group
}

// OpenLending opens the migration with the checks of a worker and of a command that writes. It
// creates nothing. It fails if no coordinator of the table answers, because only a coordinator
// plans and completes loads.
func OpenLending(ctx context.Context, o LendOptions) (*Lending, error) {
	m, err := o.Ends.Open(ctx, o.Console, o.Config, desk.Request{Command: "lend", Table: o.Table, Allowed: o.Allowed, As: o.As, With: o.Hints, Version: o.Build.Version})
	if err != nil {
		return nil, err
	}
	l := &Lending{LendOptions: o, Migration: m}
	if err := l.coordinated(ctx); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return l, nil
}

// coordinated fails if no coordinator of the table answers.
func (l *Lending) coordinated(ctx context.Context) error {
	limited, cancel := preflight.Reading(ctx)
	defer cancel()
	lease, err := l.Ledger.CoordinatorLease(limited, l.Table)
	if err != nil {
		return preflight.ReadingFailed(limited, "cannot read the ledger in table "+l.Config.State.Table, err)
	}
	if lease.Owner() == "" || !standing.Answers(lease.Heartbeat(), l.Now(ctx), l.Config.State.Lease) {
		return &diag.Error{Code: diag.LoadRefused, What: "cannot copy parts of the load of table " + l.Table, Cause: "no worker coordinates the table",
			Fix: "start a worker: replicator run" + l.Hints}
	}
	return nil
}

// State reads the table's record.
func (l *Lending) State(ctx context.Context) (checkpoint.TableState, error) {
	state, _, err := l.Ledger.Table(ctx, l.Table)
	return state, err
}

// Lender returns the lender of this process, for one copy. The same options open its clients as in
// a worker. The lender works until Close.
func (l *Lending) Lender(ctx context.Context, order load.Order, lending load.Lending) (*load.Lender, error) {
	w := New(Options{Config: l.Config, Console: l.Console, Log: l.Log, Lines: backfill.NewRenderer(io.Discard, nil), Build: l.Build, Hints: l.Hints})
	w.id, w.source, w.target, w.found, w.ledger = l.Ledger.Worker(), l.Source, l.Target, preflight.Found{Tables: l.Tables}, l.Ledger
	probes := &preflight.Prober{Out: io.Discard, Cfg: l.Config}
	probes.AskParkTopic(ctx)
	w.parkTopic = probes.ParkTopic
	l.worker = w
	if err := errors.Join(probes.Failed...); err != nil {
		return nil, err
	}
	work, end := context.WithCancel(context.WithoutCancel(ctx))
	l.end, l.tasks = end, task.NewGroup(work, 0)
	o := w.pipeline(l.Ledger, sink.NewParking(w.target.Data.Records(l.Config.State.Table), l.Config.Name), w.observe(task.Clock(ctx)))
	t := l.Tables[0]
	lender := load.NewLender(work, &o, w.table(t, nil), order, lending)
	l.tasks.Go("heed cutovers", func(context.Context) error { return lender.Heed() })
	if err := lender.Check(ctx); err != nil {
		return nil, preflight.Explain("cannot copy parts of the load of table "+l.Table, err)
	}
	return lender, nil
}

// Close abandons the parts of the lender, ends its record in the ledger, and closes the clients.
func (l *Lending) Close() error {
	if l.end != nil {
		l.end()
		_ = l.tasks.Wait() // if the record stays, it lasts until its numbers are dropped
	}
	if l.worker != nil && l.worker.parkTopic != nil {
		if err := l.worker.parkTopic.Close(); err != nil {
			return errors.Join(err, l.Migration.Close())
		}
	}
	return l.Migration.Close()
}
