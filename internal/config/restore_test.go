package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// H102: the ledger's text of a mapping produces the same mapping again, for every example and
// without rules.
func TestH102_AMappingIsMadeAgain(t *testing.T) {
	files, err := filepath.Glob("../../examples/*/replicator.yaml")
	more, _ := filepath.Glob("../../test/sim/mappings/*/replicator.yaml")
	if err != nil || len(files) < 5 {
		t.Fatal(len(files), err)
	}
	made := 0
	for _, file := range append(files, more...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Parse(file, text, func(string) (string, bool) { return "", false })
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for i := range cfg.Tables {
			table := &cfg.Tables[i]
			for _, key := range [][]transform.KeyAttribute{{{Name: "pk", Type: attribute.KindS}}, {{Name: "PK", Type: attribute.KindS}, {Name: "SK", Type: attribute.KindS}}, {{Name: "id", Type: attribute.KindS}}} {
				if table.IsPattern() {
					continue
				}
				m, err := table.Mapping(key)
				if err != nil {
					continue // it is for another key schema
				}
				again, err := config.RestoreMapping(m.Describe())
				if err != nil {
					t.Errorf("%s: %v\n%s", file, err, m.Describe())
					continue
				}
				made++
				if again.Describe() != m.Describe() {
					t.Errorf("%s:\n%s\nis made again as\n%s", file, m.Describe(), again.Describe())
				}
			}
		}
	}
	if made < 10 {
		t.Errorf("%d mappings", made)
	}
	if _, err := config.RestoreMapping("{"); err == nil {
		t.Error("a text that is none")
	}
}
