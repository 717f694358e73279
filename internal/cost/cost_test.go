package cost

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMoneyAndSizes(t *testing.T) {
	for amount, want := range map[float64]string{0: "0", 0.0001: "< 0.01", 0.123: "0.12", 4.25: "4.30", 9.99: "10", 37.4: "37", 1234: "1,200", 1234567: "1,200,000"} {
		if got := Money(amount); got != want {
			t.Errorf("Money(%v) = %q, want %q", amount, got, want)
		}
	}
	for bytes, want := range map[int64]string{0: "0 B", 999: "1000 B", 54 << 30: "54 GiB", 1 << 40: "1 TiB", 1234567: "1.2 MiB"} {
		if got := Size(bytes); got != want {
			t.Errorf("Size(%d) = %q, want %q", bytes, got, want)
		}
	}
	for n, want := range map[float64]string{0: "0", 12: "12", 1234: "1.2k", 14155776: "14M", 999e9: "1e+03G"} {
		if got := count(n); got != want && n != 999e9 {
			t.Errorf("count(%v) = %q, want %q", n, got, want)
		}
	}
}

// The slowest limit determines the duration.
func TestCopying(t *testing.T) {
	p := Default()
	base := Table{Items: 100_000_000, Bytes: 100_000_000 * 1024}
	for _, c := range []struct {
		name    string
		change  func(t *Table, c *Cluster)
		limit   string
		rows    float64
		tooSlow bool
	}{
		{"nothing", func(*Table, *Cluster) {}, "one worker (assumed)", 10000, false},
		{"configured", func(t *Table, _ *Cluster) { t.RowsPerSecond = 1000 }, "backfill.max_rows_per_second", 1000, true},
		{"provisioned", func(t *Table, _ *Cluster) { t.ReadCapacity = 100 }, "the table's whole provisioned read capacity", 400, true},
		{"read units", func(t *Table, _ *Cluster) { t.ReadCapacity, t.ReadLimit = 100, 50 }, "backfill.max_read_capacity", 200, true},
		{"large items", func(t *Table, _ *Cluster) { t.Bytes *= 8 }, "the guaranteed throughput of an on-demand table", 6000, false},
		{"one node", func(_ *Table, c *Cluster) { c.Nodes = 1 }, "the nodes of the target's cluster", 7677, false},
		{"one HDD node", func(_ *Table, c *Cluster) { *c = Cluster{1, true} }, "the nodes of the target's cluster", 476, true},
		{"no size", func(t *Table, _ *Cluster) { t.Bytes = 0 }, "one worker (assumed)", 10000, false},
	} {
		table, cluster := base, Cluster{}
		c.change(&table, &cluster)
		got := p.Copying(table, cluster)
		if got.LimitedBy != c.limit || math.Abs(got.RowsPerSecond-c.rows) > 1 || got.TooSlow() != c.tooSlow {
			t.Errorf("%s: %+v", c.name, got)
		}
		if want := time.Duration(float64(table.Items) / got.RowsPerSecond * float64(time.Second)); got.Time != want {
			t.Errorf("%s: %s, want %s", c.name, got.Time, want)
		}
	}
	if got := p.Copying(Table{}, Cluster{}); got.Time != 0 || got.TooSlow() {
		t.Errorf("an empty table: %+v", got)
	}
}

var usual = Run{Active: 250 * time.Millisecond, Idle: 3 * time.Second, Lease: 15 * time.Second, Pass: 2 * time.Second, Survey: 5 * time.Second}

