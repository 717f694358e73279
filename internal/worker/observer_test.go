package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/relay"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
)

// copying returns an observer of a process that has copied a tenth of the table Orders in ten
// minutes, and the buffer of its lines.
func copying(t *testing.T) (*observer, *bytes.Buffer) {
	t.Helper()
	var lines bytes.Buffer
	o := newObserver(time.Now, "w", admin.NewMetrics("orders", admin.Build{}), admin.NewHealth(time.Now, "Orders"), slog.New(slog.DiscardHandler), backfill.NewRenderer(&lines, nil), []string{"Orders"})
	o.copyStarted("Orders", 1_000_000, 0)
	for range 600 {
		time.Sleep(time.Second)
		o.copied("Orders", 200)
	}
	return o, &lines
}

func (o *observer) line(table string) string {
	return o.copies[table].report(table, o.mono()).String()
}

// A stalled copy, for example because the target does not answer, shows neither its earlier rate
// nor an end soon.
func TestTheRateOfACopyThatStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _ := copying(t)
		if line := o.line("Orders"); !strings.Contains(line, "200 items/s  ETA 1h13m") {
			t.Fatalf("while it gets on: %s", line)
		}
		time.Sleep(time.Hour)
		if line := o.line("Orders"); !strings.Contains(line, "  0 items/s") || strings.Contains(line, "ETA") {
			t.Errorf("after an hour in which nothing was copied: %s", line)
		}
	})
}

// A process stops drawing a copy that it has left, because another one became coordinator of the
// table or a gap made the copy useless.
func TestACopyThatIsLeftIsNotDrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, lines := copying(t)
		ctx, cancel := context.WithCancel(t.Context())
		drawn := make(chan bool)
		go func() {
			o.draw(ctx)
			close(drawn)
		}()
		time.Sleep(5500 * time.Millisecond)
		synctest.Wait() // all that it has drawn may be read
		before := lines.String()
		if before == "" {
			t.Error("nothing is drawn while the copy runs")
		}
		o.events().CopyLeft("Orders")
		time.Sleep(time.Minute)
		cancel()
		<-drawn
		if after := strings.TrimPrefix(lines.String(), before); after != "" {
			t.Errorf("drawn after it was left: %s", after)
		}
	})
}

// The coordinator of a table may read none of its shards, because other workers took them over.
// Then it does not know the lag, and its line shows none.
func TestTheLineTellsNoLagOfBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _ := copying(t)
		events := o.events()
		events.Lag("Orders", time.Second, 23*time.Hour)
		if line := o.line("Orders"); !strings.Contains(line, "lag 1.0s  headroom 23h00m") {
			t.Fatalf("while it reads: %s", line)
		}
		events.NotReading("Orders")
		events.NotReading("Unknown")
		if line := o.line("Orders"); strings.Contains(line, "lag") || strings.Contains(line, "headroom") {
			t.Errorf("after the last shard was left: %s", line)
		}
	})
}

// A copy that another process began took longer than this process knows, so its line shows no
// duration.
func TestACopyThatWasGoneOnWithTellsNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for done, want := range map[int64]string{
			0:       "Orders  1M items copied in 3m00s  ",
			900_000: "Orders  1M items copied  ",
		} {
			o, lines := copying(t)
			lines.Reset()
			o.copyStarted("Orders", 1_000_000, done)
			time.Sleep(3 * time.Minute)
			o.copied("Orders", 1_000_000-done)
			o.copyDone("Orders", 1_000_000)
			if got := lines.String(); !strings.HasPrefix(got, want) {
				t.Errorf("begun with %d: %s", done, got)
			}
		}
	})
}

// A table that is copied again starts with a new rate and keeps the lag of its stream. A table that
// joins again is drawn once.
func TestASecondCopyIsMeasuredForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newObserver(time.Now, "w", admin.NewMetrics("orders", admin.Build{}), admin.NewHealth(time.Now), slog.New(slog.DiscardHandler), backfill.NewRenderer(&bytes.Buffer{}, nil), nil)
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

// leftBecause finds the reason of an error however it is wrapped.
func TestLeftBecauseOfAWrappedError(t *testing.T) {
	for _, c := range []struct {
		err  error
		part string
	}{
		{nil, "done"}, {fmt.Errorf("shard: %w", context.Canceled), "done"}, {fmt.Errorf("commit: %w", checkpoint.ErrLeaseLost), "lost"},
		{fmt.Errorf("read: %w", engine.ErrYield), "does not answer"}, {errors.New("anything"), "failed"},
	} {
		if got := leftBecause(c.err); !strings.Contains(got, c.part) {
			t.Errorf("%v: %s", c.err, got)
		}
	}
}

