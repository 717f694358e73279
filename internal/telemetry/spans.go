package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
)

// tracer implements engine.Tracer.
type tracer struct {
	sdk   trace.Tracer
	clock func() time.Time
}

// Begin implements engine.Tracer.
func (t tracer) Begin(ctx context.Context, name string, ago time.Duration, facts engine.SpanFacts) (context.Context, engine.OpenSpan) {
	options := []trace.SpanStartOption{trace.WithAttributes(attributesOf(facts)...), trace.WithSpanKind(kindOf(name))}
	if ago > 0 {
		options = append(options, trace.WithTimestamp(t.clock().Add(-ago)))
	}
	if facts.Link != "" {
		options = append(options, trace.WithLinks(linkTo(facts.Link)))
	}
	ctx, span := t.sdk.Start(ctx, name, options...)
	return ctx, openSpan{span, t.clock}
}

// Traceparent implements engine.Tracer.
func (tracer) Traceparent(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"]
}

// openSpan implements engine.OpenSpan.
type openSpan struct {
	span  trace.Span
	clock func() time.Time
}

// End implements engine.OpenSpan.
func (s openSpan) End(ago time.Duration, facts engine.SpanFacts, err error) {
	s.span.SetAttributes(attributesOf(facts)...)
	if err != nil {
		s.span.SetStatus(codes.Error, shortened(err.Error()))
	}
	if ago > 0 {
		s.span.End(trace.WithTimestamp(s.clock().Add(-ago)))
		return
	}
	s.span.End()
}

// kindOf returns how a span relates to Pub/Sub.
func kindOf(name string) trace.SpanKind {
	switch name {
	case engine.SpanPublish:
		return trace.SpanKindProducer
	case engine.SpanApply:
		return trace.SpanKindConsumer
	}
	return trace.SpanKindInternal
}

// linkTo returns a link to the span of a traceparent. Another program may have written the message.
// If the text is no traceparent, the link is to no span, and the SDK leaves it out.
func linkTo(traceparent string) trace.Link {
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": traceparent})
	return trace.Link{SpanContext: trace.SpanContextFromContext(ctx)}
}

// attributesOf returns the attributes of a span.
func attributesOf(f engine.SpanFacts) []attribute.KeyValue {
	var all []attribute.KeyValue
	for _, text := range [...]struct{ name, value string }{
		{"replicator.source_table", f.Table}, {"replicator.shard", f.Shard}, {"replicator.phase", f.Phase},
		{"replicator.hook", f.Hook}, {"replicator.direction", f.Direction}, {"replicator.outcome", f.Outcome},
	} {
		if text.value != "" {
			all = append(all, attribute.String(text.name, text.value))
		}
	}
	if f.Parts > 0 {
		all = append(all, attribute.Int("replicator.part", f.Part), attribute.Int("replicator.parts", f.Parts))
	}
	for _, count := range [...]struct {
		name  string
		value int64
	}{
		{"replicator.records", int64(f.Records)}, {"replicator.changes", int64(f.Changes)}, {"replicator.rows", int64(f.Rows)}, {"replicator.items", f.Items},
	} {
		if count.value != 0 {
			all = append(all, attribute.Int64(count.name, count.value))
		}
	}
	return all
}

// longest is the number of bytes of an error's text that are shown. Receivers may answer with pages.
const longest = 300

func shortened(text string) string {
	if len(text) > longest {
		return text[:longest] + "…"
	}
	return text
}

// Recorded returns the ids of the span of a context, in hexadecimal digits, if the span is recorded.
func Recorded(ctx context.Context) (traceID, spanID string) {
	if of := trace.SpanContextFromContext(ctx); of.IsSampled() {
		return of.TraceID().String(), of.SpanID().String()
	}
	return "", ""
}
