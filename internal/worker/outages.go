package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// outages reports failing steps that are retried. It logs one line when an outage begins, and one
// line when it ends, even if many shards, parts and tables retry. Its methods may be called
// concurrently.
type outages struct {
	log *slog.Logger

	mu       sync.Mutex
	open     map[outage]*spell
	reported map[outage]time.Duration // failures that need an operator
}

// outage identifies a failure. A service that does not answer fails for all tables. A service that
// refuses a request may refuse it for one table only. A record that cannot be read is a separate
// outage.
type outage struct{ code, step, table, record string }

// spell holds the times of an outage.
type spell struct {
	first, last time.Duration
	operation   string
}

// retry records that a step failed, and is retried after `wait`.
func (o *outages) retry(now time.Duration, table, step string, wait time.Duration, err error) {
	facts := factsOf(step, err)
	why := outageOf(facts.Code, table, step, err)
	o.mu.Lock()
	of := o.open[why]
	begins := of == nil && wait >= quietWait
	switch {
	case begins:
		of = &spell{first: now, operation: operationOf(step, err)}
		o.open[why] = of
		of.last = now
	case of != nil:
		of.last = now
	}
	o.mu.Unlock()
	level, fix := slog.LevelDebug, ""
	if begins {
		level, fix = slog.LevelWarn, facts.Fix
	}
	var attributes []any
	if table != "" {
		attributes = append(attributes, admin.KeyTable, table)
	}
	attributes = append(attributes, admin.KeyStep, step, admin.KeyWait, wait.Round(time.Millisecond).String(), admin.KeyError, err.Error())
	if facts.Code != "" {
		attributes = append(attributes, admin.KeyCode, facts.Code)
	}
	if fix != "" {
		attributes = append(attributes, admin.KeyFix, fix)
	}
	o.log.Log(context.Background(), level, "retrying "+operationOf(step, err), attributes...)
}

// first reports whether a failure must be reported now. Many tasks may have the same failure, but
// it is reported only once until it ends.
func (o *outages) first(now time.Duration, of outage) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	last, known := o.reported[of]
	o.reported[of] = now
	return !known || now-last > calm
}

// look reports the outages that have ended. An outage has ended if no attempt has failed for longer
// than the time between attempts.
func (o *outages) look(now time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for why, of := range o.open {
		if now-of.last <= calm {
			continue
		}
		delete(o.open, why)
		attributes := []any{admin.KeyTook, (of.last - of.first).Round(time.Second).String()}
		if why.table != "" {
			attributes = append(attributes, admin.KeyTable, why.table)
		}
		if why.code != "" {
			attributes = append(attributes, admin.KeyCode, why.code)
		}
		o.log.Info("recovered: "+of.operation, attributes...)
	}
}

// lasts reports whether there is an outage now. During an outage, released and acquired leases are
// not reported.
func (o *outages) lasts() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.open) > 0
}

// factsOf returns the code and the fix of a failure, or the zero value if the failure has no code.
func factsOf(step string, err error) diag.Facts {
	var known *diag.Error
	if !errors.As(preflight.ExplainStep("cannot "+step, err), &known) {
		return diag.Facts{}
	}
	facts := known.Facts()
	if cdc.Is(err, cdc.Throttled) || sink.Is(err, sink.Throttled) {
		facts.Fix = "" // a retry fixes the failure
	}
	return facts
}

// outageOf returns the outage to which a failure belongs.
func outageOf(code, table, step string, err error) outage {
	var record *cdc.RecordError
	switch {
	case errors.As(err, &record):
		return outage{code: code, table: table, record: record.Error()}
	case code == diag.SourceUnreachable, code == diag.TargetUnreachable:
		return outage{code: code}
	case code != "":
		return outage{code: code, table: table}
	}
	return outage{step: step, table: table}
}

// operationOf returns the name of the API operation that failed. If it is unknown, it returns the
// step.
func operationOf(step string, err error) string {
	var read *cdc.Error
	var write *sink.Error
	var topic *relay.Error
	switch {
	case errors.As(err, &read) && read.Op != "":
		return read.Op
	case errors.As(err, &write) && write.Op != "":
		return write.Op
	case errors.As(err, &topic) && topic.Op != "":
		return topic.Op
	}
	return step
}
