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

// A table is suspended once for each reason, and since then: the coordinator finds the same every
// minute, and only a table that was dropped two days ago is left. Of another reason the ledger
// tells the new one.
func TestSetAsideOnceForEachReason(t *testing.T) {
	enginetest.Listed(t, &enginetest.PagedStream{}, func(ctx context.Context, k *enginetest.Rig, _ checkpoint.TableState) {
		var told []string
		events := engine.Events{Suspended: func(_, reason string) { told = append(told, reason) }}
		for i, step := range []struct {
			reason string
			since  int // the step of which it is
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

// A worker that begins after its table was dropped reads what is left of the stream: it is not kept
// from that by a table that cannot be described.
func TestADroppedTableIsNobodyElses(t *testing.T) {
	enginetest.Listed(t, &enginetest.PagedStream{}, func(ctx context.Context, k *enginetest.Rig, _ checkpoint.TableState) {
		k.Database = enginetest.Dropped{}
		if err := k.Table().SameSource(ctx); err != nil {
			t.Error(err)
		}
	})
}

// A raise that another one has overtaken was not made with its change: whoever wanted it is told
// so, and looks again.
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

// A stop ends the wait between two attempts of what it may leave undone: waits come to most of a
// minute, which is longer than the grace, and leases would stay behind.
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
