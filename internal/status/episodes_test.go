package status

import (
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// A copy that began and ended between two readings is reported as done. A table that is suspended
// for a new reason is reported again.
func TestWhatHappenedBetweenTwoReadings(t *testing.T) {
	items := int64(7)
	if events := tableChanged(&Table{Copy: copyStatus{State: copyNotStarted}}, &Table{Copy: copyStatus{State: copyDone, Items: &items}}); len(events) != 1 ||
		events[0].Kind != admin.EventCopyDone || *events[0].Items != 7 {
		t.Errorf("%+v", events)
	}
	if events := tableChanged(&Table{Suspended: "one"}, &Table{Suspended: "another"}); len(events) != 1 || events[0].Reason != "another" {
		t.Errorf("%+v", events)
	}
}

// A rate is shown only if every leased shard has reported its own, whichever is the last. A worker
// was last seen when it wrote the last of its rows.
func TestFiguresOfSeveralShards(t *testing.T) {
	rated, silent, fresh := held("1", "a", noon), held("2", "a", ago(time.Hour)), held("3", "a", noon)
	rated.ReadAt, rated.Rate = ago(time.Second), 5
	fresh.ReadAt = ago(time.Second)
	for _, shards := range [][]checkpoint.Shard{{rated, silent}, {silent, rated}, {rated, silent, fresh}} {
		m := judged(TableInput{Found: true, State: loadedTable(), Shards: shards})
		if rate := m.Tables[0].ChangesPerSecond; rate != nil {
			t.Errorf("%v changes a second, of shards of which one has not told", *rate)
		}
		if w := m.Workers[0]; w.Silent || !w.HeartbeatAt.Equal(noon) {
			t.Errorf("%+v", w)
		}
	}
	if rate := judged(TableInput{Found: true, State: loadedTable(), Shards: []checkpoint.Shard{rated, fresh}}).Tables[0].ChangesPerSecond; rate == nil || *rate != 5 {
		t.Errorf("%v changes a second", rate)
	}
}

// A coordinator's trouble ends with its lease. The next coordinator reports its own.
func TestTroublesEndWithTheLease(t *testing.T) {
	lease := testConfig().State.Lease
	for written, want := range map[time.Duration]int{3 * lease: 1, 3*lease + time.Millisecond: 0} {
		in := TableInput{Found: true, State: loadedTable(), Coordinator: CoordinatorInput{Owner: "a", Heartbeat: checkpoint.Heartbeat{WrittenAt: ago(written),
			Trouble: checkpoint.Trouble{Step: "list shards", Cause: "denied", Since: ago(time.Hour)}}}}
		if found := judged(in).Tables[0].Troubles; len(found) != want {
			t.Errorf("written %s ago: %+v", written, found)
		}
	}
}

// A run with --once reports a dropped table at its end, however long ago the drop was: the rest of
// its stream is not followed.
func TestVerdictOnATableThatIsLongGone(t *testing.T) {
	state := loadedTable()
	state.Suspended = checkpoint.Suspension{Reason: engine.GoneReason, Since: ago(48 * time.Hour)}
	m := judged(TableInput{Found: true, State: state})
	if err := m.Verdict(); !m.Tables[0].LongGone || !diag.Has(err, diag.TableSetAside) {
		t.Errorf("%v", err)
	}
}

// The copy of a pattern's tables took as long as the longest of them, in any order.
func TestCopiesOfAPatternTookAsLongAsTheLongest(t *testing.T) {
	took := func(d time.Duration) *Table {
		started, done := ago(d), noon
		return &Table{Copy: copyStatus{State: copyDone, Started: &started, Done: &done}}
	}
	if got := together("Log_*", []*Table{took(time.Minute), took(time.Hour), took(time.Second)}).copy; got != "3 done (1h00m)" {
		t.Error(got)
	}
}
