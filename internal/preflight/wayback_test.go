package preflight

import (
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Mappings that lose data prevent a reverse copy; lossless ones do not.
func TestWayBack(t *testing.T) {
	for _, c := range []struct{ table, want string }{
		{"{ from: Orders }", "types are lost"},
		{`{ from: Orders, families: { d: maxversions=1 }, rules: [{ columns: { "*": { to: d, as: dynamodb_json } } }] }`, ""},
		{`{ from: Orders, families: { d: maxversions=1 }, drop_attributes: [x], rules: [{ columns: { "*": { to: d, as: dynamodb_json } } }] }`, "attributes x are not copied"},
		{`{ from: Orders, families: { d: maxversions=1 }, rules: [{ columns: { a: { to: "d:a", as: dynamodb_json } } }] }`, "attributes without a column are not copied"},
	} {
		cfg, err := config.Parse("replicator.yaml", []byte("version: 1\ntarget: { project: p, instance: i }\ntables: ["+c.table+"]\n"), func(string) (string, bool) { return "", false })
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(WayBack(cfg.Tables[0], nil), "; ")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q", c.table, got)
		}
	}
}

// If only replicator's own column holds the items' keys, the gates say before the switch that
// finalize removes them.
func TestH97_KeysThatFinalizeRemoves(t *testing.T) {
	keys := []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}, {Name: "sk", Type: attribute.KindS}}
	for row, hidden := range map[string]bool{`"{pk}#{sk}"`: false, `"order#{pk}#{sk}"`: true} {
		text := "version: 1\ntarget: { project: p, instance: i }\ntables: [{ from: Orders, families: { d: maxversions=1 }, rules: [{ row_key: " + row + ", columns: { \"*\": { to: d, as: dynamodb_json } } }] }]\n"
		cfg, err := config.Parse("replicator.yaml", []byte(text), func(string) (string, bool) { return "", false })
		if err != nil {
			t.Fatal(err)
		}
		m, err := cfg.Tables[0].Mapping(keys)
		if err != nil {
			t.Fatal(err)
		}
		if got := WayBack(cfg.Tables[0], m); hidden != strings.Contains(strings.Join(got, "; "), "_cdc:k") {
			t.Errorf("row %s: %q", row, got)
		}
	}
}
