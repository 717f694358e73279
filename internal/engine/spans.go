package engine

import (
	"context"
	"errors"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
)

// The names of spans. A page has the steps read, publish, fold, write and commit as its children. A
// part of a job has the name of its job: load part, verify part. Other comparisons begin with verify.
const (
	SpanPage    = "page"
	SpanRead    = "read"
	SpanPublish = "publish"
	SpanFold    = "fold"
	SpanWrite   = "write"
	SpanCommit  = "commit"
	SpanApply   = "apply" // a message of a topic
	SpanHook    = "hook"  // a call of a cutover's hook
	SpanPart    = "part"  // the second word, after the job's verb

	SpanVerifyKeys     = "verify keys"      // a batch of single items
	SpanVerifyInFlight = "verify in flight" // the rows of a table that stayed in flight
	SpanVerifySample   = "verify sample"    // a round of recent changes, and of rows that differ
	SpanVerifyReverse  = "verify reverse"   // the items of a table with their rows
)

// Tracer begins the spans of a process. Package internal/telemetry implements it. Many tasks call it
// concurrently. A nil Tracer stands for a process without traces.
type Tracer interface {
	// Begin begins a span of work that began the time `ago` before now. The span is a child of the
	// span in ctx, if ctx has one. The returned context has the new span.
	Begin(ctx context.Context, name string, ago time.Duration, facts SpanFacts) (context.Context, OpenSpan)
	// Traceparent returns the span of ctx in the form of W3C's Trace Context; "" if ctx has no span,
	// or if the span is not recorded.
	Traceparent(ctx context.Context) string
}

// OpenSpan is a span that has begun. End must be called exactly once.
type OpenSpan interface {
	// End ends the span the time `ago` before now, and adds facts. If err is not nil, the work
	// failed.
	End(ago time.Duration, facts SpanFacts, err error)
}

// SpanFacts are the attributes that spans may have. Zero values are left out. No field holds item
// data, and no other attributes exist, so traces have no item data.
type SpanFacts struct {
	Table string // source table
	Shard string
	// Phase is the phase of a part's job, such as copy or sweep-1. Part is its index, which is left
	// out if Parts is 0.
	Phase       string
	Part, Parts int

	Records int   // records that a page has
	Changes int   // changes that are applied; without those from before the start
	Rows    int   // rows that are written
	Items   int64 // items of a part that are done

	Hook, Direction string // of a cutover
	Outcome         string // in one of a few fixed words
	Link            string // traceparent of the span that published the message
}

// Span is a span, or the zero value, which records nothing.
type Span struct{ open OpenSpan }

// Trace begins a span. With a nil tracer it returns ctx and a Span that records nothing, and
// allocates no memory.
func Trace(ctx context.Context, tracer Tracer, name string, ago time.Duration, facts SpanFacts) (context.Context, Span) {
	if tracer == nil {
		return ctx, Span{}
	}
	ctx, open := tracer.Begin(ctx, name, ago, facts)
	return ctx, Span{open}
}

// Traced runs work in a span of a table. The work returns facts about its result. Work that ends
// early, because its process stops, has not failed.
func Traced(ctx context.Context, tracer Tracer, name, table string, work func(ctx context.Context) (SpanFacts, error)) error {
	ctx, span := Trace(ctx, tracer, name, 0, SpanFacts{Table: table})
	facts, err := work(ctx)
	facts.Outcome = "done"
	shown := err
	if errors.Is(err, backfill.ErrDrained) || errors.Is(err, context.Canceled) || err != nil && ctx.Err() != nil {
		facts.Outcome, shown = "released", nil
	} else if err != nil {
		facts.Outcome = "failed"
	}
	span.End(facts, shown)
	return err
}

// Recorded reports whether the span is not the zero value.
func (s Span) Recorded() bool { return s.open != nil }

// Done ends the span now, without further facts.
func (s Span) Done(err error) { s.EndedAgo(0, SpanFacts{}, err) }

// End ends the span now.
func (s Span) End(facts SpanFacts, err error) { s.EndedAgo(0, facts, err) }

// EndedAgo ends the span the time `ago` before now.
func (s Span) EndedAgo(ago time.Duration, facts SpanFacts, err error) {
	if s.open != nil {
		s.open.End(ago, facts, err)
	}
}
