package engine

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/relay"
)

// Events are the callbacks through which the pipeline reports: logs, metrics and the demo's
// narration use them. Every field may be nil. Many tasks call them concurrently. They must return
// soon and never carry item data.
type Events struct {
	// CoordinatorTaken: this worker became coordinator of the table (it lists shards, renews the
	// witness, loads).
	CoordinatorTaken func(table string, epoch uint64)
	// CoordinatorLeft: it stopped being coordinator. Err is the reason, nil after a clean stop.
	CoordinatorLeft func(table string, err error)
	// Waits: in its first pass this worker found leases of other workers: the table's coordinator
	// lease, or leases of shards. It acquires each lease that is not renewed within wait. So a
	// worker that replaces a killed one waits that long.
	Waits func(table string, of Leases, leases int, wait time.Duration)
	// ShardTaken and ShardLeft mark the time for which this worker reads a shard. Err is the reason
	// why it stopped: nil if the shard is done or was released.
	ShardTaken func(table, shard string, epoch uint64)
	ShardLeft  func(table, shard string, err error)
	ShardDone  func(table, shard string)
	// Ledger reports the table's record and its number of shards by state, in every pass. The map
	// is nil while the table is halted or paused, because then no coordinator lists its stream.
	Ledger func(state checkpoint.TableState, shards map[checkpoint.State]int)
	// PageRead: a read of a shard succeeded; its page may be empty.
	PageRead func(table string, changes Tally)
	// PageDone: all changes of a page are durable, or the page was empty. A page that could not be
	// written is read again and does not count as progress.
	PageDone func(table string)
	// Applied: changes are durable. They were folded into the given number of rows.
	Applied func(table string, changes Tally, rows int)
	// Published: messages are durable in the topic, or a failure blocked their keys for a while.
	Published func(table string, done relay.Published)
	// Ignored: a rule of the mapping excludes this many items of a page or of the copy. "" is a
	// rule without a name.
	Ignored func(table, rule string, items int)
	// Lag is the lag of the table's worst shard on this worker. It is the age of the last applied
	// change while more changes wait, and otherwise the time since the last empty page. Headroom is
	// the time left of the stream's 24 hours.
	Lag func(table string, lag, headroom time.Duration)
	// NotReading: this worker reads no shard of the table and has released none that is still free,
	// so it knows no lag. Like Lag it is called in every pass, even in one that fails, and after a
	// shard was left.
	NotReading func(table string)
	// Joined: a table of a pattern was found, and this worker now takes part in it.
	Joined func(table string)
	// Discovered: the search for tables of patterns ended. Err is the reason why some or all tables
	// could not be checked; the search is repeated.
	Discovered func(err error)
	// Suspended: a table of a pattern cannot be followed. The reason has fixed words. The other
	// tables continue.
	Suspended func(table, reason string)
	// Gap: changes are lost; the table needs a load.
	Gap func(table, shard, reason string)
	// Raised: the table's generation rose.
	Raised func(table string, generation uint32, reason string)
	// Compared: this many rows were compared with their items.
	Compared func(table string, rows int64)
	// Retry: a step failed and is repeated after wait.
	Retry func(table, step string, wait time.Duration, err error)
	// Refused: so many messages that the ledger never had were published to the dead-letter topic; the
	// reason, without item data, is that of the first.
	Refused func(table, reason string, messages int)
	// CopyStarted, Copied and CopyDone frame the first copy. Estimate is DynamoDB's own count,
	// hours old.
	CopyStarted func(table string, estimate, done int64)
	Copied      func(table string, items int64)
	CopyDone    func(table string, items int64)
	// Exporting: DynamoDB accepted the request to export the table. Failed is the reason why the
	// export failed, "" while it is in progress.
	Exporting func(table, arn, failed string)
	// CopyLeft: this worker no longer copies, because the copy is done, another coordinator
	// continues it, or a gap made it useless. It follows each CopyStarted.
	CopyLeft func(table string)
	// Throttled: the table's work waited for a limit of the program or of a service.
	Throttled func(table, reason string, waited time.Duration)
	// Tick: a loop of this process made a turn.
	Tick func()
}

// Leases names a kind of lease.
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
