package main

import (
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/pipeline"
	"github.com/dynamodb-bigtable/replicator/internal/status"
)

// A named table that was dropped is told by the metric, too, until it is there again.
func TestSurveyTellsOfADroppedTable(t *testing.T) {
	metrics := admin.NewMetrics(admin.Build{})
	o := newObserver("w", metrics, admin.NewHealth(time.Now, "Orders"), slog.New(slog.DiscardHandler), backfill.NewRenderer(io.Discard, nil), []string{"Orders"})
	dropped := loadedTable()
	dropped.Suspended = checkpoint.Suspension{Since: ago(time.Minute), Reason: pipeline.GoneReason}
	for want, state := range map[string]checkpoint.TableState{"1": dropped, "0": loadedTable()} {
		o.surveyed(judged(status.TableInput{Found: true, State: state}), true)
		w := httptest.NewRecorder()
		metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		if line := `replicator_source_set_aside{source_table="Orders"} ` + want + "\n"; !strings.Contains(w.Body.String(), line) {
			t.Errorf("set aside for %q: no line %q", state.Suspended.Reason, line)
		}
	}
}

// A table that appears later is followed from its beginning, whatever start says: all that it holds is newer than the start.
func TestBornAfterTheStart(t *testing.T) {
	start := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	states := []checkpoint.TableState{{}, {Cut: start}}
	if !bornAfter(start.Add(time.Minute), states) || bornAfter(start.Add(-time.Minute), states) || bornAfter(start, states[:1]) {
		t.Error("a table's birth is misjudged")
	}
}
