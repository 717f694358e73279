package status

import (
	"context"
	_ "embed"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/loads"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// statusJSONSchema describes the document of -o json and of /api/v1/status. A test validates every
// golden document with it.
//
//go:embed status.schema.json
var Schema []byte

// Input is the data of the ledger. A status can be judged from it at any later time.
type Input struct {
	Cfg    *config.Config
	Tables []config.Table
	Inputs []TableInput
	Begun  bool // whether the ledger exists
	Ledger *checkpoint.Ledger
	// Cutovers are the records of the cutovers of all groups.
	Cutovers checkpoint.Cutovers
	// WaysBack are the records of ways back, by source table. Records of former attempts may be among
	// them.
	WaysBack map[string]checkpoint.Fallback
	// Drivers are the processes that drive the cutovers of groups.
	Drivers []Driver
	// Processes are the processes that held no lease at their last report.
	Processes []checkpoint.Process
	Receivers []receiverStatus // receivers of notifications that fail
	// Elsewhere is the cluster to which the app profile routes, if it differs from the ledger's
	// cluster. It is "" if the clusters are the same, or if the profile was not read.
	Elsewhere string

	readAt time.Time // when the ledger was read; if zero, the time of the judgement
}

// Driver is a process that drives the cutover of a group.
type Driver struct {
	Row string // the record of the group (checkpoint.Cutover.Row)
	// Process is "" if no process holds the driver's lease, or if the lease is no longer renewed.
	Process string

	lease checkpoint.CoordinatorLease // as read at the monotonic time mono
	mono  time.Duration
}

// Judge computes the status from the input. The argument `with` holds flags to append to commands
// of next steps.
func (l *Input) Judge(env config.Lookup, with string, now time.Time) *Document {
	m := NewDocument(l.Cfg, env, now)
	m.with, m.begun, m.cutovers, m.otherPlace, m.readAt = with, l.Begun, l.Cutovers, l.Elsewhere, l.readAt
	for i, c := range l.Tables {
		m.add(c, l.Inputs[i])
	}
	m.standby(l.Processes)
	m.waysBack(l)
	m.cutOver(l, env)
	m.elsewhere(l.Elsewhere)
	m.noticed(l.Receivers)
	m.conclude()
	return m
}

// TellMappings adds a failure to each table that has another mapping in the configuration than in
// the ledger.
func (l *Input) TellMappings(m *Document) {
	for i := range m.Tables {
		if l.MappingDiffers(i) && !l.left(i) {
			m.Tables[i].troubled(checkpoint.Trouble{Step: "run this configuration", Since: m.At, Cause: DifferentMapping + " (" + diag.MappingChanged +
				"); accept it with run --accept-mapping-change; the table then needs a load and a sweep"}, 0)
		}
	}
}

const DifferentMapping = "its mapping differs from the one in the ledger"

// left reports whether the application has left a table.
func (l *Input) left(i int) bool {
	c := l.Cutovers.Of(l.Tables[i].From, l.Tables[i].Pattern())
	return c.Step.Switched()
}

// MappingDiffers reports whether the ledger has another mapping of the table than the
// configuration.
func (l *Input) MappingDiffers(i int) bool {
	in := l.Inputs[i]
	return in.Found && in.State.Generation > 0 && in.State.MappingHash != l.Cfg.Hash(l.Tables[i])
}

// Target holds the stores from which the ledger and the parked items are read.
type Target interface {
	Ledger(stateTable string) checkpoint.Store
	Records(stateTable string) sink.Records
}

// Gather reads the ledger and computes its status.
func Gather(ctx context.Context, cfg *config.Config, t Target, env config.Lookup, table string, now time.Time) (*Document, error) {
	l, err := Read(ctx, cfg, t, table)
	if err != nil {
		return nil, err
	}
	return l.Judge(env, "", now), nil
}

// Read reads the ledger. If there is no ledger, the migration has not begun, which is not an error.
func Read(ctx context.Context, cfg *config.Config, t Target, table string) (*Input, error) {
	limited, cancel := preflight.Reading(ctx)
	defer cancel()
	ledger, err := checkpoint.Open(limited, t.Ledger(cfg.State.Table), cfg.Name, checkpoint.Options{ReadOnly: true, Lease: cfg.State.Lease})
	if errors.Is(err, checkpoint.ErrNoLedger) || status.Code(err) == codes.NotFound {
		ledger, err = nil, nil
	}
	var tables []config.Table
	if err == nil {
		tables, err = preflight.LedgerTables(limited, cfg, ledger, table)
	}
	if err != nil {
		return nil, preflight.ReadingFailed(limited, "cannot read the ledger in table "+cfg.State.Table, err)
	}
	return readOf(limited, cfg, t, ledger, tables)
}

// Rows returns the number of shard rows that were read.
func (l *Input) Rows() (rows int) {
	for i := range l.Inputs {
		rows += len(l.Inputs[i].Shards)
	}
	return rows
}

// Of reads the ledger of a migration that a command has opened.
func Of(ctx context.Context, cfg *config.Config, m *desk.Migration) (*Input, error) {
	tables := make([]config.Table, len(m.Tables))
	for i, t := range m.Tables {
		tables[i] = t.Config
	}
	return readOf(ctx, cfg, m.To, m.Ledger, tables)
}

// readOf reads the ledger's data about tables. It returns nil before the migration has begun.
func readOf(ctx context.Context, cfg *config.Config, t Target, ledger *checkpoint.Ledger, tables []config.Table) (*Input, error) {
	l := &Input{Cfg: cfg, Tables: tables, Inputs: make([]TableInput, len(tables)), Begun: ledger != nil, Ledger: ledger}
	if ledger == nil {
		return l, nil
	}
	ctx, cancel := preflight.Reading(ctx)
	defer cancel()
	var err error
	if l.Inputs, err = readTables(ctx, ledger, sink.NewParking(t.Records(cfg.State.Table), cfg.Name), tables); err == nil {
		l.Cutovers, err = ledger.Cutovers(ctx)
	}
	for i := range l.Cutovers {
		if c := &l.Cutovers[i]; err == nil && needsDriver(c) {
			d := Driver{Row: c.Row, mono: task.Mono(ctx)}
			d.lease, err = ledger.CoordinatorLease(ctx, checkpoint.CutoverLease(c.Row))
			d.Process = d.lease.Owner()
			l.Drivers = append(l.Drivers, d)
		}
	}
	if err == nil {
		l.WaysBack, err = readWaysBack(ctx, ledger, l.Cutovers)
	}
	if err == nil {
		l.Processes, err = ledger.Processes(ctx)
	}
	if err == nil {
		l.Receivers, err = readNotices(ctx, cfg, ledger)
	}
	if err == nil {
		err = readFences(ctx, ledger, tables, l.Inputs)
	}
	if err != nil {
		return nil, preflight.ReadingFailed(ctx, "cannot read the ledger in table "+cfg.State.Table, err)
	}
	return l, nil
}

// tablesAtOnce is the number of tables that are read concurrently. Without concurrency, the read of
// a thousand tables would exceed the time limit.
const tablesAtOnce = 32

// readTables reads the ledger's data about tables, in their order. The first failure cancels the
// other reads.
func readTables(ctx context.Context, ledger *checkpoint.Ledger, parking *sink.Parking, tables []config.Table) ([]TableInput, error) {
	inputs := make([]TableInput, len(tables))
	g := task.NewGroup(ctx, tablesAtOnce)
	for i := range tables {
		source := tables[i].From
		g.Go("read "+source, func(ctx context.Context) (err error) {
			if inputs[i], err = readTable(ctx, ledger, source); err == nil {
				inputs[i].Parked, err = parking.CountOf(ctx, source)
			}
			return err
		})
	}
	return inputs, g.Wait()
}

// readTable reads the ledger's rows of one table.
func readTable(ctx context.Context, ledger *checkpoint.Ledger, source string) (TableInput, error) {
	var in TableInput
	var err error
	if in.State, in.Found, err = ledger.Table(ctx, source); err != nil {
		return in, err
	}
	// This read must come before the read of the shards. A change that is published in between
	// counts as not applied.
	if in.State.Apply == checkpoint.Topic {
		if in.Merged, err = ledger.Merged(ctx, source); err != nil {
			return in, err
		}
		if in.Dead, err = ledger.DeadLetter(ctx); err != nil {
			return in, err
		}
	}
	if in.Shards, err = ledger.Shards(ctx, source); err != nil {
		return in, err
	}
	if in.Listings, err = ledger.ListingsFor(ctx, source, in.State, in.Shards); err != nil {
		return in, err
	}
	if in.Parts, err = loads.ReadParts(ctx, ledger, in.State); err != nil {
		return in, err
	}
	lease, err := ledger.CoordinatorLease(ctx, source)
	if err != nil {
		return in, err
	}
	in.Coordinator = coordinatorLeaseOf(lease)
	return in, nil
}
