package engine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"
)

// The span of some work has its table, what it did and its outcome. Work that a stop ends has not
// failed. Without a tracer the work is done all the same.
func TestTracedWork(t *testing.T) {
	for outcome, failure := range map[string]error{"done": nil, "released": backfill.ErrDrained, "failed": errors.New("no")} {
		spans := &enginetest.Spans{}
		for _, tracer := range []engine.Tracer{nil, spans} {
			err := engine.Traced(t.Context(), tracer, engine.SpanVerifyKeys, "Orders", func(context.Context) (engine.SpanFacts, error) {
				return engine.SpanFacts{Rows: 3}, failure
			})
			if !errors.Is(err, failure) {
				t.Errorf("%s: %v", outcome, err)
			}
		}
		of := spans.Named("verify keys")
		if len(of) != 1 || of[0].Facts.Table != "Orders" || of[0].Last.Rows != 3 || of[0].Last.Outcome != outcome || (of[0].Err != nil) != (outcome == "failed") || of[0].Ended != 1 {
			t.Errorf("%s: %+v", outcome, of)
		}
	}
}
