package awshost

import (
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// A region that AWS does not have is a warning with a suggestion. A region that may be new is
// described as such.
func TestRegionThatDoesNotExist(t *testing.T) {
	for _, name := range regions {
		if CheckRegion(name, diag.Position{}) != nil || !isRegion(name) {
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
