package cost

import (
	"fmt"
	"math"
	"time"
)

// Run is what decides how often both services are asked. The zero value: nothing is followed.
type Run struct {
	Poll  time.Duration // source.poll
	Lease time.Duration // state.lease
}

// Requests are what both services are asked, the ledger included.
type Requests struct {
	StreamReads  float64 // GetRecords
	Writes       float64 // conditional writes of rows of target tables, at most
	LedgerWrites float64 // conditional writes of the ledger
	LedgerRows   float64 // rows that are read of the ledger
}

const (
	pageRecords = 1000    // records of a page of GetRecords, at most
	pageBytes   = 1 << 20 // and their size
	looksAtAll  = 2       // of the worker that keeps a table, at its shards, in a pass
	looksToList = 4       // and when it lists them, every minute
)

// IdleShardHour is what an open shard without changes takes in an hour: it is polled, its lease is
// renewed every third, together with its progress, and its row is read by the worker that keeps the
// table in each pass, once by what leases shards and once by what looks after the table. Every other
// worker reads it half as often, and less often in a large fleet.
func (r Run) IdleShardHour() Requests {
	pass := min(2*time.Second, r.Lease/3)
	return Requests{
		StreamReads:  time.Hour.Seconds() / r.Poll.Seconds(),
		LedgerWrites: time.Hour.Seconds() / (r.Lease / 3).Seconds(),
		LedgerRows:   looksAtAll*time.Hour.Seconds()/pass.Seconds() + looksToList*time.Hour.Minutes(),
	}
}

// MillionChanges is what a million changes take, of items of so many bytes: records carry two
// images. A page that has several changes of an item writes its row once. Beside that a shard has at
// most one ledger write a second.
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
