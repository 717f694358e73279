package bucket_test

import (
	"fmt"

	"github.com/dynamodb-bigtable/replicator/exports/bucket"
)

// The address of an export, as DynamoDB's console shows it, names its store and its folder in it.
func ExampleParse() {
	for _, address := range []string{
		"s3://backups/daily/AWSDynamoDB/01700000000000-aaaaaaaa/manifest-summary.json",
		"gs://backups/AWSDynamoDB/01700000000000-aaaaaaaa",
	} {
		place, err := bucket.Parse(address)
		if err != nil {
			panic(err)
		}
		fmt.Println(place.Scheme, place.Bucket, place.Root, place.Folder)
	}
	// Output:
	// s3 backups daily/AWSDynamoDB/ 01700000000000-aaaaaaaa
	// gs backups AWSDynamoDB/ 01700000000000-aaaaaaaa
}
