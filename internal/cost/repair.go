package cost

import (
	"fmt"
	"math"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// ByScan returns the duration and the costs of a repair that copies the table by a scan.
func (p Prices) ByScan(t Table) (Copy, []Line) {
	copying := p.Copying(t, Cluster{})
	return copying, []Line{p.scan(t, copying), p.egress(t)}
}

// ByExport returns the duration and the costs of a repair that copies a full export. The time that
// DynamoDB takes for the export is unknown, and comes in addition.
func (p Prices) ByExport(t Table) (Copy, []Line) {
	exported := t
	exported.Files = 1 // any number: no read capacity limits the copy
	return p.Copying(exported, Cluster{}), []Line{p.Export(t.Bytes), p.egress(t)}
}

// ByWindows returns the duration and the costs of a repair by incremental exports with about so many
// changes. The sweep then reads each item whose row they did not write, one item in a request. The
// time that DynamoDB takes for the exports comes in addition.
func (p Prices) ByWindows(t Table, windows int, changes float64) (Copy, []Line) {
	each := float64(t.Bytes) / math.Max(float64(t.Items), 1)
	changed := changes * each
	rest := math.Max(0, float64(t.Items)-changes)
	read := t // an item that is read alone uses whole units
	read.Items, read.Bytes = int64(rest), int64(rest*math.Ceil(each/readUnit)*readUnit)
	sweeping := p.Copying(read, Cluster{})
	if copied := math.Min(changes, float64(t.Items)) / sweeping.RowsPerSecond; copied > 0 {
		sweeping.Time += time.Duration(math.Min(copied, 1e9) * float64(time.Second))
	}
	swept := p.scan(read, sweeping)
	swept.What = "reading items in the sweep"
	moved := t
	moved.Bytes = int64(changed + rest*each)
	return sweeping, []Line{{What: fmt.Sprintf("%s to S3", terminal.Plural(windows, "incremental export")), Quantity: size(changed), Amount: changed / gib * p.Prices["export_window_gb"].Price,
		Per: Once, Price: "export_window_gb", Note: "at the present rate of changes"}, swept, p.egress(moved)}
}
