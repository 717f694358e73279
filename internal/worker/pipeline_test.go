package worker

import (
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/loads"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// The least age of tombstones covers a worker whose clock is two hours ahead, and one that was
// throttled for half a day. It must not remove a tombstone while the stream still holds an older
// image. An image is written only if it is younger than every tombstone that would reject it, even
// by a clock that is as much behind.
func TestH81_LeastTombstoneAge(t *testing.T) {
	field, ok := reflect.TypeFor[config.State]().FieldByName("TombstoneAge")
	days, err := strconv.Atoi(strings.TrimSuffix(field.Tag.Get("min"), "d"))
	if !ok || err != nil {
		t.Fatal(field, err)
	}
	const clockError, delay = 2 * time.Hour, 12 * time.Hour
	least := time.Duration(days) * 24 * time.Hour
	if oldest := least - loads.ImageMargin; oldest < cdc.Retention+clockError+delay {
		t.Errorf("images of more than %s are parked", oldest)
	}
	if loads.ImageMargin < clockError+delay {
		t.Errorf("an image may be as old as a tombstone less %s", loads.ImageMargin)
	}
}

// A run's writer puts an image only if it is younger than the removal age of tombstones by the
// margin. The tombstone that would reject it still exists.
func TestH81_ARunParksWhatIsAlmostAsOldAsTombstones(t *testing.T) {
	w, _ := connected(t)
	m, oldest := w.found.Tables[0].Mapping, w.Config.State.TombstoneAge-loads.ImageMargin
	parking := sink.NewParking(w.target.Data.Records(w.Config.State.Table), w.Config.Name)
	writer := w.pipeline(nil, parking, silentObserver()).Writer
	item := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("a")}})
	for i, age := range []time.Duration{oldest + time.Hour, oldest - time.Hour} {
		b := transform.Fold(m, []cdc.Change{{Event: cdc.Insert, Sequence: cdc.SequenceOf(uint64(i + 1)), Time: time.Now().Add(-age), Keys: item, New: item}},
			transform.Stamp{Generation: 1, Hop: 1})
		if err := writer.Write(t.Context(), sink.Unfenced(), &b); err != nil {
			t.Fatal(err)
		}
		// The older image comes first, and only this one is parked.
		var noted []string
		if err := parking.List(t.Context(), "Orders", func(_ sink.Ref, p transform.Parked) error {
			noted = append(noted, p.Change.Sequence.String())
			return nil
		}); err != nil || strings.Join(noted, " ") != "1" {
			t.Errorf("%s old: parked %q, %v", age, noted, err)
		}
	}
}

// A worker measures by lag_below how long no shard has been behind, because a gate of the cutover
// needs that.
func TestTheConfiguredLagIsMeasured(t *testing.T) {
	w, _ := connected(t)
	w.Config.Cutover.ReadyWhen.LagBelow = time.Minute
	bound := w.pipeline(nil, nil, silentObserver()).Tables[0].LagBound
	if bound != time.Minute {
		t.Errorf("lag_below %s, measured by %s", w.Config.Cutover.ReadyWhen.LagBelow, bound)
	}
}
