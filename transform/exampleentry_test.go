package transform_test

import (
	"fmt"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// A program reads the names of encodings from its own configuration.
func ExampleParseEncoding() {
	encoding, known := transform.ParseEncoding("float64")
	fmt.Println(encoding, known)
	_, known = transform.ParseEncoding("float")
	fmt.Println(known, transform.EncodingNames()[:3])
	// Output:
	// float64 true
	// false [text json dynamodb_json]
}

// A version ranks an image in the history of its item. The order of the texts is the order of the
// history.
func ExampleNewVersion() {
	parent := transform.NewVersion(1, cdc.RootHop, cdc.SequenceOf(900), 1)
	child := transform.NewVersion(1, cdc.RootHop+1, cdc.SequenceOf(100), 1)
	fmt.Println(parent < child, child.Sequence())
	// Output: true 100
}

// A version that is stored in a row is checked before it is compared.
func ExampleParseVersion() {
	version, err := transform.ParseVersion("00000001.500000.0000000000000000000000000000000000000100.0001")
	fmt.Println(version.Generation(), version.Sequence(), err)
	_, err = transform.ParseVersion("1.2.3")
	fmt.Println(err != nil)
	// Output:
	// 1 100 <nil>
	// true
}