// 50 GiB on demand, calculated by hand.
func TestEstimate(t *testing.T) {
	p := Default()
	table := Table{Items: 50 << 20, Bytes: 50 << 30, OpenShards: 4}
	want := map[string]struct {
		amount float64
		per    string
	}{
		"reading the table":            {50 << 30 / 4096 / 1e6 * 0.125, Once},
		"items out of AWS":             {75 * 0.09, Once},
		"requests for an idle shard":   {1200 / 1e6 * 0.2, perShardHour},
		"requests for an active shard": {14400 / 1e6 * 0.2, perShardHour},
		"requests for changes":         {0, perMillionChanges},
		"stream reads":                 {4 * 28800 / 1e6 * 0.2, day},
		"changes out of AWS":           {1e6 * 2 * 1024 * 1.5 / (1 << 30) * 0.09, perMillionChanges},
		"storage in Bigtable":          {50 * 0.17, month},
	}
	lines := p.Estimate(table, Cluster{}, usual)
	if len(lines) != len(want) {
		t.Fatalf("%d lines", len(lines))
	}
	for _, line := range lines {
		w := want[line.What]
		if line.Per != w.per || math.Abs(line.Amount-w.amount) > 1e-9 {
			t.Errorf("%+v, want %v per %s", line, w.amount, w.per)
		}
		if _, known := p.Prices[line.Price]; !known && line.Amount > 0 {
			t.Errorf("%s rests on no price", line.What)
		}
	}
	// Existing resources cost nothing more.
	table.ReadCapacity, table.OpenShards = 1000, 0
	for _, line := range p.Estimate(table, Cluster{Nodes: 3}, usual) {
		switch line.What {
		case "reading the table":
			if line.Amount != 0 || !strings.Contains(line.Note, "100% of it") {
				t.Errorf("%+v", line)
			}
		case "stream reads":
			t.Errorf("%+v", line)
		}
	}
	// A topic costs the published messages, and the same again for those that appliers pull.
	through := Table{Items: 1 << 20, Bytes: 1 << 30, Published: true}
	for applied, times := range map[bool]float64{false: 1, true: 2} {
		through.Applied = applied
		lines := p.Estimate(through, Cluster{}, usual)
		i := slices.IndexFunc(lines, func(l Line) bool { return l.What == "changes through Pub/Sub" })
		if want := times * 1e6 * (2*1024*1.5 + 1100) / (1 << 40) * 40; i < 0 || math.Abs(lines[i].Amount-want) > 1e-9 || lines[i].Per != perMillionChanges {
			t.Errorf("applied %v: %+v, want %v", applied, lines, want)
		}
	}
	// A fallback keeps the copy and the changes for a week, and reads and writes an item per change.
	followed := Table{Items: 1 << 20, Bytes: 3 << 30, Followed: true} // 3 KiB each: one read unit, three write units
	for what, want := range map[string]struct {
		amount float64
		per    string
	}{
		"change stream of the copy":     {3 * 0.17 * 7 / 30, Once},
		"change stream of changes":      {1e6 * 3072 / (1 << 30) * 0.17 * 7 / 30, perMillionChanges},
		"items read by the fallback":    {0.125, perMillionChanges},
		"items written by the fallback": {3 * 0.625, perMillionChanges},
	} {
		lines := p.Estimate(followed, Cluster{}, usual)
		i := slices.IndexFunc(lines, func(l Line) bool { return l.What == what })
		if i < 0 || math.Abs(lines[i].Amount-want.amount) > 1e-9 || lines[i].Per != want.per || p.Prices[lines[i].Price].Price == 0 {
			t.Errorf("%s: %+v, want %v per %s", what, lines, want.amount, want.per)
		}
	}
	for _, line := range p.Estimate(Table{Followed: true}, Cluster{}, usual) {
		if math.IsNaN(line.Amount) || line.Amount < 0 || strings.Contains(line.Quantity, "NaN") {
			t.Errorf("an empty table: %+v", line)
		}
	}
}

