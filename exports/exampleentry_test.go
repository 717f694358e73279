package exports_test

import (
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/exports"
)

// A line of a full export has an item.
func ExampleParseItem() {
	record, err := exports.ParseItem([]byte(`{"Item":{"pk":{"S":"order#7"},"total":{"N":"15"}}}`))
	if err != nil {
		panic(err)
	}
	text, err := attribute.MarshalItem(record.New)
	fmt.Printf("%s %v\n", text, err)
	// Output: {"pk":{"S":"order#7"},"total":{"N":"15"}} <nil>
}

// A line of an incremental export has an item's key, and its images before and after the window. A
// deleted item has no image after it.
func ExampleParseChange() {
	record, err := exports.ParseChange([]byte(
		`{"Metadata":{"WriteTimestampMicros":{"N":"1795170000000000"}},"Keys":{"pk":{"S":"order#7"}},"OldImage":{"pk":{"S":"order#7"},"total":{"N":"15"}}}`))
	if err != nil {
		panic(err)
	}
	fmt.Println(record.Written.UTC().Format(time.RFC3339), record.Old.Exists(), record.New.Exists())
	// Output: 2026-11-20T10:20:00Z true false
}
