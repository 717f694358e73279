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
	for _, records := range byItem([]Record{record("A", "S:x", "1"), record("A", "S:x", "2"), record("B", "S:x", "1"), record("B", "S:y", "1")}) {
		got += fmt.Sprintf("%d of %s in %s; ", len(records), records[0].Key, records[0].Source)
	}
	if want := "2 of S:x in A; 1 of S:x in B; 1 of S:y in B; "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestReferencesNameRecords(t *testing.T) {
	const ref = sink.Ref("Orders/0123/0001.5")
	for word, want := range map[string]bool{
		"Orders/0123/0001.5": true, "Orders/0123": true, "0123": true,
		"Orders": false, "Orders/012": false, "012": false, "0001.5": false, "Orders/0123/0001": false, "": false, "Orders/": false,
	} {
		if got := names(word, ref); got != want {
			t.Errorf("%q names the record: %v", word, got)
		}
	}
}
