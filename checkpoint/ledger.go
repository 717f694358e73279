package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Errors that no retry fixes.
var (
	ErrNoLedger        = errors.New("there is no ledger with this name")
	ErrLedgerExchanged = errors.New("the ledger was lost or exchanged while running")
	ErrClusterChanged  = errors.New("the app profile routes to another cluster than before")
	ErrMappingChanged  = errors.New("the mapping differs from the one this migration began with")
	ErrForeignPipeline = errors.New("another migration writes the same target table")
	ErrLeaseLost       = errors.New("the lease is lost")
	ErrTaken           = errors.New("another worker took over the lease")
)

// ErrConflict is returned when other writers were faster at every attempt. A retry may succeed.
var ErrConflict = errors.New("the ledger row changes too often")

// ErrRaised is returned when another process raised the generation without the caller's change. The
// caller must read the record again and decide whether it still needs the raise.
var ErrRaised = errors.New("another generation began meanwhile")

// tries bounds the attempts of a read-modify-write.
const tries = 20

// Options of a ledger.
type Options struct {
	// Worker is unique for every start of a process.
	Worker string
	// ID names the ledger if Open creates it; any unique text.
	ID string
	// About describes this process in its leases, for display.
	About About
	// Lease is how long a lease lasts without renewal; the default is 15 s.
	Lease time.Duration
	// With ReadOnly, Open fails with ErrNoLedger instead of creating the ledger.
	ReadOnly bool
}

// Ledger is the durable state of one pipeline. Many tasks may use it concurrently.
type Ledger struct {
	store  Store
	name   string
	worker string
	about  About
	id     string
	lease  time.Duration

	mu      sync.Mutex
	writes  uint64
	hashes  map[string]string // mapping hash by source table, once checked
	modes   map[string]Mode   // mode by source table, once checked
	claimed map[string]bool   // witnesses this process has written
	origins map[string]string // ARN of the table from which this process reads, by source table
	done    map[string]doneParts

	served       served
	pipelines    memory[pipeline]
	tables       memory[TableState]
	targets      memory[Target]
	shards       memory[Shard]
	parts        memory[Part]
	merged       memory[mergedRow]
	coordinators memory[coordinatorRecord]
	processes    memory[Process]
	writers      memory[Writer]
	cutovers     memory[Cutover]
	open         memory[openShards]

	fallbacks       memory[Fallback]
	fallbackRanges  memory[FallbackPart]
	fallbackStreams memory[FallbackShard]
}

// pipeline is the record of the whole pipeline.
type pipeline struct {
	header
	Ledger  string    `json:"ledger"`            // id of the ledger
	Cluster string    `json:"cluster,omitempty"` // the Bigtable cluster to which the app profile routes; "" if unknown
	Created time.Time `json:"created"`
}

// Open reads the ledger of the given name, or creates it.
func Open(ctx context.Context, store Store, name string, o Options) (*Ledger, error) {
	if name == "" || strings.Contains(name, "/") {
		return nil, fmt.Errorf("checkpoint: %q cannot name a ledger", name)
	}
	if !o.ReadOnly && (o.Worker == "" || o.ID == "") {
		return nil, errors.New("checkpoint: a ledger that is written to needs the name of the worker and an id")
	}
	if o.Lease == 0 {
		o.Lease = 15 * time.Second
	}
	l := &Ledger{store: store, name: name, worker: o.Worker, about: o.About, lease: o.Lease, hashes: map[string]string{}, modes: map[string]Mode{}, claimed: map[string]bool{}, origins: map[string]string{}, done: map[string]doneParts{}}
	for range tries {
		row, found, err := readRow(ctx, store, l.pipelineKey())
		if err != nil {
			return nil, err
		}
		if found {
			var p pipeline
			if err := decode(row, &p); err != nil {
				return nil, err
			}
			l.id = p.Ledger
			return l, nil
		}
		if o.ReadOnly {
			return nil, ErrNoLedger
		}
		p := pipeline{Ledger: o.ID, Created: task.Now(ctx).UTC()}
		if _, err := l.swap(ctx, store, l.pipelineKey(), 0, l.stamp(&p.header, &p)); err != nil {
			return nil, err
		}
	}
	return nil, ErrConflict
}

// ID returns the unique id of this ledger.
func (l *Ledger) ID() string { return l.id }

// Name returns the pipeline's name, the first part of every key.
func (l *Ledger) Name() string { return l.name }

// Worker returns the name of this process.
func (l *Ledger) Worker() string { return l.worker }

// Lease returns how long a lease lasts without renewal.
func (l *Ledger) Lease() time.Duration { return l.lease }

// margin returns how long before the end of a lease a holder must stop trusting the lease. So the
// holder has stopped before another worker takes over.
func margin(lasts time.Duration) time.Duration { return lasts / 5 }

func (l *Ledger) pipelineKey() string                 { return l.name + "/pipeline" }
func (l *Ledger) tableKey(source string) string       { return l.name + "/table/" + source }
func (l *Ledger) coordinatorKey(source string) string { return l.name + "/keeper/" + source }
func (l *Ledger) shardPrefix(source string) string {
	return l.name + "/shard/" + source + "/" // the slash at the end keeps table a from matching table a.b
}

// Check fails with ErrLedgerExchanged if another ledger has replaced the one that was opened.
func (l *Ledger) Check(ctx context.Context) error {
	_, _, err := l.readPipeline(ctx)
	return err
}

func (l *Ledger) readPipeline(ctx context.Context) (pipeline, uint64, error) {
	row, found, err := readRow(ctx, l.store, l.pipelineKey())
	if err != nil {
		return pipeline{}, 0, err
	}
	var p pipeline
	if found {
		if p, err = l.pipelines.one(row); err != nil {
			return pipeline{}, 0, err
		}
	}
	if p.Ledger != l.id {
		return pipeline{}, 0, ErrLedgerExchanged
	}
	return p, row.Counter, nil
}

// Cluster returns the cluster that CheckCluster stored; "" if none is known.
func (l *Ledger) Cluster(ctx context.Context) (string, error) {
	p, _, err := l.readPipeline(ctx)
	return p.Cluster, err
}

// CheckCluster stores the first cluster that is known, and fails with ErrClusterChanged when the
// cluster changes later (H46). The new cluster may lack writes that were not replicated to it. An
// empty id means that the cluster is unknown. Then nothing is checked.
func (l *Ledger) CheckCluster(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	return l.Move(ctx, "", id)
}
