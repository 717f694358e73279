package pipeline

import (
	"cmp"
	"context"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/canary"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// process is what the tables of a worker process share.
type process struct {
	*Options
	halt   context.CancelCauseFunc
	shares *shares
	once   *completion // nil: tables are followed without end
	calls  *reads
	slots  *task.Limit // for pages
}

// newProcess makes what the tables of a process share. Halt begins a clean stop of it.
func newProcess(o *Options, halt context.CancelCauseFunc) *process {
	p := &process{Options: o, halt: halt, shares: &shares{}, calls: &reads{}, slots: task.NewLimit(int64(cmp.Or(o.Pages, pageSlots)))}
	if o.Once {
		p.once = &completion{}
	}
	return p
}

// common is what the parts of a table share; nil: of what belongs to no table.
func (p *process) common(spec *Table) *common {
	c := &common{retrier: &retrier{events: p.Events}, ledger: p.Ledger, floors: p.Floors, timing: p.Timing, halt: p.halt, mode: p.Mode}
	if spec != nil {
		c.source, c.mappingHash = spec.Mapping.Source, spec.MappingHash
	}
	return c
}

// shared is one table in this process: what the loops that work on it share.
type shared struct {
	*common
	process   *process
	spec      Table
	mapping   *transform.Mapping
	database  Database                          // a stop ends its calls, and it shows no canaries of a cutover
	open      func(streamARN string) cdc.Source // as the database
	fencing   *fencing
	witnesses *witnesses
	publisher publisher
	tracker   shardTracker // what this process knows of the shards it reads
	outages   outages      // and of the leases it gave up
	wake      wakeups
}

// wakeups let a loop look at the ledger before its time.
type wakeups struct {
	assigner   task.Wakeup // a shard ended, or one was found
	reconciler task.Wakeup // a shard was left
	loader     task.Wakeup // there are parts to take
	conductor  task.Wakeup // a part was left
	verifier   task.Wakeup
}

func newShared(p *process, spec Table) *shared {
	c := p.common(&spec)
	canaries := canary.New(p.Ledger.ID(), c.source)
	former := &formers{source: c.source, ledger: p.Ledger, mapping: spec.Mapping, families: p.Families, restore: p.Restore}
	fencing := &fencing{common: c, Fence: fence.Fence{Ledger: p.Ledger, Families: p.Families}, mapping: spec.Mapping, prepare: p.Prepare, formers: former}
	return &shared{
		common: c, process: p, spec: spec, mapping: spec.Mapping, fencing: fencing,
		database: stoppableDatabase{p.Database, p.calls, p.Ledger.Heard, canaries, keyNames(spec.Mapping)},
		open: func(streamARN string) cdc.Source {
			return stoppableSource{p.Open(streamARN), p.calls, p.Ledger.Heard, canaries}
		},
		witnesses: &witnesses{common: c, fencing: fencing, mapping: spec.Mapping, store: p.Witness},
		publisher: publisher{c, p.Topic, p.PublishLoads},
		tracker:   newShardTracker(),
	}
}

// applier makes batches durable. It shows them to sample before, unless that is nil.
func (s *shared) applier(sample func(*transform.Batch) (durable func())) applier {
	return applier{retrier: s.retrier, writer: s.process.Writer, sample: sample}
}

// workers is how many workers hold leases of the table's shards.
func (s *shared) workers() int { return s.process.shares.workers(s.source, s.ledger.Worker()) }

// sameSource is CheckSource for what this worker finds under the table's name, before it touches
// anything: from the wrong region the stream that is followed would seem to be gone. A table that
// is not there is nobody else's; the keeper tells of it. What a former configuration was refused is
// forgotten.
func (s *shared) sameSource(ctx context.Context) error {
	state, _, err := s.ledger.Table(ctx, s.source)
	if err == nil {
		err = s.forgetRefusal(ctx, state)
	}
	if err != nil || state.StreamARN == "" {
		return err
	}
	d, err := s.database.Describe(ctx, s.source)
	if cdc.Is(err, cdc.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return CheckSource(d, state.StreamARN)
}

// forgetRefusal lets a process that begins judge the export of its own configuration.
func (s *shared) forgetRefusal(ctx context.Context, state checkpoint.TableState) error {
	if !s.spec.Copy || !state.Load.Request.Refused() {
		return nil
	}
	_, err := s.ledger.ForgetRefusal(ctx, s.source)
	return err
}
