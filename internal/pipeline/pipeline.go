// Package pipeline is the engine: the loops of a worker. The work on a table has four parts, each a
// struct with what it needs of the others: the assigner leases shards, a follower works under each
// lease, and under the keeper lease the reconciler makes the ledger agree with stream and target,
// and the loader copies what the table already holds. A follower is the path of a change:
//
//	GetRecords ─► cdc.Reader.Read ─► transform.Fold ─► sink.Writer.Write ─► checkpoint.Lease.Commit
//
// A lifecycle says how long each goes on, and the retrier is the only place that backs off. All
// waiting and concurrency goes through internal/task, so that the simulation runs these very loops.
package pipeline

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/exports"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// Database is what the pipeline needs of DynamoDB besides the stream; *backfill.Tables is one.
type Database interface {
	backfill.ScanSource
	backfill.ItemSource
	Describe(ctx context.Context, table string) (backfill.Description, error)
}

// Options are everything a worker needs. Interfaces are used from many tasks at once.
type Options struct {
	Ledger *checkpoint.Ledger
	Writer *sink.Writer
	// Floors is what the writer's floor was made from: the pipeline keeps it up to date.
	Floors   *Floors
	Database Database
	// Exports reads the manifests of an export by its address; nil: this worker copies none.
	Exports func(ctx context.Context, address string) (*exports.Export, error)
	// Exporter asks for exports; nil: this worker asks for none.
	Exporter Exporter
	// Open gives the source of a stream by its ARN.
	Open func(streamARN string) cdc.Source
	// Witness is the store of a target table's witness row.
	Witness func(targetTable string) checkpoint.Store
	// Target is what a sweep reads of target tables.
	Target sink.MarkReader
	// Rows is what a verify reads of target tables; nil: this worker works on none.
	Rows verify.Target
	// Busy says why loads are to wait while a cluster of the target is busier than a share of its
	// CPU; "" if they need not, or it cannot be told. Nil: nobody watches.
	Busy func(ctx context.Context, above float64) (why string)
	// Families creates and drops the families of the fence; nil: it is withheld.
	Families sink.Families
	// Restore makes a mapping of what transform.Mapping.Describe says of it; nil: what a former
	// mapping wrote is not found.
	Restore func(text string) (*transform.Mapping, error)
	// Prepare makes what is missing of a target table that was lost, and tells whether that was the
	// table as a whole; nil: somebody else does.
	Prepare func(ctx context.Context, targetTable string) (made bool, err error)
	// Cluster says which cluster the app profile routes to; "" if it cannot be told. Nil if nothing
	// can.
	Cluster func(ctx context.Context) (string, error)
	Tables  []Table
	// Mode is what becomes of changes. AcceptMode lets it become the mode of tables that are worked
	// on in another. Topic gets what is published; with PublishLoads what loads read as well.
	Mode         checkpoint.Mode
	AcceptMode   bool
	Topic        relay.Topic
	PublishLoads bool
	// Kept is how long the subscription of appliers keeps what is not acknowledged; default
	// checkpoint.LongestKept. What is not applied by then is a gap.
	Kept time.Duration
	// Discover looks for tables that may join while this runs; nil: none do. It is called at once
	// and then every DiscoverEvery, with what tells whether a table is followed already. What it
	// found joins even if it fails as well, for others; then it is called again soon.
	Discover      func(ctx context.Context, followed func(source string) bool) (Discovery, error)
	DiscoverEvery time.Duration
	Events        Events
	Timing        Timing
	// Pages is how many pages shards that are behind hold at once; default 24.
	Pages int
	// SettleBytes is how much the pages take at the most that are to be settled, over all tables of
	// the process; default 128 MB.
	SettleBytes int64
	// Once ends the run when every table is copied, and all are drained at the same time.
	Once bool
}

// Table is one table to replicate.
type Table struct {
	Mapping     *transform.Mapping
	MappingHash string
	// AcceptMapping lets a changed mapping raise the generation instead of being refused.
	AcceptMapping bool
	// AdoptRows lets the first generation go into targets that hold rows.
	AdoptRows bool
	// FromNow drops what is older than the first start, unless the table is copied. Of one that is
	// neither copied nor followed from now on, all that the stream still holds is applied.
	FromNow bool
	// Young tells that the table was created after the first start. FromNow drops nothing of it
	// then, and what may have been trimmed of its stream before anybody read it is a gap.
	Young bool
	// Copy loads the existing items; LoadAgain does so after each gap, too, without being asked.
	Copy, LoadAgain bool
	// Export is what the first load copies in place of a scan; zero: it scans.
	Export NamedExport
	// Segments is how many parts of a load this worker works on at once.
	Segments int
	// Limits bound loads as configured. An operator's, in the ledger, are put over them.
	Limits checkpoint.Limits
	// LiveLimits gives them where they may change while loads run; nil: Limits are those.
	LiveLimits func() checkpoint.Limits
	// Rows, if not nil, is a bound on rows a second that several tables share, in place of that of
	// Limits.
	Rows *backfill.Throttle
	// SkipExpired leaves items out of loads that are past their time to live. Owned says that every
	// row of the target tables is of this program.
	SkipExpired, Owned bool
	// Settle is how long after a change is applied a verify looks at its row again.
	Settle time.Duration
	// Late is how long after its change in the source the application may still write the target by
	// itself; 0: it does not. Images are asserted a second time then.
	Late time.Duration
	// LagBound is how far behind a shard may be so that it counts as caught up; default 5 s. How long
	// it has been is a gate of a cutover.
	LagBound time.Duration
	// Sample is the share of the items of which rows are compared that were just applied, every
	// SampleEvery; 0: none are.
	Sample      float64
	SampleEvery time.Duration
	// Joined: the table was found by a pattern. What keeps it from being followed suspends it, and
	// the others go on.
	Joined bool
}

