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
	// Register records what this process may write; nil: NewWorker makes one.
	Register *fence.Register
	Writer   *sink.Writer
	// Floors supplies the writer's floor: the pipeline keeps it up to date.
	Floors   *Floors
	Database Database
	// Folders opens the files that loads copy instead of scanning; nil: this worker only scans.
	Folders source.Folders
	// Exporter requests exports; nil: this worker requests none.
	Exporter Exporter
	// Open returns the source of a stream by its ARN.
	Open func(streamARN string) cdc.Source
	// Witness is the store of a target table's witness row.
	Witness func(targetTable string) checkpoint.Store
	// Target reads target tables for sweeps.
	Target sink.MarkReader
	// Rows reads target tables for verifies; nil: this worker runs none.
	Rows verify.Target
	// Busy returns why loads must wait: a cluster of the target uses more than the share above of
	// its CPU. It returns "" if they need not wait, or if the load is unknown. Nil: the load is not
	// watched.
	Busy func(ctx context.Context, above float64) (why string)
	// Families creates and drops the families of the fence; nil: it is withheld.
	Families sink.Families
	// Restore rebuilds a mapping from the text of transform.Mapping.Describe; nil: rows of former
	// mappings are not found.
	Restore func(text string) (*transform.Mapping, error)
	// Prepare creates the missing parts of a target table that was lost, and reports whether the
	// whole table was missing. Nil: another process does it.
	Prepare func(ctx context.Context, targetTable string) (made bool, err error)
	// Cluster returns the cluster to which the app profile routes, "" if it is unknown. Nil: it
	// cannot be read.
	Cluster func(ctx context.Context) (string, error)
	Tables  []Spec
	// Mode determines whether changes are written, published or both. AcceptMode lets it replace
	// the recorded mode of tables. Topic gets the published messages; with PublishLoads also the
	// items that loads read.
	Mode         checkpoint.Mode
	AcceptMode   bool
	Topic        relay.Topic
	PublishLoads bool
	// Kept is how long the appliers' subscription keeps unacknowledged messages; default
	// checkpoint.LongestKept. A message that is not applied by then is a gap.
	Kept time.Duration
	// Discover searches for tables that may join a running worker; nil: none do. It is called
	// immediately and then every DiscoverEvery, with a function that reports whether a table is
	// already followed. If it finds tables and also fails for others, the found ones join, and it
	// is called again soon.
	Discover      func(ctx context.Context, followed func(source string) bool) (Discovery, error)
	DiscoverEvery time.Duration
	Events        Events
	Timing        Timing
	// Pages is how many pages the shards that are behind may hold together; default 24.
	Pages int
	// SettleBytes is the most memory that pages waiting to be settled take, over all tables of the
	// process; default 128 MB.
	SettleBytes int64
	// Once ends the run when every table is copied and all are drained at the same time.
	Once bool
}
