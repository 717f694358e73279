package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/pipeline"
)

// A table that is copied again begins with a rate of its own, and keeps the lag that its stream has; one that joins again is drawn once.
func TestASecondCopyIsMeasuredForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newObserver("w", admin.NewMetrics(admin.Build{}), admin.NewHealth(time.Now), slog.New(slog.DiscardHandler), backfill.NewRenderer(&bytes.Buffer{}, nil), nil)
		o.joined("Log")
		o.lag("Log", 3*time.Second, time.Hour)
		o.joined("Log")
		for _, each := range []int64{1000, 10} {
			o.copyStarted("Log", 100_000, 0)
			for range 20 {
				time.Sleep(time.Second)
				o.copied("Log", each)
			}
			r := o.copies["Log"].report("Log", o.mono())
			if want := float64(each); r.Rate < want*0.99 || r.Rate > want*1.01 || r.Lag != 3*time.Second || r.Headroom != time.Hour {
				t.Errorf("%d items a second: %+v", each, r)
			}
			o.copyDone("Log", 20*each)
		}
		if len(o.order) != 1 {
			t.Errorf("drawn are %v", o.order)
		}
	})
}

// A copy that began and ended between two readings is told as done, and a table that is set aside for another reason than before is told again.
func TestWhatHappenedBetweenTwoReadings(t *testing.T) {
	items := int64(7)
	if events := tableChanged(&tableStatus{Copy: copyStatus{State: copyNotStarted}}, &tableStatus{Copy: copyStatus{State: copyDone, Items: &items}}); len(events) != 1 ||
		events[0].Kind != admin.EventCopyDone || *events[0].Items != 7 {
		t.Errorf("%+v", events)
	}
	if events := tableChanged(&tableStatus{aside: "one"}, &tableStatus{aside: "another"}); len(events) != 1 || events[0].Reason != "another" {
		t.Errorf("%+v", events)
	}
}

// held is a shard that a worker holds and has last written to at a time.
func held(id, worker string, written time.Time) checkpoint.Shard {
	return checkpoint.Shard{ID: id, Label: "L", State: checkpoint.Reading, Owner: worker, Sign: checkpoint.Sign{WrittenAt: written}}
}

// What became of the workers while the ledger could not be read is told once it can: readings that are judged anew meanwhile are no
// readings.
func TestWhatHappenedWhileBlindIsTold(t *testing.T) {
	o := newObserver("w", admin.NewMetrics(admin.Build{}), admin.NewHealth(time.Now, "Orders"), slog.New(slog.DiscardHandler), backfill.NewRenderer(io.Discard, nil), []string{"Orders"})
	seen := func(written time.Time) *migration {
		return judged(tableInput{found: true, state: loadedTable(), shards: []checkpoint.Shard{held("1", "a", written)}})
	}
	o.surveyed(seen(noon), true)
	o.surveyed(seen(ago(time.Minute)), false)
	o.surveyed(seen(ago(time.Minute)), true)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	o.feed.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/api/v1/events", nil))
	if n := strings.Count(w.Body.String(), "event: "+admin.EventWorkerSilent); n != 1 {
		t.Errorf("told %d times: %s", n, w.Body)
	}
}

// A rate is told only if every shard that has an owner has told its own, whichever comes last; and a worker was last heard of when it wrote the
// last of its rows.
func TestFiguresOfSeveralShards(t *testing.T) {
	rated, silent, fresh := held("1", "a", noon), held("2", "a", ago(time.Hour)), held("3", "a", noon)
	rated.ReadAt, rated.Rate = ago(time.Second), 5
	fresh.ReadAt = ago(time.Second)
	for _, shards := range [][]checkpoint.Shard{{rated, silent}, {silent, rated}, {rated, silent, fresh}} {
		m := judged(tableInput{found: true, state: loadedTable(), shards: shards})
		if rate := m.Tables[0].ChangesPerSecond; rate != nil {
			t.Errorf("%v changes a second, of shards of which one has not told", *rate)
		}
		if w := m.Workers[0]; w.Silent || !w.HeartbeatAt.Equal(noon) {
			t.Errorf("%+v", w)
		}
	}
	if rate := judged(tableInput{found: true, state: loadedTable(), shards: []checkpoint.Shard{rated, fresh}}).Tables[0].ChangesPerSecond; rate == nil || *rate != 5 {
		t.Errorf("%v changes a second", rate)
	}
}

// The trouble of a keeper is over with its lease: whoever keeps the table next tells its own.
func TestTroublesEndWithTheLease(t *testing.T) {
	lease := testConfig().State.Lease
	for written, want := range map[time.Duration]int{lease / 2: 1, lease * 3 / 2: 0} {
		in := tableInput{found: true, state: loadedTable(), seat: seatInput{owner: "a", sign: checkpoint.Sign{WrittenAt: ago(written),
			Trouble: checkpoint.Trouble{Step: "list shards", Cause: "denied", Since: ago(time.Hour)}}}}
		if found := judged(in).Tables[0].Troubles; len(found) != want {
			t.Errorf("written %s ago: %+v", written, found)
		}
	}
}

// A run that comes to its end says that a table was dropped, however long ago that was: what it held is not followed.
func TestVerdictOnATableThatIsLongGone(t *testing.T) {
	state := loadedTable()
	state.Aside = checkpoint.Aside{Reason: pipeline.GoneReason, Since: ago(48 * time.Hour)}
	m := judged(tableInput{found: true, state: state})
	if err := m.verdict(); !m.Tables[0].longGone || !diag.Has(err, diag.TableSetAside) {
		t.Errorf("%v", err)
	}
}

// The copies of a pattern's tables took as long as the longest of them, whichever comes last.
func TestCopiesOfAPatternTookAsLongAsTheLongest(t *testing.T) {
	took := func(d time.Duration) *tableStatus {
		started, done := ago(d), noon
		return &tableStatus{Copy: copyStatus{State: copyDone, Started: &started, Done: &done}}
	}
	if got := together("Log_*", []*tableStatus{took(time.Minute), took(time.Hour), took(time.Second)}).copy; got != "3 done (1h00m)" {
		t.Error(got)
	}
}
