package cost

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

const (
	gib         = 1 << 30
	tib         = 1 << 40
	readUnit    = 4096 // bytes of one strongly consistent read unit
	writeUnit   = 1024 // bytes of one write unit
	secondsADay = 24 * 60 * 60
	million     = 1_000_000
)

// longestCopy is the maximum duration of a copy. The stream keeps changes for 24 hours, so six
// hours are left for failures.
const longestCopy = 18 * time.Hour

// Table is everything known about a source table.
type Table struct {
	Items, Bytes int64 // DynamoDB's own counts
	// ReadCapacity is the provisioned capacity in read units a second; 0 if the table is billed per
	// request.
	ReadCapacity int64
	// OpenShards is the number of shards of the stream that are currently open; 0 if unknown.
	OpenShards int
	// RowsPerSecond and ReadLimit, in read units a second, are the configured limits; 0 means none.
	RowsPerSecond, ReadLimit float64
	// Published reports that changes are published to a topic. Applied reports that they are also
	// pulled from the topic.
	Published, Applied bool
	// Followed reports that the table's items follow its rows after a cutover.
	Followed bool
	// From names the export that is copied, and Files is the number of its files. Files is 0 if the
	// table is scanned instead. If Outside, the export is not in AWS.
	From    string
	Files   int
	Outside bool
	// Share is the part of a worker's and the cluster's capacity that this table can use while
	// other tables are copied concurrently; 0 means all.
	Share float64
	// Fast reports that the copy writes many rows in one request, without a condition.
	Fast bool
}

func (t Table) share() float64 {
	if t.Share <= 0 {
		return 1
	}
	return t.Share
}

// Cluster is everything known about the target's cluster; Nodes is 0 if it is unknown.
type Cluster struct {
	Nodes int
	HDD   bool
}

// Copy is the estimated duration of a table's copy.
type Copy struct {
	RowsPerSecond float64
	LimitedBy     string
	Time          time.Duration // 0 if the table is empty
	Fast          bool          // see Table.Fast
}

// TooSlow reports whether the copy takes so long that the stream may drop changes before they are
// read.
func (c Copy) TooSlow() bool { return c.Time > longestCopy }

// Copying estimates the copy of a table by one worker, as the lowest of all bounds.
func (p Prices) Copying(t Table, c Cluster) Copy {
	out := Copy{RowsPerSecond: p.Rates["worker_rows"] * p.speedup(t) * t.share(), LimitedBy: "one worker (assumed)", Fast: t.Fast}
	slower := func(rows float64, by string) {
		if rows > 0 && rows < out.RowsPerSecond {
			out.RowsPerSecond, out.LimitedBy = rows, by
		}
	}
	slower(t.RowsPerSecond, "backfill.max_rows_per_second")
	if t.Items > 0 && t.Bytes > 0 && t.Files == 0 {
		units := math.Max(float64(t.Bytes)/float64(t.Items)/readUnit, 1.0/readUnit)
		if t.ReadCapacity > 0 {
			slower(float64(t.ReadCapacity)/units, "the table's whole provisioned read capacity")
		} else {
			slower(p.Rates["on_demand_reads"]/units, "the guaranteed throughput of an on-demand table")
		}
		slower(t.ReadLimit/units, "backfill.max_read_capacity")
	}
	slower(float64(c.Nodes)*p.nodeRows(t.Fast, c.HDD)*t.share(), "the nodes of the target's cluster")
	if t.Items > 0 {
		out.Time = time.Duration(math.Min(float64(t.Items)/out.RowsPerSecond, 1e9) * float64(time.Second))
	}
	return out
}

// smallItem is the maximum size, in bytes, of items that a fast copy writes at its full speed.
const smallItem = 1024

// speedup returns how many times as many rows a worker copies as under a condition for each row.
func (p Prices) speedup(t Table) float64 {
	switch {
	case !t.Fast:
		return 1
	case t.Bytes > smallItem*t.Items:
		return p.Rates["fast_large"]
	}
	return p.Rates["fast_small"]
}

// nodeRows returns how many rows per second a node accepts. Each guarded write reads and writes a
// row in one request. A fast copy only writes.
func (p Prices) nodeRows(fast, hdd bool) float64 {
	kind := "ssd"
	if hdd {
		kind = "hdd"
	}
	if fast {
		return p.Rates[kind+"_writes"]
	}
	return 1 / (1/p.Rates[kind+"_reads"] + 1/p.Rates[kind+"_writes"])
}

