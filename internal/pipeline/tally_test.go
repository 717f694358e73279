package pipeline

import (
	"testing"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// Each event is counted as what it is.
func TestATallyIsOfEachEvent(t *testing.T) {
	var changes []cdc.Change
	for _, event := range []cdc.Event{cdc.Remove, cdc.Modify, cdc.Insert, cdc.Remove, cdc.Modify, cdc.Remove} {
		changes = append(changes, cdc.Change{Event: event})
	}
	if got, want := count(changes), (Tally{Inserts: 1, Modifies: 2, Removes: 3}); got != want || got.Changes() != 6 {
		t.Errorf("%+v, want %+v", got, want)
	}
}
