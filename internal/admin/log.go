package admin

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"
)

// Keys of log lines. Dashboards and queries rest on them: they are fixed, and there are no others. None of them may carry item
// data, which errors of the packages below do not hold either.
const (
	KeyTable      = "table"      // source table
	KeyTarget     = "target"     // target table
	KeyShard      = "shard"      // shard id
	KeyWorker     = "worker"     // worker id
	KeyEpoch      = "epoch"      // of a lease
	KeyGeneration = "generation" // of a table
	KeyStep       = "step"       // what was being done
	KeyHook       = "hook"       // of a cutover
	KeyToken      = "token"      // of a hook's call: attempt, step and number
	KeyOutput     = "output"     // what a hook printed, without what looks like a secret
	KeyReason     = "reason"     // why, in fixed words
	KeyCause      = "cause"      // of an error or a warning with a code
	KeyWait       = "wait"       // until the next attempt
	KeyTook       = "took"       // duration of what is reported
	KeyItems      = "items"      // a number of items
	KeyParked     = "parked"     // a parked record: table, hash of the item's key, version
	KeyEstimate   = "estimate"   // how many there are, about
	KeyAddress    = "address"    // where the process listens, or an end it talks to
	KeyVersion    = "version"    // of the program
	KeyCode       = "code"       // R1204; see docs/errors.md
	KeyFix        = "fix"        // what an operator should do
	KeyMore       = "more"       // address of the documentation of the code
	KeyPlace      = "place"      // in the configuration
	KeyLeases     = "leases"     // a number of leases
	KeyClient     = "client"     // the vendors' client that said it
	KeyError      = "error"
	KeyLimits     = "limits" // those that were read again and have changed
	KeyKeys       = "keys"   // of the configuration

	// Of records for programs: KeyEvent is probe or progress. Unknown figures are left out.
	KeyEvent    = "event"
	KeyProbe    = "probe"            // the dependency that was asked
	KeyOK       = "ok"               // true, false, or null if unknown
	KeyDetail   = "detail"           // what it answered
	KeyRate     = "items_per_second" // over the last five minutes
	KeyETA      = "eta_seconds"      // until a copy is done
	KeyLag      = "lag_seconds"
	KeyHeadroom = "headroom_seconds"
	KeyThrottle = "throttled" // why a copy is slower than it could be, in fixed words
	KeyDone     = "done"      // whether a copy is complete
	KeySeconds  = "took_seconds"
)

// ListeningMessage is the log line with which a worker says, under KeyAddress, where its endpoints are. Programs that start one wait for it.
const ListeningMessage = "listening"

// Log says how log lines look.
type Log struct {
	// Format is text or json; see LogFormat for auto.
	Format string
	// Level is debug, info, warn or error; lines below it are left out.
	Level string
	// Terminal tells that the output is one.
	Terminal bool
	// Clock gives the time of lines; nil takes each record's own.
	Clock func() time.Time
}

// LogFormat is the format of a log for which a format was asked: auto, and anything unknown, is text where people read it, else json.
// All that a process writes to stderr has that one format.
func LogFormat(asked string, people bool) string {
	switch {
	case asked == "text" || asked == "json":
		return asked
	case people:
		return "text"
	}
	return "json"
}

// New returns a logger that writes to out. It fails on an unknown format or level.
func (l Log) New(out io.Writer) (*slog.Logger, error) {
	var level slog.Level
	switch l.Level {
	case "debug", "info", "warn", "error":
		if err := level.UnmarshalText([]byte(l.Level)); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("log level %q is not one of debug, info, warn and error", l.Level)
	}
	var h slog.Handler
	switch l.Format {
	case "json":
		h = slog.NewJSONHandler(out, &slog.HandlerOptions{Level: level, ReplaceAttr: cloudNames})
	case "text":
		options := &slog.HandlerOptions{Level: level}
		if l.Terminal {
			options.ReplaceAttr = shortTime
		}
		h = slog.NewTextHandler(out, options)
	default:
		return nil, fmt.Errorf("log format %q is neither text nor json", l.Format)
	}
	if l.Clock != nil {
		h = clocked{h, l.Clock}
	}
	return slog.New(h), nil
}

// cloudNames gives the built-in keys and levels the names that Cloud Logging understands.
// Source: https://cloud.google.com/logging/docs/structured-logging (special fields) and
// https://cloud.google.com/logging/docs/reference/v2/rest/v2/LogEntry#LogSeverity
func cloudNames(groups []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String()) // nanoseconds as a number help nobody
	}
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case slog.MessageKey:
		a.Key = "message"
	case slog.LevelKey:
		level, _ := a.Value.Any().(slog.Level)
		severity := level.String()
		if level == slog.LevelWarn {
			severity = "WARNING"
		}
		return slog.String("severity", severity)
	}
	return a
}

// shortTime leaves the date out: whoever watches a terminal knows it.
func shortTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.String(slog.TimeKey, a.Value.Time().Format("15:04:05.000"))
	}
	return a
}

// clocked gives records the time of a clock.
type clocked struct {
	slog.Handler
	clock func() time.Time
}

func (h clocked) Handle(ctx context.Context, r slog.Record) error {
	r.Time = h.clock()
	return h.Handler.Handle(ctx, r)
}

func (h clocked) WithAttrs(attrs []slog.Attr) slog.Handler {
	return clocked{h.Handler.WithAttrs(attrs), h.clock}
}

func (h clocked) WithGroup(name string) slog.Handler {
	return clocked{h.Handler.WithGroup(name), h.clock}
}
