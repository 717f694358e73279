package enginetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Spans is an engine.Tracer that keeps all spans, in the order in which they begin.
type Spans struct {
	mu  sync.Mutex
	all []*Span
}

// Span is a span that a test sees.
type Span struct {
	Name        string
	Parent      *Span
	Facts, Last engine.SpanFacts // at its beginning and at its end
	From, To    time.Duration    // on the monotonic clock
	Ended       int
	Err         error

	ctx context.Context
}

type spanKey struct{}

// Begin implements engine.Tracer.
func (s *Spans) Begin(ctx context.Context, name string, ago time.Duration, facts engine.SpanFacts) (context.Context, engine.OpenSpan) {
	parent, _ := ctx.Value(spanKey{}).(*Span)
	span := &Span{Name: name, Parent: parent, Facts: facts, From: task.Mono(ctx) - ago, ctx: ctx}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, span)
	return context.WithValue(ctx, spanKey{}, span), span
}

// Traceparent implements engine.Tracer: it names the span of ctx.
func (s *Spans) Traceparent(ctx context.Context) string {
	span, _ := ctx.Value(spanKey{}).(*Span)
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.all, span); i >= 0 {
		return fmt.Sprint("span ", i)
	}
	return ""
}

// End implements engine.OpenSpan.
func (s *Span) End(ago time.Duration, facts engine.SpanFacts, err error) {
	s.Last, s.To, s.Err = facts, task.Mono(s.ctx)-ago, err
	s.Ended++
}

// Named returns the spans of a name.
func (s *Spans) Named(name string) (found []*Span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, span := range s.all {
		if span.Name == name {
			found = append(found, span)
		}
	}
	return found
}

// Tree returns the names of all spans that have no parent, each with its children in brackets. A span
// that did not end exactly once has an exclamation mark.
func (s *Spans) Tree() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var of func(parent *Span) string
	of = func(parent *Span) string {
		var names []string
		for _, span := range s.all {
			if span.Parent != parent {
				continue
			}
			name := span.Name
			if children := of(span); children != "" {
				name += "(" + children + ")"
			}
			if span.Ended != 1 {
				name += "!"
			}
			names = append(names, name)
		}
		return strings.Join(names, " ")
	}
	return of(nil)
}
