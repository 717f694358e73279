package comparison

import (
	"slices"
	"testing"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/kit"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// If the row depends on more than the key, a removed item's row is found by the image of a parked
// change. Without such an image, the row is unknown.
func TestKeysOfItemsThatMove(t *testing.T) {
	cfg, err := config.Parse("f", []byte(`{version: 1, name: p, target: {project: p, instance: i}, tables: [{from: Orders, to: orders,
 rules: [{row_key: "{total}#{pk}", columns: {"*": d}}]}]}`), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	kit.Play(t, cfg, func(m *kit.Migration) {
		s := &scene{Migration: m}
		for _, pk := range []string{"a", "b"} {
			s.Must(s.Source.Put(s.Ctx, "Orders", kit.Item(pk, "total=9")))
		}
		s.Load("Orders")
		delete(s.Source.Items["Orders"], "b")
		keys := func(o *Operator) {
			o.reach = func(*desk.Migration) ends { return ends{source: s.Source, target: s.Target, repair: s.Target} }
		}
		k, code := s.keyed(keys, "a", "b")
		if got := k.results(); code != "" || !slices.Equal(got, []string{"1 same", "2 unlocated"}) {
			t.Errorf("without an image: %q: %q", code, got)
		}
		old := kit.Item("b", "total=9")
		record := transform.Parked{Source: "Orders", Version: transform.LoadVersion(5, s.Now()), Reason: "r"}
		record.Key = s.mapping().ItemKey(old)
		record.Change = cdc.Change{Event: cdc.Remove, Sequence: cdc.SequenceOf(1), Keys: kit.Item("b"), Old: old}
		s.Must(sink.NewParking(s.Target.Records(""), cfg.Name).Park(s.Ctx, record))
		k, code = s.keyed(keys, "a", "b")
		if got := k.results(); code != diag.RowsDiffer || !slices.Equal(got, []string{"1 same", "2 differs extra d:pk d:total"}) {
			t.Errorf("with an image: %q: %q", code, got)
		}
	})
}

// mapping returns the mapping of the table Orders.
func (s *scene) mapping() *transform.Mapping {
	s.Helper()
	table, _ := s.Config.Table("Orders")
	m, err := table.Mapping([]transform.KeyAttribute{{Name: "pk", Type: kit.Item("a").Attributes()[0].Value.Kind()}})
	s.Must(err)
	return m
}
