package pipeline

import (
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// Each event is counted as what it is, and the time is that of the last change: times may run backwards.
func TestATallyIsOfEachEvent(t *testing.T) {
	begin := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	var changes []cdc.Change
	for i, event := range []cdc.Event{cdc.Remove, cdc.Modify, cdc.Insert, cdc.Remove, cdc.Modify, cdc.Remove} {
		changes = append(changes, cdc.Change{Event: event, Time: begin.Add(-time.Duration(i) * time.Second)})
	}
	if got, want := Count(changes), (Tally{Inserts: 1, Modifies: 2, Removes: 3, Last: begin.Add(-5 * time.Second)}); got != want || got.Changes() != 6 {
		t.Errorf("%+v, want %+v", got, want)
	}
}
