package engine

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/canary"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Worker holds the state that all tables of a worker process share.
type Worker struct {
	*Options
	halt       context.CancelCauseFunc
	Shares     *Shares
	Completion *Completion // nil if the run does not end by itself
	Calls      *Reads
	Slots      *task.Limit // slots for pages
}

// NewWorker returns the state that all tables of a process share. Calling halt must start a clean
// stop of the process.
func NewWorker(o *Options, halt context.CancelCauseFunc) *Worker {
	p := &Worker{Options: o, halt: halt, Shares: &Shares{}, Calls: &Reads{}, Slots: task.NewLimit(int64(cmp.Or(o.Pages, pageSlots)))}
	if o.Register == nil {
		o.Register = fence.NewRegister(o.Ledger)
	}
	if o.Once {
		p.Completion = &Completion{}
	}
	return p
}

// Common returns the state that all loops of a table share. If spec is nil, it is for work that
// belongs to no table.
func (p *Worker) Common(spec *Spec) *Common {
	c := &Common{Retrier: &Retrier{Events: p.Events, now: p.Ledger.Now}, Ledger: p.Ledger, Register: p.Register, Floors: p.Floors, Timing: p.Timing, halt: p.halt, Mode: p.Mode, Tracer: p.Tracer}
	if spec != nil {
		c.Source, c.MappingHash = spec.Mapping.Source, spec.MappingHash
	}
	return c
}

// Table is one table in this process: the state that its loops share.
type Table struct {
	*Common
	Worker  *Worker
	Spec    Spec
	Mapping *transform.Mapping
	// Database is a client whose calls a clean stop cancels. It hides a cutover's canaries.
	Database Database
	// Open returns a stream's client, whose calls a clean stop cancels. It hides a cutover's
	// canaries.
	Open      func(streamARN string) cdc.Source
	Fencing   *Fencing
	Witnesses *Witnesses
	Publisher Publisher
	Tracker   ShardTracker // the shards that this process reads
	// Outages records the leases that this process released because the source did not answer.
	Outages Outages
	Recheck RecheckNumber
	Wake    wakeups
}

// wakeups wake loops, so that they read the ledger before their next regular pass.
type wakeups struct {
	Assigner   task.Wakeup // a shard has ended, or a new shard was found
	Reconciler task.Wakeup // a shard was released by this worker
	Loader     task.Wakeup // there are parts to acquire
	Conductor  task.Wakeup // a part was released
	Verifier   task.Wakeup
}

func NewTable(p *Worker, spec Spec) *Table {
	c := p.Common(&spec)
	canaries := canary.New(p.Ledger.ID(), c.Source)
	former := &Formers{Source: c.Source, Ledger: p.Ledger, Mapping: spec.Mapping, Families: p.Families, Restore: p.Restore}
	fencing := &Fencing{Common: c, Fence: fence.Fence{Ledger: p.Ledger, Families: p.Families}, Mapping: spec.Mapping, prepare: p.Prepare, Formers: former}
	return &Table{
		Common: c, Worker: p, Spec: spec, Mapping: spec.Mapping, Fencing: fencing,
		Database: stoppableDatabase{p.Database, p.Calls, p.Ledger.Heard, canaries, keyNames(spec.Mapping)},
		Open: func(streamARN string) cdc.Source {
			stream := p.Open(streamARN)
			if !UsesOldImages(spec, p.Topic != nil || p.ParkedPublished) {
				stream = cdc.WithoutOldImages(stream)
			}
			return stoppableSource{stream, p.Calls, p.Ledger.Heard, canaries}
		},
		Witnesses: &Witnesses{Common: c, fencing: fencing, mapping: spec.Mapping, store: p.Witness, shared: spec.Shared, own: p.startedFor},
		Publisher: Publisher{c, p.Topic, p.PublishLoads, p.Keying, new(atomic.Int64)},
		Tracker:   newShardTracker(),
	}
}

// UsesOldImages reports whether a process uses the old images of changes. If not, they need not
// be decoded. Published messages carry old images. Where older cells are kept, the old image says
// which cells the row had.
func UsesOldImages(spec Spec, publishes bool) bool {
	return publishes || spec.Mapping.KeepsVersions() || NeedsOldImages(spec.Mapping, spec.Late)
}

// startedFor reports whether this process was started for a source table. Tables that joined later
// have a record in the ledger.
func (p *Worker) startedFor(source string) bool {
	return slices.ContainsFunc(p.Tables, func(s Spec) bool { return s.Mapping.Source == source })
}

// Applier returns an applier. If `sample` is not nil, the applier passes each batch to it before
// the write.
func (s *Table) Applier(sample func(*transform.Batch) (durable func())) Applier {
	return Applier{Retrier: s.Retrier, writer: s.Worker.Writer, sample: sample}
}

// Workers returns how many workers hold leases of the table's shards.
func (s *Table) Workers() int { return s.Worker.Shares.workers(s.Source, s.Ledger.Worker()) }

// SameSource applies CheckSource to the table that this worker finds. It must be called before the
// worker changes any record: to a worker in the wrong region, the followed stream would seem to be
// deleted. A missing table passes the check, because the coordinator reports it. SameSource also
// clears a refusal that an earlier configuration caused.
func (s *Table) SameSource(ctx context.Context) error {
	s.Ledger.ReadsFrom(s.Source, s.Spec.ARN)
	state, _, err := s.Ledger.Table(ctx, s.Source)
	if err == nil {
		err = s.forgetRefusal(ctx, state)
	}
	if err != nil || state.StreamARN == "" {
		return err
	}
	d, err := s.Database.Describe(ctx, s.Source)
	if cdc.Is(err, cdc.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return CheckSource(d, state.StreamARN)
}

// forgetRefusal clears an earlier refusal of an export, so that this process checks the export in
// its own configuration.
func (s *Table) forgetRefusal(ctx context.Context, state checkpoint.TableState) error {
	if !s.Spec.Copy || !state.Load.Request.Refused() {
		return nil
	}
	_, err := s.Ledger.ForgetRefusal(ctx, s.Source)
	return err
}
