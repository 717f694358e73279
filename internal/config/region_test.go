package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/awshost"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// A region that AWS does not have is a warning with a suggestion. A region that may be new is
// described as such.
func TestRegionThatDoesNotExist(t *testing.T) {
	for _, name := range awshost.Regions {
		if CheckRegion(name, diag.Position{}) != nil || !awshost.IsRegion(name) {
			t.Errorf("%s is not a region, or not called like one", name)
		}
	}
	for name, want := range map[string]string{
		"eu-wset-1":    `AWS has no region "eu-wset-1"; write eu-west-1 if you mean that`,
		"us-esat-1":    `AWS has no region "us-esat-1"; write us-east-1 if you mean that`,
		"local":        `AWS has no region "local"; write it like eu-west-1`,
		"us-central-7": `AWS had no region "us-central-7" in November 2026; write `,
		"zz-south-9":   `AWS had no region "zz-south-9" in November 2026; write `,
	} {
		newer := strings.Contains(name, "7") || strings.Contains(name, "9")
		e := CheckRegion(name, diag.Position{})
		if e == nil || strings.HasSuffix(e.Fix, "; keep it if the region is newer") != newer {
			t.Errorf("%s gives %v", name, e)
			continue
		}
		if !e.Warning || e.Code != diag.RegionUnknown || !strings.HasPrefix(e.What+"; "+e.Fix, want) {
			t.Errorf("%s gives %v, want %s", name, e, want)
		}
	}
}

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
