package admin

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"
)

// Keys of log lines. Dashboards and queries rely on these keys, so a key must never change, and log
// lines use no other keys. No value may contain item data. Texts of errors contain no item data
// either.
const (
	KeyTable      = "table"      // source table
	KeyTarget     = "target"     // target table
	KeyShard      = "shard"      // shard id
	KeyWorker     = "worker"     // worker id
	KeyEpoch      = "epoch"      // epoch of a lease
	KeyGeneration = "generation" // generation of a table
	KeyStep       = "step"       // step of the work, such as an API call
	KeyHook       = "hook"       // hook of a cutover
	KeyToken      = "token"      // token of a hook call: attempt, step and number
	KeyOutput     = "output"     // output of a hook, without parts that look like secrets
	KeyReason     = "reason"     // reason, in fixed words
	KeyCause      = "cause"      // cause of an error or a warning with a code
	KeyWait       = "wait"       // time until the next attempt
	KeyTook       = "took"       // duration of the reported action
	KeyItems      = "items"      // a number of items
	KeyParked     = "parked"     // a parked record: table, hash of the item's key, version
	KeyEstimate   = "estimate"   // estimated number of items
	KeyAddress    = "address"    // address of this process or of a service
	KeyVersion    = "version"    // version of the program
	KeyCode       = "code"       // code of an error, such as R1204; see docs/errors.md
	KeyFix        = "fix"        // instruction for the operator
	KeyMore       = "more"       // URL of the documentation of the code
	KeyPlace      = "place"      // position in the configuration
	KeyLeases     = "leases"     // a number of leases
	KeyClient     = "client"     // the vendor's client that logged the message
	KeyError      = "error"
	KeyLimits     = "limits" // limits that a reload has changed
	KeyKeys       = "keys"   // keys of the configuration

	// Keys of records for programs. The value of KeyEvent is probe or progress. Unknown figures are
	// left out.
	KeyEvent    = "event"
	KeyProbe    = "probe"            // the dependency that was probed
	KeyOK       = "ok"               // true, false, or null if unknown
	KeyDetail   = "detail"           // the dependency's answer
	KeyRate     = "items_per_second" // rate over the last five minutes
	KeyETA      = "eta_seconds"      // time until a copy is complete
	KeyLag      = "lag_seconds"
	KeyHeadroom = "headroom_seconds"
	KeyThrottle = "throttled" // why a copy is not faster, in fixed words
	KeyDone     = "done"      // whether a copy is complete
	KeySeconds  = "took_seconds"
)

// ListeningMessage is the message of the log line in which a worker reports its address, under
// KeyAddress. Programs that start a worker wait for this line.
const ListeningMessage = "listening"

// Log configures a log.
type Log struct {
	// Format is text or json; see LogFormat for auto.
	Format string
	// Level is debug, info, warn or error. Lines of a lower level are left out.
	Level string
	// Terminal reports whether the output is a terminal.
	Terminal bool
	// Clock returns the time for each line. If it is nil, each record keeps its own time.
	Clock func() time.Time
}

// LogFormat returns the format of a log, given the requested one. If auto or an unknown format was
// requested, it returns text for a log that people read, and json otherwise. A process writes
// everything on stderr in this format.
func LogFormat(asked string, people bool) string {
	switch {
	case asked == "text" || asked == "json":
		return asked
	case people:
		return "text"
	}
	return "json"
}

// New returns a logger that writes to out. It returns an error for an unknown format or level.
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

// cloudNames renames the built-in keys and levels to the names that Cloud Logging understands.
// Source: https://cloud.google.com/logging/docs/structured-logging (special fields) and
// https://cloud.google.com/logging/docs/reference/v2/rest/v2/LogEntry#LogSeverity
func cloudNames(groups []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		// People cannot easily read a number of nanoseconds.
		a.Value = slog.StringValue(a.Value.Duration().String())
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

// shortTime removes the date from times. People at a terminal know the date.
func shortTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.String(slog.TimeKey, a.Value.Time().Format("15:04:05.000"))
	}
	return a
}

// clocked is a handler that sets the time of each record from a clock.
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
