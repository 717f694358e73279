package verify_test

import (
	"fmt"

	"github.com/dynamodb-bigtable/replicator/verify"
)

// The sums of source and target are equal if their rows are equal. A difference is in a bucket of
// few rows, which are then compared one by one.
func ExampleNewSums() {
	key := []byte("a secret of the run")
	source, target := verify.NewSums(key), verify.NewSums(key)
	source.Subtract(target)
	fmt.Println(source.Differing(false).Len(), "buckets differ")
	// Output: 0 buckets differ
}
