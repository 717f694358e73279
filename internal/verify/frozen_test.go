package verify

import (
	"testing"

	"github.com/dynamodb-bigtable/replicator/test/kit"
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
