package engine

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/relay"
)

// Events are the callbacks through which the pipeline reports: logs, metrics and the demo's
// narration use them. Every field may be nil. Many tasks call them concurrently. A callback must
// return quickly. Arguments of callbacks never contain item data.
type Events struct {
	// CoordinatorTaken: this worker became coordinator of the table (it lists shards, renews the
	// witness, loads).
	CoordinatorTaken func(table string, epoch uint64)
	// CoordinatorLeft: this worker stopped being coordinator of the table. Err is the reason; nil
	// after a clean stop.
	CoordinatorLeft func(table string, err error)
	// Waits: in its first pass, this worker found leases of other workers. The leases are the
	// coordinator lease of the table, or leases of shards. This worker acquires each lease that is
	// not renewed within `wait`. So a worker that replaces a killed worker must wait for that time.
	Waits func(table string, of Leases, leases int, wait time.Duration)
	// ShardTaken and ShardLeft: this worker began, or stopped, to read a shard. Err is the reason
	// for the stop; nil if the shard is done or was released.
	ShardTaken func(table, shard string, epoch uint64)
	ShardLeft  func(table, shard string, err error)
	ShardDone  func(table, shard string)
	// Ledger is called in every pass with the table's record and its number of shards by state. The
	// map is nil while the table is halted or paused, because no coordinator then lists the table's
	// stream.
	Ledger func(state checkpoint.TableState, shards map[checkpoint.State]int)
	// PageRead: a read of a shard succeeded. The page may be empty.
	PageRead func(table string, changes Tally)
	// PageDone: all changes of a page are durable, or the page was empty. A page that could not be
	// written is read again, and does not count as progress.
	PageDone func(table string)
	// Applied: changes are durable. The changes were folded into writes of the given number of
	// rows.
	Applied func(table string, changes Tally, rows int)
	// Published: messages are durable in the topic, or a failure blocked their ordering keys for
	// some time.
	Published func(table string, done relay.Published)
	// Ignored: a rule of the mapping excludes this many items of a page or of the copy. The name of
	// a rule without a name is "".
	Ignored func(table, rule string, items int)
	// Lag: the largest lag of the table's shards on this worker. While changes of a shard wait, its
	// lag is the age of the last applied change. Otherwise its lag is the time since the last empty
	// page. Headroom is the time until the stream drops the oldest unread change.
	Lag func(table string, lag, headroom time.Duration)
	// NotReading: this worker knows no lag of the table. It reads no shard of the table, and no
	// shard that it released is still free. NotReading or Lag is called in every pass, even if the
	// pass fails, and after this worker stopped reading a shard.
	NotReading func(table string)
	// Joined: a table that matches a pattern was found, and this worker has begun to replicate it.
	Joined func(table string)
	// Discovered: a search for tables that match the patterns ended. If err is not nil, some or all
	// tables could not be checked, and the search is repeated.
	Discovered func(err error)
	// Suspended: a table that matches a pattern cannot be replicated. The reason is one of a few
	// fixed texts. Other tables are not affected.
	Suspended func(table, reason string)
	// Gap: changes of a table are lost, so the table needs a load.
	Gap func(table, shard, reason string)
	// Raised: the table's generation was raised.
	Raised func(table string, generation uint32, reason string)
	// Compared: the given number of rows was compared with their items.
	Compared func(table string, rows int64)
	// Diverged: a comparison of recent changes has found the given number of rows that were not known
	// to differ, in a table with dual writes. The number may be 0.
	Diverged func(table string, rows int64)
	// Retry: a step failed, and is retried after `wait`.
	Retry func(table, step string, wait time.Duration, err error)
	// Refused: messages were published to the dead-letter topic, because the ledger does not know
	// their changes. The reason is that of the first message; it has no item data.
	Refused func(table, reason string, messages int)
	// CopyStarted, Copied and CopyDone: the beginning, the progress and the end of a table's first
	// copy. Estimate is DynamoDB's own count of items, which may be hours old.
	CopyStarted func(table string, estimate, done int64)
	Copied      func(table string, items int64)
	CopyDone    func(table string, items int64)
	// Exporting: DynamoDB accepted the request to export the table. The argument `failed` is why
	// the export failed; "" while it is in progress.
	Exporting func(table, arn, failed string)
	// CopyLeft: this worker no longer copies the table. The copy is done, another coordinator
	// continues it, or a gap made it useless. Each CopyStarted is followed by a CopyLeft.
	CopyLeft func(table string)
	// Throttled: work on the table had to wait because of a limit of the program or of a service.
	Throttled func(table, reason string, waited time.Duration)
	// Tick: a loop of this process began its next pass.
	Tick func()
}

