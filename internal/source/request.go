package source

import (
	"fmt"
	"path"
	"strings"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// Destination reads where an export is to go that is yet to be asked for: s3://BUCKET or
// s3://BUCKET/PREFIX.
func Destination(address string) (string, error) {
	rest, ok := strings.CutPrefix(address, "s3://")
	bucket, prefix, _ := strings.Cut(rest, "/")
	if !ok || bucket == "" {
		return "", diag.BadUsage("DynamoDB exports to S3, but "+fmt.Sprintf("%q", address)+" names no bucket there", "write --export s3://BUCKET or s3://BUCKET/PREFIX")
	}
	if prefix = strings.TrimRight(prefix, "/"); prefix == "" {
		return "s3://" + bucket, nil
	}
	return "s3://" + bucket + "/" + prefix, nil
}

// Bucket is the bucket of a Destination, and the prefix in it.
func Bucket(destination string) (bucket, prefix string) {
	bucket, prefix, _ = strings.Cut(strings.TrimPrefix(destination, "s3://"), "/")
	return bucket, prefix
}

// Delivered is the address of an export that DynamoDB reports as done.
func Delivered(r backfill.ExportReport) string {
	return "s3://" + r.Bucket + "/" + strings.TrimSuffix(r.Manifest, "/"+path.Base(r.Manifest))
}
