package verify

import (
	"testing"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/test/kit"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// Single rows are compared without a verify. Without a worker, a row whose change is not applied is
// pending.
func TestRowsAreComparedWithoutAVerify(t *testing.T) {
	playScene(t, "abcd", func(s *scene) {
		s.Sleep(leastPatience)
		s.StopWorker()
		s.Sleep(leastPatience)
		s.Must(s.Source.Put(s.Ctx, "Orders", kit.Item("c", "total=new")))
		s.Damage("orders", "b", "d", "pk", "x")
		before := s.Table("Orders").Verify
		o := s.options()
		o.Open = s.Source.Open
		var places []verify.Place
		for _, pk := range []string{"a", "b", "c"} {
			places = append(places, verify.Place{Table: "orders", Row: pk, Keys: []attribute.Item{kit.Item(pk)}})
		}
		got, err := OfRows(s.Ctx, o, s.Table("Orders")).Check(s.Ctx, s.Ctx, places...)
		s.Must(err)
		if len(got.Equal) != 1 || got.Equal[0].Row != "a" || len(got.Findings) != 1 || got.Findings[0].Row != "b" || len(got.Pending) != 1 || got.Pending[0].Row != "c" {
			t.Errorf("%+v", got)
		}
		if after := s.Table("Orders").Verify; after.Number != before.Number || after.Running() {
			t.Errorf("the ledger's record has changed: %+v", after)
		}
	})
}
