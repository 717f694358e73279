package engine

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/internal/source"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// Options holds the dependencies and settings of a worker. Many tasks use the interfaces
// concurrently.
type Options struct {
	Ledger *checkpoint.Ledger
	// Register records what this process may write. If it is nil, NewWorker makes one.
	Register *fence.Register
	Writer   *sink.Writer
	// Floors supplies the lowest valid generations to the writer. The pipeline keeps them up to
	// date.
	Floors   *Floors
	Database Database
	// Folders opens the files that a load copies instead of a scan. If it is nil, loads of this
	// worker only scan tables.
	Folders source.Folders
	// Exporter requests exports; if nil, this worker requests no exports.
	Exporter Exporter
	// Open returns the source of a stream by its ARN.
	Open func(streamARN string) cdc.Source
	// Witness returns the store of a target table's witness row.
	Witness func(targetTable string) checkpoint.Store
	// Target reads target tables for sweeps.
	Target sink.MarkReader
	// Rows reads target tables for verifies; if nil, this worker runs no verifies.
	Rows verify.Target
	// Busy returns why loads must wait: a cluster of the target uses more than the given share of
	// its CPU. It returns "" if loads may continue, or if the CPU load is unknown. If Busy is nil,
	// the CPU load is not checked.
	Busy func(ctx context.Context, above float64) (why string)
	// RampUp returns how many rows per second all workers together may write at a time after the
	// beginning of a fast load; 0 means no limit. If RampUp is nil, such a load begins at full speed.
	RampUp func(ctx context.Context, elapsed time.Duration) float64
	// Families creates and drops the families of the fence. It is nil if this process may not
	// change families.
	Families sink.Families
	// Restore rebuilds a mapping from the text of transform.Mapping.Describe; if nil, rows of
	// former mappings are not found.
	Restore func(text string) (*transform.Mapping, error)
	// Prepare creates the missing parts of a target table that was lost, and reports whether the
	// whole table was missing. If it is nil, another process must create them.
	Prepare func(ctx context.Context, targetTable string) (made bool, err error)
	// Cluster returns the cluster to which the app profile routes; "" if it is unknown. If Cluster
	// is nil, this process cannot read it.
	Cluster func(ctx context.Context) (string, error)
	Tables  []Spec
	// Mode determines whether changes are written, published or both. With AcceptMode, Mode may
	// replace the mode that the ledger records for a table. Topic receives the published messages.
	// With PublishLoads, it also receives the items that loads read. Keying is the keying that this
	// process sets for messages when it is coordinator.
	Mode         checkpoint.Mode
	AcceptMode   bool
	Topic        relay.Topic
	PublishLoads bool
	Keying       relay.Keying
	// ParkedPublished says that parked changes are published, with their old images.
	ParkedPublished bool
	// Kept is how long the appliers' subscription keeps unacknowledged messages. The default is
	// checkpoint.LongestKept. A message that is not applied within that time is a gap.
	Kept time.Duration
	// Discover searches for tables that may join a running worker. If it is nil, no tables join. It
	// is called at the start, and then every DiscoverEvery. The function `followed` reports whether
	// a table is already replicated. If Discover finds some tables and fails for others, the found
	// tables join, and Discover is called again soon.
	Discover      func(ctx context.Context, followed func(source string) bool) (Discovery, error)
	DiscoverEvery time.Duration
	Events        Events
	// Tracer begins the spans of this process; nil for none.
	Tracer Tracer
	Timing Timing
	// Pages is the maximum number of pages that all shards with backlog may hold together; default
	// 24.
	Pages int
	// SettleBytes is the maximum memory of all pages that wait to be settled, over all tables of
	// the process; default 128 MB.
	SettleBytes int64
	// Once ends the run when every table is copied and all tables are drained at the same time.
	Once bool
}
