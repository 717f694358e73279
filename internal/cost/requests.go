package cost

import (
	"fmt"
	"math"
	"time"
)

// Run holds the settings that determine how many requests are sent. The zero value is for a
// migration that reads no stream.
type Run struct {
	Poll  time.Duration // source.poll
	Lease time.Duration // state.lease
}

// Requests counts the requests to both services, including those for the ledger.
type Requests struct {
	StreamReads  float64 // GetRecords
	Writes       float64 // maximum number of conditional writes to target tables
	LedgerWrites float64 // conditional writes of the ledger
	LedgerRows   float64 // rows read from the ledger
}

const (
	pageRecords = 1000    // maximum records of a page of GetRecords
	pageBytes   = 1 << 20 // maximum bytes of a page of GetRecords
	looksAtAll  = 2       // reads of a table's shards by its coordinator in each pass
	// Reads of a table's shards by its coordinator in a pass that lists the shards, once a minute.
	looksToList = 4
)

// IdleShardHour returns the requests per hour for an open shard without changes. A worker polls the
// shard. Three times per lease duration, it renews the lease and records progress, in one write.
// The worker with the coordinator reads the shard's row twice in each pass: once in its assigner,
// and once in its coordinator. Every other worker reads the row half as often, and less often in a
// large fleet.
func (r Run) IdleShardHour() Requests {
	pass := min(2*time.Second, r.Lease/3)
	return Requests{
		StreamReads:  time.Hour.Seconds() / r.Poll.Seconds(),
		LedgerWrites: time.Hour.Seconds() / (r.Lease / 3).Seconds(),
		LedgerRows:   looksAtAll*time.Hour.Seconds()/pass.Seconds() + looksToList*time.Hour.Minutes(),
	}
}

// MillionChanges returns the requests for a million changes of items of the given size. Records
// carry two images. The figure of writes is a maximum, because several changes of an item in one
// page cause one write. In addition, each shard causes at most one ledger write per second.
func MillionChanges(itemBytes float64) Requests {
	return Requests{StreamReads: math.Max(million/pageRecords, 2*itemBytes*million/pageBytes), Writes: million}
}

func (p Prices) requests(t Table, run Run) []Line {
	price := p.Prices["stream_read_million"].Price
	idle, busy := run.IdleShardHour(), MillionChanges(float64(t.Bytes)/math.Max(float64(t.Items), 1))
	return []Line{
		{What: "requests for an idle shard", Quantity: count(idle.StreamReads) + " GetRecords", Per: perIdleShardHour,
			Amount: idle.StreamReads / million * price, Price: "stream_read_million",
			Note: fmt.Sprintf("also in Bigtable: %s ledger writes and %s read", count(idle.LedgerWrites), counted(idle.LedgerRows, "row"))},
		{What: "requests for changes", Quantity: count(busy.StreamReads) + " GetRecords", Per: perMillionChanges,
			Amount: busy.StreamReads / million * price, Price: "stream_read_million",
			Note: fmt.Sprintf("also in Bigtable: at most %s conditional writes, and one ledger write a second for each busy shard", count(busy.Writes))},
	}
}
