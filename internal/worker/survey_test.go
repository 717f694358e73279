package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/status"
)

// A survey reports what it finds, and removes what it no longer finds: a table without readable
// shards is not stalled.
func TestSurveyTakesBack(t *testing.T) {
	metrics := admin.NewMetrics("orders", admin.Build{})
	o := newObserver(time.Now, "w", metrics, admin.NewHealth(time.Now, "Orders"), slog.New(slog.DiscardHandler), backfill.NewRenderer(io.Discard, nil), []string{"Orders"})
	shard := checkpoint.Shard{ID: "1", Label: "L", State: checkpoint.Reading, ReadAt: ago(time.Minute), EventTime: ago(time.Hour)}
	done := shard
	done.State, done.DoneAt = checkpoint.Done, ago(time.Second)
	childless := done
	childless.DoneAt, childless.FirstRead = ago(time.Hour), ago(2*time.Hour)
	for _, c := range []struct {
		shard checkpoint.Shard
		want  bool
	}{{shard, true}, {done, false}, {childless, true}, {done, false}, {shard, true}} {
		o.surveyed(judged(status.TableInput{Found: true, State: loadedTable(), Shards: []checkpoint.Shard{c.shard}}), nil)
		w := httptest.NewRecorder()
		metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		if got := strings.Contains(w.Body.String(), "replicator_source_last_poll_timestamp_seconds{"); got != c.want {
			t.Errorf("a shard that is %s: it was last read is told: %t", c.shard.State, got)
		}
		if got, want := o.health.Facts().Tables[0].Childless, c.shard.DoneAt; got.IsZero() == (want == childless.DoneAt) {
			t.Errorf("a shard that ended at %s: it has no children since %s", want, got)
		}
	}
}

// The survey reports how many receivers of notifications the status shows, and 0 if there are none.
func TestSurveyCountsFailingReceivers(t *testing.T) {
	metrics := admin.NewMetrics("orders", admin.Build{})
	o := newObserver(time.Now, "w", metrics, admin.NewHealth(time.Now, "Orders"), slog.New(slog.DiscardHandler), backfill.NewRenderer(io.Discard, nil), []string{"Orders"})
	for _, shown := range []string{`[]`, `[{"name": "1 (json, a)"}, {"name": "heartbeat"}]`, `[]`} {
		m := judged(status.TableInput{Found: true, State: loadedTable()})
		if err := json.Unmarshal([]byte(shown), &m.Receivers); err != nil {
			t.Fatal(err)
		}
		o.surveyed(m, nil)
		w := httptest.NewRecorder()
		metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		if want := fmt.Sprintf("\nreplicator_notification_receivers_failing{pipeline=\"orders\"} %d\n", len(m.Receivers)); !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s is not reported as %q", shown, want)
		}
	}
}

// The survey reports how many workers have each role. A role that no worker has is 0, not absent.
func TestSurveyCountsWorkersByRole(t *testing.T) {
	metrics := admin.NewMetrics("orders", admin.Build{})
	o := newObserver(time.Now, "w", metrics, admin.NewHealth(time.Now, "Orders"), slog.New(slog.DiscardHandler), backfill.NewRenderer(io.Discard, nil), []string{"Orders"})
	beat := func(before time.Duration) checkpoint.Heartbeat { return checkpoint.Heartbeat{WrittenAt: ago(before)} }
	reading := checkpoint.Shard{ID: "1", Label: "L", State: checkpoint.Reading, Owner: "w", ReadAt: ago(0), Heartbeat: beat(0)}
	for _, c := range []struct {
		processes []checkpoint.Process
		want      string
	}{
		{nil, `active"} 1 idle"} 0 standby"} 0`},
		{[]checkpoint.Process{{Worker: "a", Heartbeat: beat(0)}, {Worker: "b", Heartbeat: beat(0)}, {Worker: "gone", Heartbeat: beat(time.Hour)}}, `active"} 1 idle"} 0 standby"} 2`},
		{[]checkpoint.Process{{Worker: "a", Role: checkpoint.RoleIdle, Heartbeat: beat(0)}}, `active"} 1 idle"} 1 standby"} 0`},
	} {
		l := &status.Input{Cfg: testConfig(), Begun: true, Tables: []config.Table{{From: "Orders"}}, Processes: c.processes,
			Inputs: []status.TableInput{{Found: true, State: loadedTable(), Shards: []checkpoint.Shard{reading}}}}
		o.surveyed(l.Judge(nothingSet, "", noon), nil)
		w := httptest.NewRecorder()
		metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		var got []string
		for line := range strings.Lines(w.Body.String()) {
			if role, ok := strings.CutPrefix(line, `replicator_workers{pipeline="orders",role="`); ok {
				got = append(got, strings.TrimSpace(role))
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%d processes: %s, want %s", len(c.processes), got, c.want)
		}
	}
}

// A survey continues while the function that it started beside itself waits, for example for a
// target that does not answer.
func TestOneBeside(t *testing.T) {
	beside, wait := oneBeside()
	begun, end := make(chan int), make(chan struct{})
	for n := range 3 { // the first one does not end, so no second one starts
		beside(func() {
			begun <- n
			<-end
		})
	}
	if n := <-begun; n != 0 {
		t.Errorf("number %d runs", n)
	}
	close(end)
	wait()
}

// A survey checks parked items, and forgets those that a later change has healed. Nothing else
// does, so they would count forever.
func TestASurveyForgetsWhatIsHealed(t *testing.T) {
	w, _ := connected(t)
	ledger := begin(t, w)
	// A survey that never looks must not run forever.
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := ledger.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error { s.Generation = 7; return nil }); err != nil {
		t.Fatal(err)
	}
	parking := parkedAndHealed(t, w, 1)

	log := aloud{slog.DiscardHandler, make(chan string, 10)}
	w.Log = slog.New(log)
	surveying, end := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.survey(surveying, silentObserver(), parking)
	}()
	log.await(ctx, t, "resolved")
	end()
	<-ended
	if n, err := parking.CountOf(t.Context(), "Orders"); err != nil || n != 0 {
		t.Errorf("%d are parked, %v", n, err)
	}
}

