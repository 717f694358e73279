package cost

import (
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// Run holds the settings that determine how many requests are sent. The zero value is for a
// migration that reads no stream.
type Run struct {
	Active time.Duration // time between two reads of a shard with recent changes
	Idle   time.Duration // time between two reads of a shard that had no change for minutes
	Lease  time.Duration // state.lease
	Pass   time.Duration // time between two passes over the ledger
	Survey time.Duration // time between two reads of all shards by each worker, for metrics
}

// Requests counts the requests to both services, including those for the ledger.
type Requests struct {
	StreamReads  float64 // GetRecords of an idle shard
	ActiveReads  float64 // GetRecords of a shard with recent changes
	Writes       float64 // maximum number of conditional writes to target tables
	LedgerWrites float64 // conditional writes of the ledger
	LedgerRows   float64 // rows read from the ledger
}

const (
	looksAtAll = 2 // reads of a table's shards by its coordinator in each pass
	// Reads of a table's shards by its coordinator in a pass that lists the shards, once a minute.
	looksToList = 4
)

// ShardHour returns the requests per hour for an open shard. A worker polls the shard. Three times
// per lease duration, it renews the lease and records progress, in one write. The worker with the
// coordinator reads the shard's row twice in each pass: once in its assigner, and once in its
// coordinator. It reads the row again for metrics. Every other worker reads the row about half as
// often, and less often in a large fleet.
func (r Run) ShardHour() Requests {
	return Requests{
		StreamReads:  time.Hour.Seconds() / r.Idle.Seconds(),
		ActiveReads:  time.Hour.Seconds() / r.Active.Seconds(),
		LedgerWrites: time.Hour.Seconds() / (r.Lease / 3).Seconds(),
		LedgerRows:   looksAtAll*time.Hour.Seconds()/r.Pass.Seconds() + looksToList*time.Hour.Minutes() + time.Hour.Seconds()/r.Survey.Seconds(),
	}
}

// MillionChanges returns the requests for a million changes. The figure of writes is a maximum,
// because several changes of an item in one page cause one write. In addition, each shard causes at
// most one ledger write per second. Changes cause no additional GetRecords: a shard with changes is
// read at fixed intervals.
func MillionChanges() Requests { return Requests{Writes: million} }

// requests returns the cost of those requests whose number depends on shards and changes.
func (p Prices) requests(t Table, run Run) []Line {
	price := p.Prices["stream_read_million"].Price
	shard := run.ShardHour()
	lines := []Line{
		{What: "requests for an idle shard", Quantity: count(shard.StreamReads) + " GetRecords", Per: perShardHour,
			Amount: shard.StreamReads / million * price, Price: "stream_read_million",
			Note: fmt.Sprintf("also in Bigtable: %s ledger writes and %s read", count(shard.LedgerWrites), counted(shard.LedgerRows, "row"))},
		{What: "requests for an active shard", Quantity: count(shard.ActiveReads) + " GetRecords", Per: perShardHour,
			Amount: shard.ActiveReads / million * price, Price: "stream_read_million",
			Note: "also in Bigtable: at most one ledger write a second"},
		{What: "requests for changes", Quantity: count(MillionChanges().Writes) + " conditional writes", Per: perMillionChanges,
			Note: "at most, in Bigtable"},
	}
	if t.OpenShards > 0 {
		daily := func(between time.Duration) float64 {
			return float64(t.OpenShards) * secondsADay / between.Seconds() / million * price
		}
		lines = append(lines, Line{What: "stream reads", Quantity: fmt.Sprintf("%s read every %s", terminal.Plural(t.OpenShards, "shard"), run.Idle),
			Amount: daily(run.Idle), Per: day, Price: "stream_read_million",
			Note: fmt.Sprintf("while idle; %.2f a day if every shard always has changes, and is read every %s", daily(run.Active), run.Active)})
	}
	return lines
}