// Timing are the periods of the loops. The zero value of each field means its default.
type Timing struct {
	Poll      time.Duration // wait after an empty page of an idle shard; default 1 s
	Soon      time.Duration // and after the first empty pages, from where it grows to Poll; default Poll
	Pass      time.Duration // between two looks at the ledger; default a third of the lease, at most 2 s
	List      time.Duration // between two complete listings, witness beats and descriptions; default 1 min
	Commit    time.Duration // at most one checkpoint a shard in this time; default 1 s
	Grace     time.Duration // how long a clean stop may finish what it has read; default 20 s
	Idle      time.Duration // Once: how long an open shard must give empty pages; default 10 s
	IdlePages int           // Once: and how many; default 10
	Yield     time.Duration // how long the source may not answer before a shard, or the keeper lease, is left to another worker; default four leases
}

// listEvery is the default of Timing.List.
const listEvery = time.Minute

func (t Timing) orDefault(lease time.Duration) Timing {
	or := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	or(&t.Poll, time.Second)
	or(&t.Soon, t.Poll)
	or(&t.Pass, min(2*time.Second, lease/3))
	or(&t.List, listEvery)
	or(&t.Commit, time.Second)
	or(&t.Grace, 20*time.Second)
	or(&t.Idle, 10*time.Second)
	or(&t.Yield, 4*lease)
	if t.IdlePages == 0 {
		t.IdlePages = 10
	}
	return t
}

// Floors are the generations of the source tables as this process last read them. Its Floor is for
// sink.Options: what is older need not be sent.
type Floors struct {
	mu          sync.Mutex
	generations map[string]uint32
}

// Floor is the generation of a source table, 0 if it is not known.
func (f *Floors) Floor(source string) uint32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.generations[source]
}

func (f *Floors) raise(source string, generation uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.generations == nil {
		f.generations = map[string]uint32{}
	}
	f.generations[source] = max(f.generations[source], generation)
}

// Run replicates the tables until ctx ends, which is a clean stop: reads are ended, pages that were
// read are written and committed and leases are released, within Timing.Grace. It returns nil after
// a clean stop, and with Once when everything is drained. Any other return is an error that no
// repeat mends.
func Run(ctx context.Context, o Options) error {
	o.Timing = o.Timing.orDefault(o.Ledger.Lease())
	o.Events = o.Events.orSilent()
	work, abandon := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abandon(context.Canceled)
	all := task.NewGroup(work, 0)
	finished := task.NewEvent(ctx)
	drain, halt := context.WithCancelCause(ctx)
	defer halt(context.Canceled)
	w := newWorker(&o, halt)
	watching, watched := context.WithCancel(drain)
	defer watched()
	if o.Cluster != nil {
		watch := &clusterWatch{common: w.common(nil), ask: o.Cluster}
		all.Go("watch the cluster", func(context.Context) error { return watch.run(until(watching)) })
	}
	all.Go("tables", func(work context.Context) error {
		defer finished.Set()
		defer watched()
		return w.follow(lifecycle{drain: drain, work: work})
	})
	all.Go("grace", func(work context.Context) error {
		if finished.Wait(drain) == nil || work.Err() != nil {
			return nil
		}
		w.calls.cancel(context.Cause(drain))
		limited, cancel := task.WithTimeout(work, o.Timing.Grace)
		late := finished.Wait(limited) != nil
		cancel()
		if late {
			abandon(context.Cause(drain))
		}
		return nil
	})
	err := all.Wait()
	if cause := context.Cause(drain); orderly(cause) {
		return cause
	}
	if err == nil && ctx.Err() == nil && w.over.Load() {
		return checkpoint.ErrCutOver
	}
	if ctx.Err() != nil && !fatal(err) {
		// What was still waiting when the grace was over says so in the words of its client.
		// Whoever goes on, goes on from the last commit.
		return nil
	}
	return err
}

// fatal tells whether an error ends the process: no repeat and no other worker mends it.
func fatal(err error) bool {
	var source *SourceError
	return orderly(err) || errors.As(err, &source) || isAny(err, checkpoint.ErrLedgerExchanged, checkpoint.ErrForeignPipeline, checkpoint.ErrClusterChanged, checkpoint.ErrFormat)
}

// orderly tells whether an error ends the process with a clean stop: ledger and target are still
// ours to write.
func orderly(err error) bool {
	var bad *sink.BadItem
	var stream *StreamError
	var key *KeyError
	var rows *RowsError
	return errors.As(err, &bad) || errors.As(err, &stream) || errors.As(err, &key) || errors.As(err, &rows) || isAny(err, checkpoint.ErrMappingChanged, checkpoint.ErrRanked, checkpoint.ErrMode, checkpoint.ErrCutOver, checkpoint.ErrPaused, sink.ErrParkedLimit)
}

func isAny(err error, targets ...error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}
