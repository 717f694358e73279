package worker

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/switchover"
)

// endOfCutover is the time limit of a wait at the end of a run. If the run ends because the tables
// are cut over, it waits for the last records of the cutover.
const endOfCutover = 30 * time.Second

// drive drives cutovers until ctx ends or the tables are cut over. If no hooks are configured, it
// drives only rehearsals. If it cannot drive, it logs that, and replication continues. It calls
// retry with the errors and timeouts of services.
func (w *Worker) drive(ctx context.Context, ledger *checkpoint.Ledger, retry func(step string, err error)) error {
	if w.source == nil {
		w.Log.Warn("this process cannot drive a cutover or watch for late writers: DynamoDB is not configured")
		return nil
	}
	var hooks cutover.Hooks
	if w.Config.Cutover.Hooks.Given() {
		called, err := switchover.Hooks(w.Config)
		if err != nil {
			w.Log.Warn("cannot drive cutovers: a hook cannot be called", admin.KeyError, err.Error())
		} else {
			called.Heard = func(call cutover.Call, output string) {
				w.Log.Info("a hook of the cutover printed", admin.KeyHook, call.Hook, admin.KeyToken, call.Token, admin.KeyOutput, output)
			}
			hooks = tracedHooks{called, w.telemetry.Tracer()}
		}
	}
	d := switchover.Driver(switchover.EndsOf(w.Config, ledger, w.source, w.target, w.Build.Version), hooks)
	d.OnStep = func(c checkpoint.Cutover) {
		w.Log.Info("cutover", admin.KeyStep, string(c.Step), admin.KeyReason, c.Reason)
	}
	told := ""
	d.Failed = func(step string, err error) {
		if factsOf(step, err).Code != "" {
			retry(step, err)
			return
		}
		if text := step + err.Error(); text != told { // the same error recurs every second
			told = text
			var hook *cutover.HookError
			if errors.As(err, &hook) {
				w.Log.Warn("this process cannot call a hook of the cutover", admin.KeyCode, diag.HookFailed, admin.KeyError, err.Error())
				return
			}
			w.Log.Warn("cannot "+step, admin.KeyError, err.Error())
		}
	}
	return d.RunAll(ctx, func(all checkpoint.Cutovers) bool { return over(w.Config, all) })
}

// tracedHooks records each call of a hook as a span.
type tracedHooks struct {
	cutover.Hooks
	tracer engine.Tracer
}

// Call implements cutover.Hooks.
func (h tracedHooks) Call(ctx context.Context, call cutover.Call) (output string, outcome cutover.Outcome) {
	ctx, span := engine.Trace(ctx, h.tracer, engine.SpanHook, 0, engine.SpanFacts{Hook: call.Hook, Direction: cmp.Or(call.Direction, cutover.Forward)})
	output, outcome = h.Hooks.Call(ctx, call)
	span.End(engine.SpanFacts{Outcome: string(outcome)}, nil)
	return output, outcome
}

// endOfLead is how long a process that ends waits for its leaders of ways back.
const endOfLead = 10 * time.Second

// lead leads the ways back that no other process leads, until ctx ends. When
// `staying` ends, the leaders finish what they have begun.
func (w *Worker) lead(ctx, staying context.Context, ledger *checkpoint.Ledger, o *observer) error {
	if w.source == nil {
		return nil // drive logs it
	}
	l := switchover.Leaders{Ends: switchover.EndsOf(w.Config, ledger, w.source, w.target, w.Build.Version)}
	l.Failed = func(step, table string, err error) { o.retry(table, step, engine.SurveyEvery, err) }
	return l.Run(ctx, staying)
}

// over reports whether no cutover is left to drive, because every table is cut over.
func over(cfg *config.Config, all checkpoint.Cutovers) bool {
	watching := slices.ContainsFunc(all, func(c checkpoint.Cutover) bool { return c.Step.Active() })
	return !watching && preflight.LeftOf(cfg, all).All() != nil
}
