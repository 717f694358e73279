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
	"github.com/dynamodb-bigtable/replicator/internal/status"
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

// What became of the workers while the ledger could not be read is told once it can: readings that are judged anew meanwhile are no
// readings.
func TestWhatHappenedWhileBlindIsTold(t *testing.T) {
	o := newObserver("w", admin.NewMetrics(admin.Build{}), admin.NewHealth(time.Now, "Orders"), slog.New(slog.DiscardHandler), backfill.NewRenderer(io.Discard, nil), []string{"Orders"})
	seen := func(written time.Time) *status.Document {
		return judged(status.TableInput{Found: true, State: loadedTable(), Shards: []checkpoint.Shard{held("1", "a", written)}})
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
