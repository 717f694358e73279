package job

import (
	"context"
	"errors"
	"fmt"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// take leases a part, and starts a task that processes it. It returns only errors that must end the
// process.
func (s *phaseLoop) take(state checkpoint.TableState, part checkpoint.Part) error {
	drain, phase := s.drain, s.phase
	// The name includes the phase, because this worker may still hold a part of an earlier phase
	// with the same index.
	name := fmt.Sprintf("part %d of %s %d.%d", part.Index, part.Phase, part.Generation, part.Number)
	err := s.held.Begin(name, func(ctx context.Context) (func(life engine.Lifecycle) error, error) {
		lease, work, err := phase.Take(ctx, state, part)
		s.Events.Tick()
		return func(life engine.Lifecycle) error {
			life.Drain = drain
			return s.hold(life, lease, work)
		}, err
	})
	switch {
	case engine.Fatal(err):
		return err
	case err != nil && !engine.IsAny(err, checkpoint.ErrTaken, checkpoint.ErrHalted, sink.ErrNoFence):
		s.Events.Retry(s.Source, "acquire a part to "+s.Verb, s.Timing.Pass, err)
	}
	return nil
}

// trace begins the span of this worker's work on a part.
func (l *Loop) trace(ctx context.Context, part checkpoint.Part) (context.Context, engine.Span) {
	if l.Tracer == nil {
		return ctx, engine.Span{}
	}
	return engine.Trace(ctx, l.Tracer, l.Verb+" "+engine.SpanPart, 0, engine.SpanFacts{
		Table: l.Source, Phase: string(part.Phase), Part: part.Index, Parts: part.Total,
	})
}

// endOfPart ends the span of a part. A part that is released is no failure, because the next worker
// resumes it.
func endOfPart(span engine.Span, part checkpoint.Part, err error, draining bool) {
	facts := engine.SpanFacts{Items: part.Items, Outcome: "done"}
	if err != nil && (draining || errors.Is(err, backfill.ErrDrained)) {
		facts.Outcome, err = "released", nil
	} else if err != nil {
		facts.Outcome = "failed"
	}
	span.End(facts, err)
}

// hold processes a part under its lease until the part is done or released, or the lease is lost.
// It returns only errors that must end the process.
func (l *Loop) hold(life engine.Lifecycle, lease *checkpoint.PartLease, work Work) error {
	g := task.NewGroup(lease.Context(), 0)
	g.Go("renew the part", func(context.Context) error { return lease.Keep() })
	g.Go(l.Verb+" the part", func(ctx context.Context) error {
		defer lease.Abandon()
		ctx, span := l.trace(ctx, lease.Part())
		err := work(life.Within(ctx).Noting(lease.Note))
		endOfPart(span, lease.Part(), err, life.Draining())
		if err == nil {
			return nil
		}
		// If the release fails, the next worker waits until the lease ends.
		if released := lease.Release(ctx); !engine.Fatal(err) && engine.Fatal(released) {
			return released
		}
		return err
	})
	err := g.Wait()
	switch {
	case engine.Fatal(err): // a fatal error counts first, even if there are others
		return l.End(err)
	case err == nil || life.Draining() || engine.IsAny(err, backfill.ErrDrained, checkpoint.ErrLeaseLost, sink.ErrFenced):
		return nil // the next worker resumes from the saved position
	}
	// No retry under this lease can fix the error. For example, the target table is missing, and
	// may be created again later.
	l.Events.Retry(l.Source, l.Verb+" a part", l.Timing.List, err)
	l.kind.Failed(err)
	_ = task.Sleep(life.Drain, l.Timing.List)
	return nil
}
