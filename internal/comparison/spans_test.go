package comparison

import (
	"context"
	"testing"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"
)

// Each kind of comparison that has no parts has a span of its own.
func TestComparisonsHaveSpans(t *testing.T) {
	traced := func(s *scene, name string, change func(o *Operator), compare func(o *Operator, ctx context.Context) error) {
		s.Helper()
		spans := &enginetest.Spans{}
		o := s.operator(change)
		o.tracer = spans
		if err := compare(o, s.Ctx); err != nil && !diag.Has(err, diag.RowsDiffer) {
			s.Fatal(err)
		}
		all := spans.Named(name)
		if len(all) != 1 || all[0].Ended != 1 || all[0].Facts.Table != "Orders" || all[0].Last.Rows == 0 || all[0].Last.Outcome != "done" || all[0].Err != nil {
			s.Errorf("%s: %s", name, spans.Tree())
		}
	}
	playScene(t, func(s *scene) {
		traced(s, "verify keys", func(o *Operator) { o.Keys = []string{keyText("a"), keyText("b")} }, (*Operator).compareKeys)
	})
	flown(t, false, func(s *scene) {
		traced(s, "verify in flight", func(o *Operator) { o.reach, o.InFlight = s.reading, true }, (*Operator).recheckInFlight)
	})
	playReverse(t, checkpoint.FallbackFollowing, func(s *scene) {
		traced(s, "verify reverse", func(o *Operator) { o.Reverse, o.Table = true, "" }, (*Operator).beginReverse)
	})
}