// Line is one item of an estimate.
type Line struct {
	What     string  `json:"what"`
	Quantity string  `json:"quantity"`
	Amount   float64 `json:"amount"` // amount in the currency of the prices
	Per      string  `json:"per"`    // the period: once, day, month, million changes or shard-hour
	Price    string  `json:"price"`  // the name of the unit price; empty if nothing is charged
	Note     string  `json:"note,omitempty"`
}

// The periods to which the amount of a Line can refer.
const (
	Once              = "once"
	day               = "day"
	month             = "month"
	perMillionChanges = "million changes"
	perShardHour      = "shard-hour"
)

// Estimate returns the cost of a table's migration, without the target's nodes. All tables share
// the nodes; see Nodes.
func (p Prices) Estimate(t Table, c Cluster, run Run) []Line {
	copying := p.Copying(t, c)
	lines := []Line{p.scan(t, copying)}
	if !t.Outside {
		lines = append(lines, p.egress(t))
	}
	if run.Idle > 0 {
		lines = append(lines, p.requests(t, run)...)
	}
	if t.Items > 0 {
		images := 2 * float64(t.Bytes) / float64(t.Items) * million // the new and the old image of each change
		lines = append(lines, Line{What: "changes out of AWS", Quantity: size(images * p.Rates["wire_factor"]),
			Amount: images * p.Rates["wire_factor"] / gib * p.Prices["egress_gb"].Price, Per: perMillionChanges, Price: "egress_gb"})
	}
	if t.Published {
		lines = append(lines, p.messages(t))
	}
	if t.Followed {
		lines = append(lines, p.fallback(t)...)
	}
	storage := "ssd_gb_month"
	if c.HDD {
		storage = "hdd_gb_month"
	}
	return append(lines, Line{What: "storage in Bigtable", Quantity: size(float64(t.Bytes)),
		Amount: float64(t.Bytes) / gib * p.Prices[storage].Price, Per: month, Price: storage, Note: "before compression"})
}

// messages returns the cost of sending changes through a topic.
func (p Prices) messages(t Table) Line {
	images := 2 * float64(t.Bytes) / math.Max(float64(t.Items), 1) // the new and the old image
	line := Line{What: "changes through Pub/Sub", Per: perMillionChanges, Price: "pubsub_tib", Note: "published; each subscription adds the same amount"}
	bytes := million * (images*p.Rates["wire_factor"] + p.Rates["message_bytes"])
	if t.Applied {
		bytes *= 2
		line.Note = "published, and pulled by appliers; each further subscription adds half of it"
	}
	line.Quantity, line.Amount = size(bytes), bytes/tib*p.Prices["pubsub_tib"].Price
	return line
}

// keptDays is how long a change stream of Bigtable keeps its records.
const keptDays = 7

// fallback returns the cost of a fallback. The change stream keeps the copy, and each change of
// replicator or the application. While the items follow, each change is also read and written in
// DynamoDB.
func (p Prices) fallback(t Table) []Line {
	each := float64(t.Bytes) / math.Max(float64(t.Items), 1)
	kept := func(bytes float64) float64 {
		return bytes / gib * p.Prices["change_stream_gb_month"].Price * keptDays / 30
	}
	units, writes := million*math.Max(math.Ceil(each/readUnit), 1), million*math.Max(math.Ceil(each/writeUnit), 1)
	return []Line{
		{What: "change stream of the copy", Quantity: size(float64(t.Bytes)), Amount: kept(float64(t.Bytes)), Per: Once, Price: "change_stream_gb_month", Note: fmt.Sprintf("kept for %d days", keptDays)},
		{What: "change stream of changes", Quantity: size(million * each), Amount: kept(million * each), Per: perMillionChanges, Price: "change_stream_gb_month", Note: fmt.Sprintf("kept for %d days", keptDays)},
		{What: "items read by the fallback", Quantity: counted(units, "read unit"), Amount: units / million * p.Prices["dynamodb_read_million"].Price, Per: perMillionChanges, Price: "dynamodb_read_million", Note: "after the switch, if the table is billed per request"},
		{What: "items written by the fallback", Quantity: counted(writes, "write unit"), Amount: writes / million * p.Prices["dynamodb_write_million"].Price, Per: perMillionChanges, Price: "dynamodb_write_million", Note: "after the switch, if the table is billed per request"},
	}
}