// A worker that releases its only shard because the source does not answer, and acquires it again,
// is not ready.
func TestReadinessWhileTheSourceIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		health := admin.NewHealth(time.Now, "Orders")
		health.TargetReached()
		health.SourceReached("Orders")
		events := newObserver(time.Now, "w", admin.NewMetrics("orders", admin.Build{}), health, slog.New(slog.DiscardHandler), backfill.NewRenderer(io.Discard, nil), []string{"Orders"}).events()
		for range 3 {
			events.ShardTaken("Orders", "s", 1)
			time.Sleep(time.Minute)
			events.ShardLeft("Orders", "s", fmt.Errorf("read: %w", engine.ErrYield))
			time.Sleep(6 * time.Second)
		}
		health.Looked("Orders", false)
		if v := admin.Ready(health.Facts(), time.Now()); v.OK() {
			t.Errorf("ready after three minutes in vain:\n%s", v)
		}
		events.ShardTaken("Orders", "s", 1)
		events.PageRead("Orders", engine.Tally{Inserts: 1})
		if v := admin.Ready(health.Facts(), time.Now()); v.OK() {
			t.Errorf("ready with a page that is not written:\n%s", v)
		}
		events.PageDone("Orders")
		if v := admin.Ready(health.Facts(), time.Now()); !v.OK() {
			t.Errorf("not ready with a page that is:\n%s", v)
		}
	})
}

// A worker whose table is halted or paused for hours is ready: it sees the ledger, and no worker
// lists shards.
func TestReadyWhileATableIsHalted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		health := admin.NewHealth(time.Now, "Orders")
		health.TargetReached()
		health.SourceReached("Orders")
		health.Looked("Orders", true)
		health.Childless("Orders", time.Now())
		events := newObserver(time.Now, "w", admin.NewMetrics("orders", admin.Build{}), health, slog.New(slog.DiscardHandler), backfill.NewRenderer(io.Discard, nil), []string{"Orders"}).events()
		for range 180 {
			time.Sleep(time.Minute)
			events.Ledger(checkpoint.TableState{Source: "Orders"}, nil)
			if v := admin.Ready(health.Facts(), time.Now()); !v.OK() {
				t.Fatalf("not ready:\n%s", v)
			}
		}
	})
}

// The progress of a table that joined is drawn as well. What a resumed copy had done before does
// not count in its rate.
func TestProgressOfATableThatJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines bytes.Buffer
		o := newObserver(time.Now, "w", admin.NewMetrics("orders", admin.Build{}), admin.NewHealth(time.Now), slog.New(slog.DiscardHandler), backfill.NewRenderer(&lines, nil), nil)
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
		synctest.Wait() // all is drawn
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

// The line of blocked keys states the reason. It appears once while nothing changes, and again when
// the failure begins again.
func TestBlockedKeysAreToldOnceWithTheirCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		o, _ := copying(t)
		o.log = slog.New(slog.NewTextHandler(&out, nil))
		denied := relay.Published{Blocked: 3, Failed: &relay.Error{Op: "Publish", Name: "changes", Reason: relay.Denied, Code: "PermissionDenied"}}
		busy := relay.Published{Blocked: 1, Failed: &relay.Error{Op: "Publish", Name: "changes", Reason: relay.Throttled, Code: "ResourceExhausted"}}
		told := func(what string, want int, cause string) {
			t.Helper()
			if got := strings.Count(out.String(), "\n"); got != want || want > 0 && !strings.Contains(out.String(), cause) {
				t.Errorf("%s: %d lines, want %d with %s:\n%s", what, got, want, cause, out.String())
			}
			out.Reset()
		}
		o.published("Orders", denied)
		told("the first", 1, "PermissionDenied")
		for range 20 {
			time.Sleep(100 * time.Second)
			o.published("Orders", denied)
			o.published("Orders", relay.Published{Messages: 1}) // of another shard
		}
		told("the same", 0, "")
		o.published("Orders", busy)
		o.published("Orders", denied)
		told("another reason", 1, "ResourceExhausted")
		o.published("Videos", denied)
		told("another table", 1, "Videos")
		time.Sleep(time.Hour)
		o.published("Orders", denied)
		told("an hour later", 1, "PermissionDenied")
	})
}
