package config

import (
	"fmt"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/timespan"
)

// DualWay describes how a table with dual writes is replicated: the mode, and its effects on
// readers and on the configuration.
type DualWay struct {
	Table string `json:"table"`
	// Way is the mode: settle, version_attribute or off.
	Way string `json:"way"`
	// Means explains the mode in one sentence.
	Means string `json:"means"`
	// ReadersSee describes the intermediate states that readers of the target may see, and for how
	// long.
	ReadersSee []string `json:"readers_may_see"`
	// Refused are the settings that the table's configuration must not have.
	Refused []string `json:"refused"`
}

// refusedWithDualWrites lists the settings that checks of the configuration and probes refuse.
var refusedWithDualWrites = []string{"keep_versions", "ttl.expire: gc", "as: cells", "streams without old images"}

// DualWays returns the mode of each table, in order. It returns nil if dual_writes is not given.
func (c *Config) DualWays() (ways []DualWay) {
	for i := range c.Tables {
		if w, ok := c.DualWay(c.Tables[i]); ok {
			ways = append(ways, w)
		}
	}
	return ways
}

// DualWay returns the mode of one table; false if dual_writes is not given.
func (c *Config) DualWay(t Table) (DualWay, bool) {
	w := DualWay{Table: t.From, ReadersSee: []string{}, Refused: refusedWithDualWrites}
	switch late := timespan.Format(c.DualWrites.Settle); {
	case c.DualWrites.Settle == 0 && c.DualWrites.VersionAttribute == "":
		return DualWay{}, false
	case !c.DualWritten(t):
		w.Way, w.Means, w.Refused = "off", "nothing else may write the target of this table", []string{}
	case t.number != "":
		w.Way = "version_attribute"
		w.Means = fmt.Sprintf("%s orders the writes of both, so rows are exact once all writes are applied; an image with a lower %s than before is parked", t.number, t.number)
		w.ReadersSee = []string{"the newest image that either writer has written. A write whose condition failed in DynamoDB stays visible until a change with the same or a higher number arrives, or verify --repair replaces it"}
		w.Refused = append([]string{"settle together with it", "removing version_attribute later"}, w.Refused...)
	default:
		w.Way = "settle"
		w.Means = fmt.Sprintf("rows equal their items %s after the application's last write; the application must abandon a write to Bigtable within that time", late)
		until := " until " + late + " after the change was applied"
		w.ReadersSee = []string{
			"cells of an application server whose clock is ahead," + until,
			"an attribute that the application removed, during replication lag",
			"rows that mix columns of two successive changes," + until,
			"a row without a newer write of the application, from its settling until the stream delivers that write",
		}
	}
	return w, true
}

// Lines describes the mode in lines of text, without the table's name.
func (w DualWay) Lines() []string {
	lines := []string{w.Way + ": " + w.Means}
	for _, what := range w.ReadersSee {
		lines = append(lines, "readers may see "+what)
	}
	if len(w.Refused) > 0 {
		lines = append(lines, "refused: "+strings.Join(w.Refused, ", "))
	}
	return lines
}

// String describes the mode in lines of text.
func (w DualWay) String() string {
	return fmt.Sprintf("dual writes of table %s\n  %s\n", w.Table, strings.Join(w.Lines(), "\n  "))
}
