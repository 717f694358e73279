package follow

import (
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// TestH64_H75_AdvanceByTheServicesTimes: what coverage is judged by comes from the service: the
// time of the latest change applied, however late it was read, and the service's clock at the first
// read, however wrong this worker's is.
func TestH64_H75_AdvanceByTheServicesTimes(t *testing.T) {
	event := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	answered, sent := event.Add(20*time.Hour), event.Add(23*time.Hour)
	page := cdc.Page{At: answered, Changes: []cdc.Change{
		{Sequence: cdc.SequenceOf(7), Time: event},
		{Sequence: cdc.SequenceOf(8), Time: event.Add(-time.Second)},
	}}
	at := Advance(checkpoint.Progress{}, page, event, sent)
	if !at.EventTime.Equal(event) || !at.FirstRead.Equal(answered) || !at.ReadAt.Equal(sent) || at.Position.After != cdc.SequenceOf(8) || at.CaughtUp {
		t.Errorf("%+v", at)
	}
	if more := Advance(at, cdc.Page{Changes: []cdc.Change{{Sequence: cdc.SequenceOf(9), Time: event}}}, event, sent); more.Applied != 3 {
		t.Errorf("%d changes are applied, of two pages with three", more.Applied)
	}
	next := Advance(at, cdc.Page{At: answered.Add(time.Hour)}, time.Time{}, sent.Add(time.Hour))
	if !next.EventTime.Equal(event) || !next.FirstRead.Equal(answered) || next.Position != at.Position || !next.CellTime.Equal(event) || !next.CaughtUp {
		t.Errorf("after an empty page %+v", next)
	}
}
