package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/parked"
	"github.com/dynamodb-bigtable/replicator/internal/pipeline"
	"github.com/dynamodb-bigtable/replicator/internal/status"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// A table that was dropped is set aside for a day; after that its series say nothing any more, and alert nobody.
func TestADroppedTableIsSetAsideForADay(t *testing.T) {
	metrics := admin.NewMetrics(admin.Build{})
	o := newObserver("w", metrics, admin.NewHealth(time.Now, "Orders"), slog.New(slog.DiscardHandler), backfill.NewRenderer(io.Discard, nil), []string{"Orders"})
	for _, c := range []struct {
		since time.Duration
		want  string
	}{{cdc.Retention - time.Minute, "1"}, {cdc.Retention + time.Minute, "0"}} {
		dropped := loadedTable()
		dropped.Suspended = checkpoint.Suspension{Since: ago(c.since), Reason: pipeline.GoneReason}
		o.surveyed(judged(status.TableInput{Found: true, State: dropped}), true)
		w := httptest.NewRecorder()
		metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		if line := `replicator_source_set_aside{source_table="Orders"} ` + c.want + "\n"; !strings.Contains(w.Body.String(), line) {
			t.Errorf("dropped %s ago: no line %q", c.since, line)
		}
	}
}

// While the ledger cannot be read, what was read last is judged by the time that has passed since: the headroom shrinks all the same.
func TestHeadroomShrinksWhileTheLedgerIsNotRead(t *testing.T) {
	shard := checkpoint.Shard{ID: "1", Label: "L", State: checkpoint.Reading, Owner: "w", ReadAt: noon, AppliedTo: noon, CaughtUp: true}
	l := &status.Input{Cfg: testConfig(), Tables: []config.Table{{From: "Orders"}}, Inputs: []status.TableInput{{Found: true, State: loadedTable(), Shards: []checkpoint.Shard{shard}}}}
	away := errors.New("no answer")
	var last lastReading
	if m := last.judge(nil, away, nothingSet, noon); m != nil {
		t.Errorf("judged before anything was read: %+v", m)
	}
	for _, c := range []struct {
		read *status.Input
		err  error
		at   time.Duration
	}{{l, nil, time.Second}, {nil, away, time.Hour}, {nil, away, 20 * time.Hour}} {
		m := last.judge(c.read, c.err, nothingSet, noon.Add(c.at))
		if m == nil || m.Tables[0].HeadroomSeconds == nil || *m.Tables[0].HeadroomSeconds != (cdc.Retention-c.at).Seconds() {
			t.Errorf("after %s: %+v", c.at, m)
		}
	}
}

// Errors tell why a lease was left however they are wrapped.
func TestLeftBecauseOfAWrappedError(t *testing.T) {
	for _, c := range []struct {
		err  error
		part string
	}{
		{nil, "done"}, {fmt.Errorf("shard: %w", context.Canceled), "done"}, {fmt.Errorf("commit: %w", checkpoint.ErrLeaseLost), "lost"},
		{fmt.Errorf("read: %w", pipeline.ErrYield), "another worker"}, {errors.New("anything"), "failed"},
	} {
		if got := leftBecause(c.err); !strings.Contains(got, c.part) {
			t.Errorf("%v: %s", c.err, got)
		}
	}
}

// A worker that gives its only shard up, because the source does not answer, and takes it back is not ready.
func TestReadinessWhileTheSourceIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		health := admin.NewHealth(time.Now, "Orders")
		health.TargetReached()
		health.SourceReached("Orders")
		events := newObserver("w", admin.NewMetrics(admin.Build{}), health, slog.New(slog.DiscardHandler), backfill.NewRenderer(io.Discard, nil), []string{"Orders"}).events()
		for range 3 {
			events.ShardTaken("Orders", "s", 1)
			time.Sleep(time.Minute)
			events.ShardLeft("Orders", "s", fmt.Errorf("read: %w", pipeline.ErrYield))
			time.Sleep(6 * time.Second)
		}
		health.Looked("Orders", false)
		if v := admin.Ready(health.Facts(), time.Now()); v.OK() {
			t.Errorf("ready after three minutes in vain:\n%s", v)
		}
		events.ShardTaken("Orders", "s", 1)
		events.PageRead("Orders", pipeline.Tally{Inserts: 1})
		if v := admin.Ready(health.Facts(), time.Now()); v.OK() {
			t.Errorf("ready with a page that is not written:\n%s", v)
		}
		events.PageDone("Orders")
		if v := admin.Ready(health.Facts(), time.Now()); !v.OK() {
			t.Errorf("not ready with a page that is:\n%s", v)
		}
	})
}

// The progress of a table that joined is drawn as well, and what a resumed copy had done before is no part of its rate.
func TestProgressOfATableThatJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines bytes.Buffer
		o := newObserver("w", admin.NewMetrics(admin.Build{}), admin.NewHealth(time.Now), slog.New(slog.DiscardHandler), backfill.NewRenderer(&lines, nil), nil)
		o.joined("Log_2015_01")
		o.copyStarted("Log_2015_01", 100_000, 50_000)
		ctx, cancel := context.WithCancel(t.Context())
		drawn := make(chan bool)
		go func() {
			o.draw(ctx)
			close(drawn)
		}()
		for range 60 {
			time.Sleep(time.Second)
			o.copied("Log_2015_01", 100)
		}
		synctest.Wait() // it has been drawn for now
		if rate := o.copies["Log_2015_01"].meter.Rate(); rate < 99 || rate > 101 {
			t.Errorf("%v items a second", rate)
		}
		cancel()
		<-drawn
		if !strings.Contains(lines.String(), "Log_2015_01") {
			t.Errorf("drawn is %q", lines.String())
		}
	})
}

// As many errors as are told leave none out.
func TestFewErrorsAreAllTold(t *testing.T) {
	errs := []error{errors.New("a"), errors.New("b"), errors.New("c")}
	if got := fewOf(errs); got == nil || got.Error() != "a\nb\nc" {
		t.Errorf("%q", got)
	}
	if fewOf(nil) != nil {
		t.Error("no errors are one")
	}
}

// Items of two tables with one key are two items, and each of them is read from its own table.
func TestItemsOfTwoTablesWithOneKey(t *testing.T) {
	record := func(source, key string, version transform.Version) parked.Record {
		p := transform.Parked{Source: source, Key: key, Version: version}
		return parked.Record{Ref: sink.RefOf(p), Parked: p}
	}
	got := ""
	for _, records := range parked.ByItem([]parked.Record{record("A", "S:x", "1"), record("A", "S:x", "2"), record("B", "S:x", "1"), record("B", "S:y", "1")}) {
		got += fmt.Sprintf("%d of %s in %s; ", len(records), records[0].Key, records[0].Source)
	}
	if want := "2 of S:x in A; 1 of S:x in B; 1 of S:y in B; "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
