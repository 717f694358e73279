package checkpoint

import (
	"os"
	"regexp"
	"strconv"
	"testing"
)

// The page about upgrades has one row for each format of the ledger, up to the newest. A new format
// must say from when on an earlier program cannot be used any more.
func TestUpgradesNameEveryFormat(t *testing.T) {
	page, err := os.ReadFile("../docs/how-to/restart-and-upgrade.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| (\d+) \| [^|]+ \| [^|]+ \| [^|]+ \|$`).FindAllSubmatch(page, -1)
	if len(rows) != Format {
		t.Errorf("%d rows, the newest format is %d", len(rows), Format)
	}
	for i, row := range rows {
		if n, err := strconv.Atoi(string(row[1])); err != nil || n != i+1 {
			t.Errorf("row %d is about format %s (%v)", i+1, row[1], err)
		}
	}
}
