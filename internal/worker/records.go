package worker

import (
	"context"
	"log/slog"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
)

// The names of logged events.
const (
	eventProbe    = "probe"
	eventProgress = "progress"
)

// Progress returns a function that logs the progress of a table's copy. The message is the progress
// line, and the attributes are the figures in it.
func Progress(log *slog.Logger) func(backfill.Report) {
	return func(r backfill.Report) {
		attributes := []any{admin.KeyEvent, eventProgress, admin.KeyTable, r.Table, admin.KeyItems, r.Items, admin.KeyDone, r.Done}
		figure := func(known bool, key string, value any) {
			if known {
				attributes = append(attributes, key, value)
			}
		}
		figure(r.Estimate > 0, admin.KeyEstimate, r.Estimate)
		figure(r.Rate >= 0, admin.KeyRate, r.Rate)
		figure(r.ETA > 0 && !r.Done, admin.KeyETA, r.ETA.Seconds())
		figure(r.Lag >= 0, admin.KeyLag, r.Lag.Seconds())
		figure(r.Headroom >= 0, admin.KeyHeadroom, r.Headroom.Seconds())
		figure(r.Throttled != "" && !r.Done, admin.KeyThrottle, r.Throttled)
		figure(r.Done && r.Took > 0, admin.KeySeconds, r.Took.Seconds())
		log.Info(r.String(), attributes...)
	}
}

// probed logs the answer of a dependency. It does not log the whole error, because all errors are
// reported at the end.
func probed(log *slog.Logger) func(line string, a preflight.Answer) {
	return func(line string, a preflight.Answer) {
		var ok any // null if unknown
		level := slog.LevelInfo
		if a.OK != nil {
			ok = *a.OK
		}
		attributes := []any{admin.KeyEvent, eventProbe, admin.KeyProbe, a.Name, admin.KeyOK, ok}
		if a.OK != nil && !*a.OK {
			level = slog.LevelError
		}
		if a.Error != nil {
			attributes = append(attributes, admin.KeyCode, a.Error.Code)
		}
		log.Log(context.Background(), level, line, append(attributes, admin.KeyDetail, a.Detail)...)
	}
}
