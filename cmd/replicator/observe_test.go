package main

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
)

// copying is an observer of a process that copies the table Orders and has come to a tenth of it in ten minutes, by what its lines are written to.
func copying(t *testing.T) (*observer, *bytes.Buffer) {
	t.Helper()
	var lines bytes.Buffer
	o := newObserver("w", admin.NewMetrics(admin.Build{}), admin.NewHealth(time.Now, "Orders"), slog.New(slog.DiscardHandler), backfill.NewRenderer(&lines, nil), []string{"Orders"})
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

// A copy that stands, because the target does not answer say, is not told to go on at the rate of before, nor to end soon.
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

// A copy that this process has left, because another one keeps the table now or a gap made it vain, is drawn by it no more.
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
		synctest.Wait() // what it has drawn may be read
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

// The keeper of a table may read none of its shards, for others took them over. Then it knows no lag, and its line tells none.
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

// A copy that another process began took longer than this one knows of: what is said of all its items is not how long the last of them took.
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
