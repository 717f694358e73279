package verify

import (
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/test/kit"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// One process compares a table with frozen writes as a whole, without the ledger, and ignores
// canaries.
func TestCompareFrozen(t *testing.T) {
	playScene(t, "abc", func(s *scene) {
		s.Must(s.Source.Put(s.Ctx, "Orders", kit.Item("d"))) // never applied
		state := s.Table("Orders")
		before := s.Now()
		r, err := CompareFrozen(s.Ctx, s.options(), state, 100, []byte("key"))
		s.Must(err)
		if r.Items != 4 || r.Missing != 1 || r.Differing() != 1 || len(r.Findings) != 1 || r.Stored().Clean() {
			t.Errorf("found %+v: %+v", r.Counts, r.Findings)
		}
		if waited := s.Now().Sub(before); waited > 0 {
			t.Errorf("it waited %s", waited)
		}
		if s.Table("Orders").Verify.Number != state.Verify.Number {
			t.Error("it began a verify in the ledger")
		}
	})
}

// The result of a comparison with frozen writes says how it was made. No row needs time to settle,
// however long the application's writes take otherwise.
func TestWhatAFrozenResultSays(t *testing.T) {
	playScene(t, "abc", func(s *scene) {
		s.Damage("orders", "a", "d", "total", "x")
		state, o, began := s.Table("Orders"), s.options(), s.Now()
		o.Table.Settle = time.Hour
		r, err := CompareFrozen(s.Ctx, o, state, 100, []byte("key"))
		s.Must(err)
		if r.Way != verify.Quiet || r.Why != "writes are frozen" || r.Different != 1 || r.Items != 3 || r.Rows != 3 {
			t.Errorf("%s, %s: %+v", r.Way, r.Why, r.Counts)
		}
		r, err = SampleFrozen(s.Ctx, o, state, 2, 30)
		s.Must(err)
		if r.Way != verify.Live || r.Why != "a sample" || r.Different != 1 || r.Items != 1 || r.Compared != 1 || r.InFlight != 0 {
			t.Errorf("%s, %s: %+v", r.Way, r.Why, r.Counts)
		}
		if waited := s.Now().Sub(began); waited > 0 {
			t.Errorf("they waited %s", waited)
		}
	})
}

// With frozen writes nothing is awaited, retried, paced or explained by the stream, even if the
// process could read it.
func TestWhatAFrozenComparisonLeavesOut(t *testing.T) {
	playScene(t, "a", func(s *scene) {
		o := s.options()
		o.Open, o.Table.Settle = s.Source.Open, time.Hour
		c := o.frozen(s.Ctx, s.Table("Orders"))
		if c.Applied != nil || c.Unapplied != nil || c.Settle != 0 || c.Retry != nil || c.Pace != nil {
			t.Errorf("%+v", c)
		}
	})
}
