package engine

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/source"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// Options are everything a worker needs. Interfaces are used from many tasks at once.
type Options struct {
	Ledger *checkpoint.Ledger
	Writer *sink.Writer
	// Floors is what the writer's floor was made from: the pipeline keeps it up to date.
	Floors   *Floors
	Database Database
	// Folders opens what loads copy in place of a scan; nil: this worker only scans.
	Folders source.Folders
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
	// CPU; "" if they need not, or it is unknown. Nil: nobody watches.
	Busy func(ctx context.Context, above float64) (why string)
	// Families creates and drops the families of the fence; nil: it is withheld.
	Families sink.Families
	// Restore makes a mapping of what transform.Mapping.Describe says of it; nil: what a former
	// mapping wrote is not found.
	Restore func(text string) (*transform.Mapping, error)
	// Prepare makes what is missing of a target table that was lost, and tells whether that was the
	// table as a whole; nil: another process does.
	Prepare func(ctx context.Context, targetTable string) (made bool, err error)
	// Cluster says which cluster the app profile routes to; "" if it is unknown. Nil if nothing
	// can.
	Cluster func(ctx context.Context) (string, error)
	Tables  []Spec
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
	// and then every DiscoverEvery, with what reports whether a table is followed already. What it
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
