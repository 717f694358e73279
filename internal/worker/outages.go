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

// outages tell what fails and is repeated: one line when it begins, and one when it is over,
// however many shards, parts and tables repeat it. Its methods may be called by many tasks at once.
type outages struct {
	log *slog.Logger

	mu   sync.Mutex
	open map[outage]*spell
	told map[outage]time.Duration // of what has no end that is told
}

// outage is what fails. A service that does not answer fails for all tables, and one that refuses
// may do so for one. A record that cannot be read is an outage of its own.
type outage struct{ code, step, table, record string }

// spell is how long an outage lasts.
type spell struct {
	first, last time.Duration
	operation   string
}

// retry notes that a step failed and is repeated after wait.
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

// first reports whether something that many tell of is told for the first time, or for the first time
// after it was over.
func (o *outages) first(now time.Duration, of outage) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	last, told := o.told[of]
	o.told[of] = now
	return !told || now-last > calm
}

// look tells of outages that are over: nothing has failed for that reason for longer than attempts
// are apart.
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

// lasts reports whether something fails: what is given up and taken again meanwhile is no news.
func (o *outages) lasts() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.open) > 0
}

// factsOf are code and fix of a failure; their zero value if it has no code.
func factsOf(step string, err error) diag.Facts {
	var known *diag.Error
	if !errors.As(preflight.ExplainStep("cannot "+step, err), &known) {
		return diag.Facts{}
	}
	facts := known.Facts()
	if cdc.Is(err, cdc.Throttled) || sink.Is(err, sink.Throttled) {
		facts.Fix = "" // it is repeated, and passes by itself
	}
	return facts
}

// outageOf is the outage of which a failure is a part.
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

// operationOf is the name of the API's operation that failed, or else the step.
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