// Leases is the name of a kind of lease, in the plural.
type Leases string

const (
	OfCoordinator Leases = "coordinating the table"
	OfShards      Leases = "reading its shards"
)

// OrSilent replaces nil callbacks, so that callers need no nil checks.
func (e Events) OrSilent() Events {
	if e.CoordinatorTaken == nil {
		e.CoordinatorTaken = func(table string, epoch uint64) {}
	}
	if e.CoordinatorLeft == nil {
		e.CoordinatorLeft = func(table string, err error) {}
	}
	if e.Waits == nil {
		e.Waits = func(table string, of Leases, leases int, wait time.Duration) {}
	}
	if e.ShardTaken == nil {
		e.ShardTaken = func(table, shard string, epoch uint64) {}
	}
	if e.ShardLeft == nil {
		e.ShardLeft = func(table, shard string, err error) {}
	}
	if e.ShardDone == nil {
		e.ShardDone = func(table, shard string) {}
	}
	if e.Ledger == nil {
		e.Ledger = func(state checkpoint.TableState, shards map[checkpoint.State]int) {}
	}
	if e.PageRead == nil {
		e.PageRead = func(table string, changes Tally) {}
	}
	if e.PageDone == nil {
		e.PageDone = func(table string) {}
	}
	if e.Compared == nil {
		e.Compared = func(table string, rows int64) {}
	}
	if e.Diverged == nil {
		e.Diverged = func(table string, rows int64) {}
	}
	if e.Applied == nil {
		e.Applied = func(table string, changes Tally, rows int) {}
	}
	if e.Published == nil {
		e.Published = func(table string, done relay.Published) {}
	}
	if e.Ignored == nil {
		e.Ignored = func(table, rule string, items int) {}
	}
	if e.Lag == nil {
		e.Lag = func(table string, lag, headroom time.Duration) {}
	}
	if e.NotReading == nil {
		e.NotReading = func(table string) {}
	}
	if e.Joined == nil {
		e.Joined = func(table string) {}
	}
	if e.Discovered == nil {
		e.Discovered = func(err error) {}
	}
	if e.Suspended == nil {
		e.Suspended = func(table, reason string) {}
	}
	if e.Gap == nil {
		e.Gap = func(table, shard, reason string) {}
	}
	if e.Raised == nil {
		e.Raised = func(table string, generation uint32, reason string) {}
	}
	if e.Retry == nil {
		e.Retry = func(table, step string, wait time.Duration, err error) {}
	}
	if e.Refused == nil {
		e.Refused = func(table, reason string, messages int) {}
	}
	if e.CopyStarted == nil {
		e.CopyStarted = func(table string, estimate, done int64) {}
	}
	if e.Copied == nil {
		e.Copied = func(table string, items int64) {}
	}
	if e.CopyDone == nil {
		e.CopyDone = func(table string, items int64) {}
	}
	if e.Exporting == nil {
		e.Exporting = func(table, arn, failed string) {}
	}
	if e.CopyLeft == nil {
		e.CopyLeft = func(table string) {}
	}
	if e.Throttled == nil {
		e.Throttled = func(table, reason string, waited time.Duration) {}
	}
	if e.Tick == nil {
		e.Tick = func() {}
	}
	return e
}
