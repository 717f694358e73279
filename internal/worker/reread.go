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

// limits are those of the configuration as it was last read.
type limits struct {
	mu   sync.Mutex
	last *config.Backfill   // nil: it was read once
	rows *backfill.Throttle // that all tables share; nil: each has its own
}

// now are the limits in force, but for those of operators in the ledger.
func (l *limits) now(first config.Backfill) checkpoint.Limits {
	l.mu.Lock()
	defer l.mu.Unlock()
	return loads.Configured(l.of(first))
}

// of is the section that holds; the mutex is held.
func (l *limits) of(first config.Backfill) config.Backfill {
	if l.last != nil {
		return *l.last
	}
	return first
}

// shared is the bound on rows of tables that share one.
func (l *limits) shared(first config.Backfill) *backfill.Throttle {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rows == nil {
		l.rows = backfill.NewThrottle(float64(l.of(first).MaxRowsPerSecond))
	}
	return l.rows
}

// set puts others in force, and returns what has changed.
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

// The keys that a running worker reads again.
const (
	keyRows = "backfill.max_rows_per_second"
	keyRead = "backfill.max_read_capacity"
	keyCPU  = "backfill.pause_above_target_cpu"
)

// heed reads the limits again as often as it is asked to, until ctx ends.
func (w *Worker) heed(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.Rereads:
			w.reread(ctx)
		}
	}
}

// reread puts the limits of the configuration as it is now in force, and says what else has changed, which a running worker does not heed.
// A configuration with errors changes nothing.
func (w *Worker) reread(ctx context.Context) {
	next, err := w.Reread()
	var kept []string
	if err == nil {
		kept, err = w.Config.Differing(next)
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

// needsRestart are the keys that are not read again.
func needsRestart(differing []string) (kept []string) {
	for _, key := range differing {
		if key != keyRows && key != keyRead && key != keyCPU {
			kept = append(kept, key)
		}
	}
	return kept
}
