package preflight

import (
	"slices"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// H108: a starting process creates missing parts of a target only if nothing was ever written to
// it. Otherwise the coordinator must declare the loss. Families of the mapping are always created.
func TestH108_ARestartMakesNothingAnewThatWasWritten(t *testing.T) {
	cfg, err := config.Parse("replicator.yaml", []byte(`version: 1
target: { project: p, instance: i }
tables:
  - { from: Orders, to: orders }
  - { from: Users, to: users }
  - { from: Carts, to: carts }
`), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	hash := func(source string) string {
		table, _ := cfg.Table(source)
		return cfg.Hash(table)
	}
	states := []checkpoint.TableState{{Source: "Orders", Generation: 7, MappingHash: hash("Orders")}, {Source: "Users", MappingHash: hash("Users")},
		{Source: "Carts", Generation: 7, MappingHash: "of another mapping, and another target"}}
	p := &Prober{Cfg: cfg, written: writtenTargets(cfg, states, nil)}
	lacking := func(name string, table bool, families ...string) Lacking {
		m := Lacking{Lacks: sink.Lacks{Table: table}}
		for _, spec := range Specs(cfg) {
			if spec.Name == name {
				m.Spec = spec
			}
		}
		for _, f := range families {
			m.Lacks.Families = append(m.Lacks.Families, sink.FamilySpec{Name: f})
		}
		return m
	}
	for _, c := range []struct {
		lacks     Lacking
		may, left string
	}{
		{lacking("orders", true), "", "orders"},
		{lacking("orders", false, "_cdc", "_cdc_gone"), "", "orders:_cdc orders:_cdc_gone"},
		{lacking("orders", false, "d", "_cdc"), "orders:d", "orders:_cdc"},
		{lacking("users", true), "users", ""},
		{lacking("users", false, "_cdc"), "users:_cdc", ""},
		{lacking("carts", true), "carts", ""},
		{lacking(cfg.State.Table, true), cfg.State.Table, ""},
	} {
		may, left := p.mayMake([]Lacking{c.lacks})
		if got := strings.Join(namesOf(may), " "); got != c.may || strings.Join(left, " ") != c.left {
			t.Errorf("of %v it may make %q, and leaves %v", namesOf([]Lacking{c.lacks}), got, left)
		}
		if c.left != "" && len(may) > 0 && slices.ContainsFunc(may[0].Spec.Families, func(f sink.FamilySpec) bool { return sink.IsOwn(f.Name) }) {
			t.Error("our own families are made with those of the mapping")
		}
	}
	if written := writtenTargets(cfg, nil, []checkpoint.Target{{Table: "users", Fence: 3}, {Table: "orders", Last: 3}}); !written["users"] || written["orders"] {
		t.Error(written)
	}
}
