package cost

import (
	"math"
	"testing"
	"time"
)

// The ways to repair a table of a million items of 1 KiB: a scan reads whole pages, the sweep after
// windows reads each other item alone, and an export uses no read units.
func TestWaysToRepair(t *testing.T) {
	p := Default()
	table := Table{Items: 1_000_000, Bytes: 1 << 30}
	near := func(what string, got, want float64) {
		if t.Helper(); math.Abs(got-want) > 0.01*want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	_, scan := p.ByScan(table)
	near("units of a scan", scan[0].Amount, 262_144e-6*p.Prices["dynamodb_read_million"].Price)
	took, export := p.ByExport(Table{Items: 1_000_000, Bytes: 1 << 30, ReadCapacity: 1})
	near("an export", export[0].Amount, p.Prices["export_gb"].Price)
	near("a copy that no capacity limits", took.Time.Seconds(), 1e6/p.Rates["worker_rows"])
	took, windows := p.ByWindows(table, 2, 250_000)
	near("changes", windows[0].Amount, p.Prices["export_window_gb"].Price/4)
	near("units of a sweep", windows[1].Amount, 0.75*p.Prices["dynamodb_read_million"].Price)
	near("a copy and a sweep", took.Time.Seconds(), 1e6/p.Rates["worker_rows"])
	if windows[0].What != "2 incremental exports to S3" || len(scan) != 2 || len(export) != 2 || len(windows) != 3 {
		t.Errorf("%+v", windows)
	}
	// All items changed several times, and an empty table.
	if took, all := p.ByWindows(table, 1, 4e6); all[1].Amount != 0 || took.Time != time.Duration(1e6/p.Rates["worker_rows"]*float64(time.Second)) {
		t.Errorf("%v, %+v", took, all)
	}
	if took, none := p.ByWindows(Table{}, 1, 0); took.Time != 0 || none[0].Amount != 0 {
		t.Errorf("%v, %+v", took, none)
	}
}
