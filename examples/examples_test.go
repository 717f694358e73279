// Package examples_test runs the worked examples. It copies their items, applies their changes, and
// compares the cells of the target with cells.txt, as `replicator test examples` does.
package examples_test

import (
	"context"
	"flag"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/mappingtest"
)

var update = flag.Bool("update", false, "write cells.txt anew")

func TestExamples(t *testing.T) {
	folders, err := mappingtest.Find(".")
	if err != nil || len(folders) < 10 {
		t.Fatal(folders, err)
	}
	for _, folder := range folders {
		t.Run(folder, func(t *testing.T) {
			e, err := mappingtest.Read(folder)
			if err != nil {
				t.Fatal(err)
			}
			c, err := config.Parse(filepath.Join(folder, mappingtest.ConfigPart), e.Config, func(string) (string, bool) { return "", false })
			if err != nil {
				t.Fatal(err)
			}
			table, ok := e.TableOf(c)
			if !ok {
				t.Fatalf("no entry is for table %q", e.Table)
			}
			got, err := e.Run(context.Background(), &table)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(got, "parked: ") {
				t.Error("an item is parked")
			}
			if *update {
				if err := e.Update(got); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(e.Want), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
