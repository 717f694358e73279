package apply

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"
)

// Each attempt to apply a message has a span, linked to the span that published it. The retries after
// failures are within the span. A process without traces ignores the attribute, as older versions do.
func TestAMessageHasALinkedSpan(t *testing.T) {
	for _, traced := range []bool{true, false} {
		playScene(t, func(s *scene) {
			spans, refusals := &enginetest.Spans{}, 2
			if traced {
				s.Tracer = spans
			}
			s.message(1, 7)
			s.message(2, 6)
			s.waiting[0].Attributes = map[string]string{relay.TraceparentAttribute: "published", "later": "unknown"}
			s.answer = func(context.Context, *sink.Request) error {
				if refusals--; refusals >= 0 {
					return &sink.Error{Reason: sink.Unknown, Code: "Unavailable"}
				}
				return nil
			}
			s.applies(30 * time.Second)
			if len(s.rows) == 0 || !s.noted(1) {
				t.Fatalf("traced %t: not applied: %q", traced, s.told)
			}
			var got []string
			for _, span := range spans.Named(engine.SpanApply) {
				got = append(got, span.Facts.Link+": "+span.Last.Outcome)
				if want := (engine.SpanFacts{Table: "Orders", Shard: "s", Link: span.Facts.Link}); span.Facts != want || span.Err != nil || span.Ended != 1 {
					t.Errorf("%+v, %v", span.Facts, span.Err)
				}
			}
			// The ledger does not know the change of the first message when the message arrives.
			want := []string{"published: waits for the ledger", "published: applied", ": applied"}
			if slices.Sort(got); !traced {
				want = nil
			}
			if slices.Sort(want); !slices.Equal(got, want) {
				t.Errorf("traced %t: %q, want %q", traced, got, want)
			}
		})
	}
}

// With dual writes, only the first application of a message has a span: the second one comes a day
// later, when its trace is long complete.
func TestTheSecondApplicationHasNoSpan(t *testing.T) {
	playScene(t, func(s *scene) {
		spans := &enginetest.Spans{}
		s.Tracer, s.Tables[0].Late = spans, time.Minute
		s.message(1, 7)
		s.applies(5 * time.Minute)
		applied := 0
		for _, span := range spans.Named(engine.SpanApply) {
			if span.Last.Outcome == "applied" {
				applied++
			}
		}
		if s.writes != 2 || applied != 1 {
			t.Errorf("%d writes, %d spans", s.writes, applied)
		}
	})
}