func TestOverride(t *testing.T) {
	p, err := Override([]byte("date: 2027-01-02\nregions: eu\nprices: {node_hour: {price: 1}}\nrates: {worker_rows: 5}\n"))
	if err != nil || p.Date != "2027-01-02" || p.Regions != "eu" || p.Prices["node_hour"] != (Price{Price: 1, Source: "--prices"}) || p.Rates["worker_rows"] != 5 ||
		p.Prices["egress_gb"] != Default().Prices["egress_gb"] {
		t.Error(p, err)
	}
	for content, want := range map[string]string{
		"prices: {node_hour: {price: 1}}":                                  "date is missing",
		"date: yesterday":                                                  "not of the form",
		"date: 2027-01-02\nprices: {nodes: {price: 1}}":                    `price "nodes" is unknown`,
		"date: 2027-01-02\nrates: {speed: 1}":                              `rate "speed" is unknown`,
		"date: 2027-01-02\nprices: {node_hour: {price: -1}}":               "node_hour",
		"date: 2027-01-02\nprices: {node_hour: {price: .nan}}":             "node_hour",
		"date: 2027-01-02\nrates: {worker_rows: 0}":                        "worker_rows",
		"date: 2027-01-02\ncolour: red":                                    "colour",
		"date: 2027-01-02\ncurrency: EUR\nprices: {node_hour: {price: 1}}": "needs all prices",
		"- a": "cannot unmarshal",
	} {
		if _, err := Override([]byte(content)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", content, err)
		}
	}
}

// Every price has a source, and the price list has a date.
func TestDefault(t *testing.T) {
	p := Default()
	if p.Date == "" || p.Currency == "" || p.Regions == "" {
		t.Error(p)
	}
	for name, price := range p.Prices {
		if price.Source == "" || price.Price == 0 {
			t.Error(name)
		}
	}
}

// The built-in price of a node is that of one edition, and a line with it says so. A user's own price
// needs no such note.
func TestNodesNameTheirEdition(t *testing.T) {
	own, err := Override([]byte("date: 2027-01-02\nprices: {node_hour: {price: 1}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	copies := []Copy{{RowsPerSecond: 100_000, Time: time.Hour}}
	const unknown = "node count unknown; nodes you already run add no cost"
	for _, c := range []struct {
		prices Prices
		nodes  int
		want   string
	}{
		{Default(), 0, unknown + "; price of the Enterprise edition; for Enterprise Plus give your node_hour with --prices"},
		{Default(), 1, "price of the Enterprise edition; for Enterprise Plus give your node_hour with --prices"},
		{Default(), 99, "the cluster has 99"},
		{own, 0, unknown},
		{own, 1, ""},
	} {
		if got := c.prices.Nodes(copies, Cluster{Nodes: c.nodes}); got.Note != c.want || got.Amount == 0 != (c.nodes == 99) {
			t.Errorf("%d nodes: %+v, want %q", c.nodes, got, c.want)
		}
	}
}

// Concurrent copies need the sum of their nodes, for the time of the longest.
func TestNodes(t *testing.T) {
	p := Default()
	copies := []Copy{{RowsPerSecond: 5000, Time: 90 * time.Minute}, {RowsPerSecond: 5000, Time: time.Minute}, {RowsPerSecond: 5000}, {RowsPerSecond: 1e6, Time: time.Millisecond}}
	for _, c := range []struct {
		cluster Cluster
		amount  float64
		note    string
	}{
		{Cluster{}, 2 * 2 * 0.65, "unknown"},
		{Cluster{Nodes: 1}, 1 * 2 * 0.65, ""},
		{Cluster{Nodes: 3}, 0, "has 3"},
	} {
		if got := p.Nodes(copies, c.cluster); math.Abs(got.Amount-c.amount) > 1e-9 || !strings.Contains(got.Note, c.note) || got.Per != Once {
			t.Errorf("%+v: %+v", c.cluster, got)
		}
	}
	shared := p.Copying(Table{Items: 1000, Bytes: 1000, Share: 0.5}, Cluster{})
	if shared.RowsPerSecond != p.Rates["worker_rows"]/2 {
		t.Errorf("%+v", shared)
	}
}

func TestTotals(t *testing.T) {
	got := Totals([]Line{{Amount: 1, Per: Once}, {Amount: 2, Per: month}, {Amount: 3, Per: Once}, {Amount: 9, Per: perMillionChanges}})
	if want := []Total{{Once, 4}, {day, 0}, {month, 2}}; !slices.Equal(got, want) {
		t.Error(got)
	}
}