func (p Prices) scan(t Table, copying Copy) Line {
	if t.Files > 0 {
		return Line{What: "reading the " + t.From, Quantity: terminal.Plural(t.Files, "file"), Per: Once, Note: "no read units; a few requests for each file"}
	}
	units := math.Ceil(float64(t.Bytes) / readUnit)
	line := Line{What: "reading the table", Quantity: counted(units, "read unit"), Per: Once}
	if t.ReadCapacity > 0 {
		line.Note = "within the provisioned capacity, which you already pay for"
		if share := units / math.Max(copying.Time.Seconds(), 1) / float64(t.ReadCapacity); copying.Time > 0 {
			line.Note += fmt.Sprintf("; about %.0f%% of it during the copy", math.Min(100, math.Max(1, share*100)))
		}
		return line
	}
	line.Amount, line.Price = units/million*p.Prices["dynamodb_read_million"].Price, "dynamodb_read_million"
	return line
}

// Spent returns the cost of a load so far: the read units that DynamoDB counted, and the bytes of
// the items. Read units are priced as for a table that is billed per request.
func (p Prices) Spent(units float64, bytes int64) []Line {
	return []Line{
		{What: "reading the table", Quantity: counted(units, "read unit"), Per: Once, Price: "dynamodb_read_million",
			Amount: units / million * p.Prices["dynamodb_read_million"].Price, Note: "if it is billed per request"},
		p.egress(Table{Bytes: bytes}),
	}
}

// Export returns the cost of a full export of a table. The argument is the table's size, as
// DynamoDB counts it.
func (p Prices) Export(bytes int64) Line {
	return Line{What: "export to S3", Quantity: size(float64(bytes)), Amount: float64(bytes) / gib * p.Prices["export_gb"].Price, Per: Once, Price: "export_gb"}
}

func (p Prices) egress(t Table) Line {
	bytes := float64(t.Bytes) * p.Rates["wire_factor"]
	return Line{What: "items out of AWS", Quantity: size(bytes), Amount: bytes / gib * p.Prices["egress_gb"].Price, Per: Once, Price: "egress_gb",
		Note: "over the Internet"}
}

// Nodes returns the cost of the additional nodes that concurrent copies need. Bigtable bills a node
// for at least an hour.
func (p Prices) Nodes(copies []Copy, c Cluster) Line {
	var longest time.Duration
	for _, copying := range copies {
		longest = max(longest, copying.Time)
	}
	needed := max(1, int(math.Ceil(p.copyNodes(copies, c))))
	line := Line{What: "Bigtable nodes for the copy", Quantity: terminal.Plural(needed, "node"), Per: Once}
	if c.Nodes >= needed {
		line.Note = fmt.Sprintf("the cluster has %d", c.Nodes)
		return line
	}
	hours := math.Max(1, math.Ceil(longest.Hours()))
	line.Quantity = fmt.Sprintf("%s for %.0f h", terminal.Plural(needed-c.Nodes, "node"), hours)
	price := p.Prices["node_hour"]
	line.Amount, line.Price, line.Note = float64(needed-c.Nodes)*hours*price.Price, "node_hour", price.Note
	if c.Nodes == 0 {
		line.Note = strings.TrimSuffix("node count unknown; nodes you already run add no cost; "+price.Note, "; ")
	}
	return line
}

// copyNodes returns how many nodes concurrent copies use completely.
func (p Prices) copyNodes(copies []Copy, c Cluster) (nodes float64) {
	for _, copying := range copies {
		if copying.Time > 0 {
			// A copy that takes only seconds counts in part, because it does not need more nodes.
			nodes += copying.RowsPerSecond * min(1, copying.Time.Minutes()) / p.nodeRows(copying.Fast, c.HDD)
		}
	}
	return nodes
}

// Total is the sum of the amounts of one period.
type Total struct {
	Per    string  `json:"per"`
	Amount float64 `json:"amount"`
}

// Totals sums the amounts of lines by period. Costs that occur once come first.
func Totals(lines []Line) []Total {
	var out []Total
	for _, per := range []string{Once, day, month} { // the cost of a million changes is not part of a sum
		t := Total{Per: per}
		for _, line := range lines {
			if line.Per == per {
				t.Amount += line.Amount
			}
		}
		out = append(out, t)
	}
	return out
}

// counted formats a rounded number with its noun.
func counted(n float64, noun string) string {
	if n < 1000 {
		return terminal.Plural(int(n), noun)
	}
	return count(n) + " " + noun + "s"
}

// count formats a number with two significant digits and a unit.
func count(n float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if n >= unit.size {
			return fmt.Sprintf("%.2g", Round(n)/unit.size) + unit.name
		}
	}
	return fmt.Sprintf("%.0f", n)
}

// size formats a number of bytes with two significant digits.
func size(bytes float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	i := 0
	for ; bytes >= 1000 && i < len(units)-1; i++ {
		bytes /= 1024
	}
	return fmt.Sprintf("%.4g %s", Round(bytes), units[i])
}

// Size formats a number of bytes for people.
func Size(bytes int64) string { return size(float64(bytes)) }
