package worker

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/loads"
	"github.com/dynamodb-bigtable/replicator/internal/report"
)

// limits holds the limits of the configuration, as last reloaded.
type limits struct {
	mu   sync.Mutex
	last *config.Backfill   // nil before the first reload
	rows *backfill.Throttle // limiter that all tables share; nil if each table has its own
}

// now returns the limits in force from the configuration. Limits that operators set in the ledger
// are not included.
func (l *limits) now(first config.Backfill) checkpoint.Limits {
	l.mu.Lock()
	defer l.mu.Unlock()
	return loads.Configured(l.of(first))
}

// of returns the section of the configuration that is in force. The caller must hold the mutex.
func (l *limits) of(first config.Backfill) config.Backfill {
	if l.last != nil {
		return *l.last
	}
	return first
}

// shared returns the limiter for rows that all tables share.
func (l *limits) shared(first config.Backfill) *backfill.Throttle {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rows == nil {
		l.rows = backfill.NewThrottle(float64(l.of(first).MaxRowsPerSecond))
	}
	return l.rows
}

// set puts new limits in force, and returns the limits that have changed.
func (l *limits) set(ctx context.Context, first, to config.Backfill) (changed []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.of(first)
	l.last = &to
	if was.MaxRowsPerSecond != to.MaxRowsPerSecond {
		changed = append(changed, fmt.Sprintf("%s %d", keyRows, to.MaxRowsPerSecond))
		if l.rows != nil {
			l.rows.Set(ctx, float64(to.MaxRowsPerSecond))
		}
	}
	for _, c := range []struct{ key, was, is string }{
		{keyRead, string(was.MaxReadCapacity), string(to.MaxReadCapacity)},
		{keyCPU, string(was.PauseAboveTargetCPU), string(to.PauseAboveTargetCPU)},
	} {
		if c.was != c.is {
			changed = append(changed, c.key+" "+orNone(c.is))
		}
	}
	return changed
}

func orNone(limit string) string {
	if limit == "" {
		return "none"
	}
	return limit
}

// The keys that a running worker reloads.
const (
	keyRows = "backfill.max_rows_per_second"
	keyRead = "backfill.max_read_capacity"
	keyCPU  = "backfill.pause_above_target_cpu"
)

// rereadOnRequest reloads the limits when requested, until ctx ends.
func (w *Worker) rereadOnRequest(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.Rereads:
			w.reread(ctx)
		}
	}
}

// reread reads the configuration again and puts its limits in force. It also logs other changed
// keys, for which a restart is needed. If the configuration has errors, it changes nothing.
func (w *Worker) reread(ctx context.Context) {
	next, err := w.Reread()
	var kept []string
	if err == nil {
		kept, err = differing(w.Config, next)
	}
	if err != nil {
		report.Records(w.Log, diag.Findings(err).WithFlags(w.Hints))
		w.Log.Error("keeping the current limits: the configuration cannot be read")
		return
	}
	message := "reloaded limits"
	changed := w.limits.set(ctx, w.Config.Backfill, next.Backfill)
	if len(changed) == 0 {
		message = "reloaded limits: none has changed"
	}
	w.Log.Info(message, admin.KeyLimits, strings.Join(changed, ", "))
	if kept = needsRestart(kept); len(kept) > 0 {
		w.Log.Warn("ignoring changes of the configuration that need a restart", admin.KeyKeys, strings.Join(kept, ", "))
	}
}

// needsRestart returns those of the given keys that are not reloaded.
func needsRestart(differing []string) (kept []string) {
	for _, key := range differing {
		if key != keyRows && key != keyRead && key != keyCPU {
			kept = append(kept, key)
		}
	}
	return kept
}
