package engine_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// A table is suspended once for each reason, and keeps that time: the coordinator finds the same
// reason every minute. A table that was dropped more than two days ago is skipped. If the reason
// changes, the ledger records the new one.
func TestSetAsideOnceForEachReason(t *testing.T) {
	enginetest.Listed(t, &enginetest.PagedStream{}, func(ctx context.Context, k *enginetest.Rig, _ checkpoint.TableState) {
		var told []string
		events := engine.Events{Suspended: func(_, reason string) { told = append(told, reason) }}
		for i, step := range []struct {
			reason string
			since  int // the step at which the suspension began
		}{{"no stream", 0}, {"no stream", 0}, {engine.GoneReason, 2}, {engine.GoneReason, 2}, {"no stream", 4}} {
			if err := engine.Suspend(ctx, k.Ledger, events, "Orders", step.reason); err != nil {
				t.Error(err)
			}
			state, _, err := k.Ledger.Table(ctx, "Orders")
			since := enginetest.ListingsBegin.Add(time.Duration(step.since) * time.Minute)
			if err != nil || state.Suspended.Reason != step.reason || !state.Suspended.Since.Equal(since) {
				t.Errorf("step %d: %+v, want it since %s, %v", i, state.Suspended, since, err)
			}
			if err := task.Sleep(ctx, time.Minute); err != nil {
				t.Error(err)
			}
		}
		if want := []string{"no stream", engine.GoneReason, "no stream"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}

// A worker that starts after its table was dropped reads the rest of the stream, even though the
// table can no longer be described.
func TestADroppedTableIsNobodyElses(t *testing.T) {
	enginetest.Listed(t, &enginetest.PagedStream{}, func(ctx context.Context, k *enginetest.Rig, _ checkpoint.TableState) {
		k.Database = enginetest.Dropped{}
		if err := k.Table().SameSource(ctx); err != nil {
			t.Error(err)
		}
	})
}

// If another raise comes first, this one fails without its change. The caller learns that and looks
// again.
func TestH24_AnOvertakenRaiseIsTold(t *testing.T) {
	enginetest.Listed(t, &enginetest.PagedStream{}, func(ctx context.Context, k *enginetest.Rig, state checkpoint.TableState) {
		if _, err := k.Ledger.Raise(ctx, "Orders", state.Generation, checkpoint.DeclaredGap{Reason: "another"}, nil); err != nil {
			t.Error(err)
		}
		err := k.Table().Raise(engine.Until(ctx), state.Generation, checkpoint.DeclaredGap{Reason: "the stream is gone"}, func(s *checkpoint.TableState) { s.StreamEnded = true })
		if !errors.Is(err, checkpoint.ErrRaised) {
			t.Errorf("overtaken, it ends with %v", err)
		}
	})
}

// A stop ends the wait between two attempts of a step that may stay undone. Waits last up to most
// of a minute, which is longer than the grace, and leases would not be released.
func TestAStopEndsAWait(t *testing.T) {
	enginetest.Listed(t, &enginetest.PagedStream{}, func(ctx context.Context, k *enginetest.Rig, _ checkpoint.TableState) {
		failure, attempts := errors.New("no"), 0
		stop, cancel := task.WithTimeout(ctx, 10*time.Minute)
		defer cancel()
		err := k.Table().Retry(engine.Lifecycle{Drain: stop, Work: ctx}, "list the stream", func(context.Context) error { attempts++; return failure })
		if now := task.Mono(ctx); !errors.Is(err, failure) || now > 10*time.Minute || attempts < 10 {
			t.Errorf("ended after %s and %d attempts with %v", now, attempts, err)
		}
	})
}