// The function beside a survey runs again once it has ended. It is awaited at the end, because it
// must not use closed clients.
func TestBesideAgainAndWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		beside, wait := oneBeside()
		ran := 0
		for range 2 {
			beside(func() { ran++ })
			synctest.Wait()
		}
		end, waited := make(chan struct{}), false
		beside(func() { <-end })
		go func() { wait(); waited = true }()
		synctest.Wait()
		if ran != 2 || waited {
			t.Errorf("ran %d times; the end of what runs is waited for: %v", ran, !waited)
		}
		close(end)
		synctest.Wait()
		if !waited {
			t.Error("what has ended is waited for")
		}
	})
}

// aloud is a log that passes each message to a waiting test.
type aloud struct {
	slog.Handler
	lines chan string
}

func (aloud) Enabled(context.Context, slog.Level) bool { return true }

func (l aloud) Handle(_ context.Context, r slog.Record) error {
	l.lines <- r.Message
	return nil
}

// await waits for a message with a text in it.
func (l aloud) await(ctx context.Context, t *testing.T, text string) {
	t.Helper()
	for {
		select {
		case line := <-l.lines:
			if strings.Contains(line, text) {
				return
			}
		case <-ctx.Done():
			t.Errorf("nobody tells: %s", text)
			return
		}
	}
}

// parkedAndHealed parks the change of an item with the given number, and applies the next one.
func parkedAndHealed(t *testing.T, w *Worker, number uint64) *sink.Parking {
	t.Helper()
	m, to := w.found.Tables[0].Mapping, w.target.Data
	var key []attribute.Attribute
	for _, a := range m.PrimaryKey {
		key = append(key, attribute.Attribute{Name: a.Name, Value: attribute.String("k")})
	}
	item, stamp := attribute.NewItem(key), transform.Stamp{Generation: 7, Hop: cdc.RootHop}
	change := cdc.Change{Event: cdc.Insert, Sequence: cdc.SequenceOf(number), Time: noon, Keys: item, New: item}
	before := transform.Fold(m, []cdc.Change{change}, stamp)
	parking := sink.NewParking(to.Records(w.Config.State.Table), w.Config.Name)
	if err := parking.Park(t.Context(), before.Park(before.Rows[0], "no")); err != nil {
		t.Fatal(err)
	}
	change.Sequence = cdc.SequenceOf(number + 1)
	after := transform.Fold(m, []cdc.Change{change}, stamp)
	if err := sink.NewWriter(sink.Options{Table: to, Rows: to, Parking: parking}).Write(t.Context(), sink.Unfenced(), &after); err != nil {
		t.Fatal(err)
	}
	return parking
}

