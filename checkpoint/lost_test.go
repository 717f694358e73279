package checkpoint

import (
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// Published messages that are not known to be applied are lost with the generation: since the time
// of the oldest one, else since what the shard covers. If neither is known, nobody knows since when.
func TestMessagesThatWaitAreLostToo(t *testing.T) {
	noon := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	hours := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Hour) }
	for name, c := range map[string]struct {
		edit func(s *Shard)
		want time.Time
	}{
		"one message, the last change":  {func(s *Shard) { s.Applied = 1 }, hours(5).Add(-Slack)},
		"several, and what it covers":   {func(s *Shard) { s.CoveredTo = hours(2) }, hours(2).Add(-Slack)},
		"several, and its first read":   {func(s *Shard) { s.FirstRead = hours(26) }, hours(26).Add(-cdc.Retention - Slack)},
		"both, what it covers counts":   {func(s *Shard) { s.CoveredTo, s.FirstRead = hours(2), hours(40) }, hours(2).Add(-Slack)},
		"several, and nothing is known": {func(*Shard) {}, time.Time{}},
		"none waits":                    {func(s *Shard) { s.Applied = 0 }, hours(5).Add(-Slack)},
		"of another generation":         {func(s *Shard) { s.Generation = 6 }, hours(5).Add(-Slack)},
	} {
		s := Shard{Source: "T", Label: "L", ID: "s", State: Reading, Generation: 7, Apply: Topic, Applied: 3, Position: cdc.SequenceOf(9), EventTime: hours(5)}
		c.edit(&s)
		table := TableState{Source: "T", Label: "L", Generation: 7, Apply: Topic}
		if got := LostFrom(table, []Shard{s}, Listings{}, nil, "s"); !got.Equal(c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// A raise waits for unread shards only after a gap of the present generation.
func TestAGapOfAnEarlierGenerationIsNotAwaited(t *testing.T) {
	noon := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for generation, waits := range map[uint32]bool{2: false, 3: true} {
		shards := []Shard{{Label: "L", ID: "lost", State: Gap, Generation: generation, DoneAt: noon}, {Label: "L", ID: "unread", State: Waiting, Generation: 3, ReadAt: noon.Add(-time.Hour)}}
		if got := GapsCome(TableState{Label: "L", Generation: 3, AdoptedAt: noon}, shards, noon.Add(time.Second)); got != waits {
			t.Errorf("a gap of generation %d: waits %v", generation, got)
		}
	}
}
