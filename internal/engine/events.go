package engine

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/relay"
)

// Events are what the pipeline tells of itself: logs, metrics and the demo's narration hang on
// them. Every field may be nil. They are called from many tasks, must return soon, and never carry
// item data.
type Events struct {
	// CoordinatorTaken: this worker now keeps the table (lists shards, beats the witness, loads).
	CoordinatorTaken func(table string, epoch uint64)
	// CoordinatorLeft: it no longer does; err is why, nil after a clean stop.
	CoordinatorLeft func(table string, err error)
	// Waits: at its first look this worker finds leases that others hold: of the table's coordinator
	// lease, or of shards. One that is not renewed within wait it takes over, so that a worker
	// which follows one that was killed waits so long.
	Waits func(table string, of Leases, leases int, wait time.Duration)
	// ShardTaken and ShardLeft frame the time for which this worker reads a shard. Err is why it
	// left: nil when the shard is done or was released.
	ShardTaken func(table, shard string, epoch uint64)
	ShardLeft  func(table, shard string, err error)
	ShardDone  func(table, shard string)
	// Ledger is what the ledger holds of a table, at every look: its record and its shards by
	// state; nil while the table is halted or paused, when nobody lists its stream.
	Ledger func(state checkpoint.TableState, shards map[checkpoint.State]int)
	// PageRead: a read of a shard succeeded; its page may be empty.
	PageRead func(table string, changes Tally)
	// PageDone: what was read with a page is durable, or it was empty. A page that could not be
	// written is read again, and is no progress.
	PageDone func(table string)
	// Applied: changes are durable; rows is how many rows they were folded into.
	Applied func(table string, changes Tally, rows int)
	// Published: messages are durable in the topic, or a failure blocked their keys for a while.
	Published func(table string, done relay.Published)
	// Ignored: a rule of the mapping says not to copy this many items, of changes or of the copy;
	// "" is a rule without a name.
	Ignored func(table, rule string, items int)
	// Lag is the table's worst shard here: the age of the last applied change while there are more,
	// otherwise the time since the last empty page. Headroom is what is left of the stream's 24
	// hours.
	Lag func(table string, lag, headroom time.Duration)
	// NotReading: this worker reads no shard of the table, nor gave one up that nobody has taken
	// since, so that it knows no lag. Like Lag it is told at every look, whether that succeeds or
	// not, and when a shard was left.
	NotReading func(table string)
	// Joined: a table of a pattern was found, and this worker takes part in it from now on.
	Joined func(table string)
	// Discovered: tables of patterns were looked for; err is why some, or all, could not be looked
	// at, which is repeated.
	Discovered func(err error)
	// Suspended: a table of a pattern cannot be followed, for a reason in fixed words; the others
	// go on.
	Suspended func(table, reason string)
	// Gap: changes are lost; the table needs a load.
	Gap func(table, shard, reason string)
	// Raised: the table's generation rose.
	Raised func(table string, generation uint32, reason string)
	// Compared: so many rows were compared with their items.
	Compared func(table string, rows int64)
	// Retry: a step failed and is repeated after wait.
	Retry func(table, step string, wait time.Duration, err error)
	// CopyStarted, Copied and CopyDone frame the first copy. Estimate is DynamoDB's own count,
	// hours old.
	CopyStarted func(table string, estimate, done int64)
	Copied      func(table string, items int64)
	CopyDone    func(table string, items int64)
	// Exporting: DynamoDB has taken the request for an export of the table; failed is why there will
	// be none, "" while it is under way.
	Exporting func(table, arn, failed string)
	// CopyLeft: this worker copies no longer, whether that is done, is gone on with by another
	// coordinator, or has become needless by a gap. It follows each CopyStarted.
	CopyLeft func(table string)
	// Throttled: the table's work waited for a limit: one of the program's, or one that a service
	// set.
	Throttled func(table, reason string, waited time.Duration)
	// Tick: the loops of this process turn.
	Tick func()
}

// Leases are what leases are of.
type Leases string

// The kinds of leases.
const (
	OfCoordinator Leases = "coordinating the table"
	OfShards      Leases = "reading its shards"
)

// OrSilent fills what is nil, so that callers need not look.
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