// Events of workers during an unreadable ledger are reported once it can be read: old readings that
// are judged again report none.
func TestWhatHappenedWhileBlindIsTold(t *testing.T) {
	o := newObserver(time.Now, "w", admin.NewMetrics("orders", admin.Build{}), admin.NewHealth(time.Now, "Orders"), slog.New(slog.DiscardHandler), backfill.NewRenderer(io.Discard, nil), []string{"Orders"})
	l := &status.Input{Cfg: testConfig(), Tables: []config.Table{{From: "Orders"}}, Inputs: []status.TableInput{
		{Found: true, State: loadedTable(), Shards: []checkpoint.Shard{held("1", "a", noon)}}}}
	var survey status.Survey
	for _, c := range []struct {
		err error
		at  time.Duration
	}{{nil, 0}, {errors.New("no answer"), time.Minute}, {nil, time.Minute}} {
		o.surveyed(survey.Take(l, c.err, nothingSet, "", noon.Add(c.at)))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	o.feed.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/api/v1/events", nil))
	if n := strings.Count(w.Body.String(), "event: "+admin.EventWorkerSilent); n != 1 {
		t.Errorf("told %d times: %s", n, w.Body)
	}
}

// A dropped table is suspended for a day. After that its metrics disappear and raise no alert.
func TestADroppedTableIsSetAsideForADay(t *testing.T) {
	metrics := admin.NewMetrics("orders", admin.Build{})
	o := newObserver(time.Now, "w", metrics, admin.NewHealth(time.Now, "Orders"), slog.New(slog.DiscardHandler), backfill.NewRenderer(io.Discard, nil), []string{"Orders"})
	for _, c := range []struct {
		since time.Duration
		want  string
	}{{cdc.Retention - time.Minute, "1"}, {cdc.Retention + time.Minute, "0"}} {
		dropped := loadedTable()
		dropped.Suspended = checkpoint.Suspension{Since: ago(c.since), Reason: engine.GoneReason}
		o.surveyed(judged(status.TableInput{Found: true, State: dropped}), nil)
		w := httptest.NewRecorder()
		metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		if line := `replicator_source_set_aside{pipeline="orders",source_table="Orders"} ` + c.want + "\n"; !strings.Contains(w.Body.String(), line) {
			t.Errorf("dropped %s ago: no line %q", c.since, line)
		}
	}
}

// While the ledger cannot be read, the last reading is judged by the current time, so that the
// headroom still shrinks.
func TestHeadroomShrinksWhileTheLedgerIsNotRead(t *testing.T) {
	shard := checkpoint.Shard{ID: "1", Label: "L", State: checkpoint.Reading, Owner: "w", ReadAt: noon, AppliedTo: noon, CaughtUp: true}
	l := &status.Input{Cfg: testConfig(), Tables: []config.Table{{From: "Orders"}}, Inputs: []status.TableInput{{Found: true, State: loadedTable(), Shards: []checkpoint.Shard{shard}}}}
	away := errors.New("no answer")
	var last status.Survey
	if m, _ := last.Take(nil, away, nothingSet, "", noon); m != nil {
		t.Errorf("judged before anything was read: %+v", m)
	}
	for _, c := range []struct {
		read *status.Input
		err  error
		at   time.Duration
	}{{l, nil, time.Second}, {nil, away, time.Hour}, {nil, away, 20 * time.Hour}} {
		m, _ := last.Take(c.read, c.err, nothingSet, "", noon.Add(c.at))
		if m == nil || m.Tables[0].HeadroomSeconds == nil || *m.Tables[0].HeadroomSeconds != (cdc.Retention-c.at).Seconds() {
			t.Errorf("after %s: %+v", c.at, m)
		}
	}
}

// The metric also reports a named table that was dropped, until the table exists again.
func TestSurveyTellsOfADroppedTable(t *testing.T) {
	metrics := admin.NewMetrics("orders", admin.Build{})
	o := newObserver(time.Now, "w", metrics, admin.NewHealth(time.Now, "Orders"), slog.New(slog.DiscardHandler), backfill.NewRenderer(io.Discard, nil), []string{"Orders"})
	dropped := loadedTable()
	dropped.Suspended = checkpoint.Suspension{Since: ago(time.Minute), Reason: engine.GoneReason}
	for want, state := range map[string]checkpoint.TableState{"1": dropped, "0": loadedTable()} {
		o.surveyed(judged(status.TableInput{Found: true, State: state}), nil)
		w := httptest.NewRecorder()
		metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		if line := `replicator_source_set_aside{pipeline="orders",source_table="Orders"} ` + want + "\n"; !strings.Contains(w.Body.String(), line) {
			t.Errorf("set aside for %q: no line %q", state.Suspended.Reason, line)
		}
	}
}

// A worker that holds no lease records itself in the ledger, and removes the record when it ends. A
// lease shows that its holder runs, and an applier is no standby.
func TestAStandbyIsSeenInTheLedger(t *testing.T) {
	w, _ := connected(t)
	w.ledger = begin(t, w)
	seen := func() int {
		t.Helper()
		found, err := w.ledger.Processes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	idle := judged(status.TableInput{Found: true, State: loadedTable()})
	busy := judged(status.TableInput{Found: true, State: loadedTable(), Shards: []checkpoint.Shard{held("s", "w", ago(time.Second))}})
	if !w.isStandby(idle) || w.isStandby(busy) {
		t.Error("who holds no lease is a standby, and nobody else")
	}
	w.beat(t.Context())
	if seen() != 1 {
		t.Error("it is not seen")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if w.leave(ended); seen() != 0 {
		t.Error("it is seen after its end")
	}
	if w.FromTopic = true; w.isStandby(idle) {
		t.Error("an applier is called a standby")
	}
}

// The larger the fleet, the less often each worker reads the whole ledger, but at least once per
// lease.
func TestALargeFleetIsSurveyedLessOften(t *testing.T) {
	for _, c := range []struct {
		shards, workers int
		lease, want     time.Duration
	}{{0, 0, 15 * time.Second, engine.SurveyEvery}, {1000, 10, 15 * time.Second, engine.SurveyEvery}, {1000, 20, 15 * time.Second, 10 * time.Second},
		{3000, 60, 15 * time.Second, 15 * time.Second}, {3000, 60, 5 * time.Minute, idleEvery}, {3000, 60, time.Second, engine.SurveyEvery}} {
		if got := surveyAfter(c.shards, c.workers, c.lease); got != c.want {
			t.Errorf("%d shards, %d workers, a lease of %s: %s", c.shards, c.workers, c.lease, got)
		}
	}
}
