package awshost

import (
	"fmt"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// regionsOf is the month in which the list of regions was last completed.
const regionsOf = "November 2026"

// CheckRegion returns a warning about a region that AWS does not have, or nil. The finding is not
// an error, because AWS adds regions, and an emulator accepts any name.
func CheckRegion(name string, at diag.Position) *diag.Error {
	for _, known := range regions {
		if name == known {
			return nil
		}
	}
	meant := "write it like eu-west-1"
	if near := diag.Suggest(name, regions); near != "" {
		meant = "write " + near + " if you mean that"
	}
	if isRegion(name) {
		return &diag.Error{Code: diag.RegionUnknown, Warning: true, Pos: at, What: fmt.Sprintf("AWS had no region %q in %s", name, regionsOf),
			Cause: "its endpoint does not exist, unless the region is newer or an emulator answers",
			Fix:   meant + "; keep it if the region is newer"}
	}
	return &diag.Error{Code: diag.RegionUnknown, Warning: true, Pos: at, What: fmt.Sprintf("AWS has no region %q", name),
		Cause: "no region has such a name, so its endpoint does not exist unless an emulator answers", Fix: meant}
}
