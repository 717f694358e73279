package transform

import (
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// Only rows of one item each, whose cells hold one value, and whose times have no meaning, can be
// written without a condition. The primary key does not matter.
func TestH83_H146_WhichMappingsArePlain(t *testing.T) {
	family := func(f Family) func(*Spec) {
		f.Name = "d"
		return func(s *Spec) { s.Families = []Family{f} }
	}
	as := func(e Encoding) func(*Spec) {
		return func(s *Spec) {
			s.Rules = []Rule{{Writes: []Write{{Columns: []ColumnRule{{Attribute: "n", To: "d:n", As: e}, {Attribute: "*", To: "d"}}}}}}
		}
	}
	for name, c := range map[string]struct {
		change func(*Spec)
		why    string // "" for a plain mapping
	}{
		"no rules":          {func(*Spec) {}, ""},
		"another family":    {family(Family{GC: GC{Versions: 3}}), ""},
		"JSON":              {as(AsJSON), ""},
		"several sources":   {func(s *Spec) { s.Merged = true }, "several source tables"},
		"kept versions":     {func(s *Spec) { s.KeepVersions, s.Families = true, []Family{{Name: "d", GC: GC{Versions: 3}}} }, "keep_versions"},
		"a number":          {func(s *Spec) { s.VersionAttribute = "rev" }, "version_attribute"},
		"expiry by cells":   {func(s *Spec) { s.TTL = TTL{Attribute: "until", Expire: ExpireByGC} }, "expire: gc"},
		"expiry by deletes": {func(s *Spec) { s.TTL = TTL{Attribute: "until", Expire: FollowDeletes} }, ""},
		"an age rule":       {family(Family{GC: GC{Age: time.Hour}}), "family d collects cells by age"},
		"a nested age rule": {family(Family{GC: GC{Rules: []GC{{Versions: 1}, {Age: time.Hour}}}}), "family d collects cells by age"},
		"cells":             {as(AsCells), "several cells"},
		"a sum":             {func(s *Spec) { family(Family{Aggregate: IntSum})(s); as(AsCounter)(s) }, "aggregates"},
		"a folded row": {func(s *Spec) {
			s.Rules = []Rule{{Writes: []Write{{RowKey: template("{pk}"), Cell: &CellRule{Family: "d", Qualifier: template("{sk}"), As: AsJSON}}}}}
		}, "several items share a row"},
	} {
		spec := Spec{Source: "Orders", Table: "orders", Families: []Family{{Name: "d", GC: GC{Versions: 1}}}}
		c.change(&spec)
		for _, keys := range [][]KeyAttribute{nil, {{Name: "pk", Type: attribute.KindS}, {Name: "sk", Type: attribute.KindS}}} {
			spec.PrimaryKey = keys
			if why := spec.NotPlain(); (why == "") != (c.why == "") || !strings.Contains(why, c.why) {
				t.Errorf("%s, %d key attributes: %q, want %q", name, len(keys), why, c.why)
			}
		}
	}
}
