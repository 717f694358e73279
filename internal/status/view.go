package status

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// HeartbeatText returns how long ago a worker last wrote to the ledger.
func (w *workerStatus) HeartbeatText(now time.Time) string {
	if w.HeartbeatAt == nil {
		return "-"
	}
	return since(w.HeartbeatAt, now) + " ago"
}

// LagText and HeadroomText return figures of a table as text; "-" if they are unknown.
func (t *Table) LagText() string      { return lagText(t.LagSeconds, t.LagEstimated) }
func (t *Table) HeadroomText() string { return t.headroomText() }

// LagText and RateText return figures of a shard as text; "-" if they are unknown.
func (s *Shard) LagText() string  { return lagText(s.LagSeconds, s.LagEstimated) }
func (s *Shard) RateText() string { return rateText(s.ChangesPerSecond) }

// littleHeadroom is the headroom below which an operator is warned; the alert
// ReplicatorDataLossImminent uses the same time.
const littleHeadroom = 6 * time.Hour

// headroomLittle reports whether the headroom is low enough to warn an operator.
func (t *Table) headroomLittle() bool {
	return t.HeadroomSeconds != nil && *t.HeadroomSeconds < littleHeadroom.Seconds()
}

// CoordinatedBy reports whether a process is the coordinator of the table.
func (t *Table) CoordinatedBy(process string) bool { return process != "" && t.coordinator == process }

// Verified returns the results of the last verify and of the last verify of all items. They are unknown
// if the document was read from JSON.
func (t *Table) Verified() (last, full checkpoint.VerifyResult) { return t.last, t.full }

// Because returns the code of the reason why a shard makes no progress; "" if the shard makes
// progress.
func (s *Shard) Because() string {
	if s.Why == nil {
		return ""
	}
	return s.Why.Code
}

// Streams returns the shards of a table, grouped by stream.
func (m *Document) Streams(source string) [][]Shard { return m.streams(source) }

// Drawn is a shard in the drawing of a lineage.
type Drawn struct {
	Prefix string // the lines that are drawn in front of the shard
	*Shard
}

// Lineage draws the shards of a table, one stream after the other.
func (m *Document) Lineage(source string) (out []Drawn) {
	for _, shards := range m.streams(source) {
		for _, d := range drawn(shards) {
			out = append(out, Drawn{d.prefix, d.shard})
		}
	}
	return out
}
