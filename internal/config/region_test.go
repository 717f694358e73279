package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

func TestLintWarnsOfARegionThatDoesNotExist(t *testing.T) {
	path := filepath.Join(t.TempDir(), "replicator.yaml")
	content := "version: 1\nsource:\n  region: eu-wset-1\ntarget: {project: my-project, instance: my-instance}\ntables:\n  - from: Orders\n"
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := Examine(path, func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 2 || found[0].Code != diag.RegionUnknown || found[0].Pos.Line != 3 || found.Err() != nil {
		t.Errorf("%v", found)
	}
}
