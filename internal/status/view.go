package status

import "time"

// Notes are what does not fit into the table of tables, one line each.
func (m *Document) Notes() []string { return m.notes() }

// HeartbeatText is how long ago a worker last wrote to the ledger.
func (w *workerStatus) HeartbeatText(now time.Time) string {
	if w.HeartbeatAt == nil {
		return "-"
	}
	return since(w.HeartbeatAt, now) + " ago"
}

// LagText and HeadroomText are figures of a table for people; "-" if unknown.
func (t *Table) LagText() string      { return lagText(t.LagSeconds, t.LagEstimated) }
func (t *Table) HeadroomText() string { return t.headroomText() }

// LagText and RateText are the figures of a shard for people; "-" if unknown.
func (s *Shard) LagText() string  { return lagText(s.LagSeconds, s.LagEstimated) }
func (s *Shard) RateText() string { return rateText(s.ChangesPerSecond) }

// littleHeadroom is what an operator is warned of; the alert ReplicatorDataLossImminent uses the
// same time.
const littleHeadroom = 6 * time.Hour

// headroomLittle tells that what is left of the stream's 24 hours is what an operator is warned of.
func (t *Table) headroomLittle() bool {
	return t.HeadroomSeconds != nil && *t.HeadroomSeconds < littleHeadroom.Seconds()
}

// Because is the code of why a shard does not get on; "" if it does.
func (s *Shard) Because() string {
	if s.Why == nil {
		return ""
	}
	return s.Why.Code
}

// Streams are the shards of a table, one stream after the other.
func (m *Document) Streams(source string) [][]Shard { return m.streams(source) }

// Drawn is a shard as it stands below its parent.
type Drawn struct {
	Prefix string // the lines that lead to it
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
