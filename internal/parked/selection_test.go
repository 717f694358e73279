package parked

import (
	"fmt"
	"testing"

	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Items of two tables with one key are two items, and each of them is read from its own table.
func TestItemsOfTwoTablesWithOneKey(t *testing.T) {
	record := func(source, key string, version transform.Version) Record {
		p := transform.Parked{Source: source, Key: key, Version: version}
		return Record{Ref: sink.RefOf(p), Parked: p}
	}
	got := ""
	for _, records := range ByItem([]Record{record("A", "S:x", "1"), record("A", "S:x", "2"), record("B", "S:x", "1"), record("B", "S:y", "1")}) {
		got += fmt.Sprintf("%d of %s in %s; ", len(records), records[0].Key, records[0].Source)
	}
	if want := "2 of S:x in A; 1 of S:x in B; 1 of S:y in B; "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
