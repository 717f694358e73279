package dualwrite_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/dualwrite"
	"github.com/dynamodb-bigtable/replicator/internal/comparison"
	"github.com/dynamodb-bigtable/replicator/internal/environment"
	"github.com/dynamodb-bigtable/replicator/internal/switchover"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/internal/worker"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// second rejects the second request of a change, and counts requests without a deadline.
type second struct {
	*recorder
	requests, unbounded int
}

func (s *second) Apply(ctx context.Context, r *sink.Request) (bool, error) {
	if _, ok := ctx.Deadline(); !ok {
		s.unbounded++
	}
	if s.requests++; s.requests == 2 {
		return false, &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Rejected, Code: "InvalidArgument"}
	}
	return s.recorder.Apply(ctx, r)
}

// A row to which no request is sent was not written. So a failure of the other row leaves the
// outcome of that row alone.
func TestARowWithoutARequestIsNotWritten(t *testing.T) {
	const rows = `{ write: [{ row_key: "c#{pk}#{sk}", columns: { customer: "d:customer" } }, { row_key: "{pk}#{sk}", columns: { pk: "d:pk" } }] }`
	for reason, want := range map[sink.Reason]dualwrite.Outcome{sink.Unknown: dualwrite.Unknown, sink.Rejected: dualwrite.NotWritten} {
		for image, requests := range map[string]int{strings.Replace(order1, `"customer"`, `"other"`, 1): 1, order1: 2} {
			m := mappingBy(t, rows, byTime)
			source, target := &table{}, &fails{recorder: newRecorder(m), row: "1#a", err: &sink.Error{Op: "CheckAndMutateRow", Reason: reason, Code: "Code"}}
			_, err := dualwrite.New(m, source, target).Put(t.Context(), item(t, image))
			want := want
			if requests == 2 {
				want = dualwrite.PartlyWritten
			}
			var failed *dualwrite.Error
			if !errors.As(err, &failed) || failed.Bigtable != want || target.requests != requests {
				t.Errorf("%s, %s: %v after %d requests, want %s", image, reason, err, target.requests, want)
			}
		}
	}
}

// fails is a target that fails one row's requests.
type fails struct {
	*recorder
	row      string
	err      error
	requests int
}

func (f *fails) Apply(ctx context.Context, r *sink.Request) (bool, error) {
	if f.requests++; r.Row == f.row {
		return false, f.err
	}
	return f.recorder.Apply(ctx, r)
}

// If the first of two rows was written, the change counts as partly written. No request to Bigtable
// waits forever.
func TestOneOfTwoRowsIsNotNone(t *testing.T) {
	m := mapping()
	source := &table{item: item(t, order1)}
	target := &second{recorder: newRecorder(m)}
	if _, err := dualwrite.New(m, source, target.recorder).Put(t.Context(), source.item); err != nil {
		t.Fatal(err)
	}
	next := item(t, strings.Replace(order1, `{"S":"x"}`, `{"S":"y"}`, 1))
	_, err := dualwrite.New(m, source, target).Put(context.Background(), next)
	var failed *dualwrite.Error
	if !errors.As(err, &failed) || target.requests != 2 {
		t.Fatalf("%v after %d requests", err, target.requests)
	}
	if failed.Bigtable != dualwrite.PartlyWritten {
		t.Errorf("one of two rows was written, and Bigtable counts as %s", failed.Bigtable)
	}
	if target.unbounded > 0 {
		t.Errorf("%d of %d requests have no deadline", target.unbounded, target.requests)
	}
}

// TestARehearsalHindersNoDualWrites: a rehearsal neither stops nor switches the application. The
// fence's family that writers use is dropped only after the witness names the next one.
func TestARehearsalHindersNoDualWrites(t *testing.T) {
	s := start(t, ranked+"cutover: { ready_when: { lag_held_for: 0s } }\n")
	s.replicate(t) // the copy, and the witness that writers read
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() {
		console := &terminal.Console{Stdout: io.Discard, Stderr: io.Discard, Env: os.LookupEnv}
		w := worker.New(worker.Options{Config: s.config, Console: console, Log: slog.New(slog.DiscardHandler), Lines: backfill.NewRenderer(io.Discard, nil)})
		if err := w.Run(ctx); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	})
	console := &terminal.Console{Stdout: io.Discard, Stderr: io.Discard, Env: os.LookupEnv}
	if err := (&comparison.Operator{Console: console, Cfg: s.config, Allowed: environment.Anything, Waits: true}).Begin(ctx); err != nil {
		t.Fatal(err)
	}
	w := s.open(t)
	if _, err := w.Put(ctx, item(t, order)); err != nil {
		t.Fatal(err)
	}
	rehearsal, over := context.WithCancelCause(ctx)
	running.Go(func() {
		o := &switchover.Operator{Console: console, Cfg: s.config, Allowed: environment.Anything}
		over(o.Start(ctx, switchover.Request{KeepFallback: "no", Rehearse: true, Overrides: []string{"lag"}, Reason: "x", Wait: true}))
	})
	var failed *dualwrite.Error
	for pace := time.Tick(20 * time.Millisecond); rehearsal.Err() == nil && failed == nil; <-pace {
		_, err := w.Update(ctx, item(t, order), func(old attribute.Item) (attribute.Item, error) { return old, nil })
		errors.As(err, &failed)
	}
	if failed == nil && !errors.Is(context.Cause(rehearsal), context.Canceled) {
		t.Fatalf("the rehearsal: %v", context.Cause(rehearsal))
	}
	if failed != nil {
		t.Errorf("a write failed in Bigtable during the rehearsal: %v", failed)
	}
}
