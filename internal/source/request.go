package source

import (
	"fmt"
	"path"
	"strings"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// Destination parses the destination for an export that will be requested: s3://BUCKET or
// s3://BUCKET/PREFIX.
func Destination(address string) (string, error) {
	rest, ok := strings.CutPrefix(address, s3)
	bucket, prefix, _ := strings.Cut(rest, "/")
	if !ok || bucket == "" {
		return "", diag.BadUsage("DynamoDB exports to S3, but "+fmt.Sprintf("%q", address)+" names no bucket there", "write --export s3://BUCKET or s3://BUCKET/PREFIX")
	}
	if prefix = strings.TrimRight(prefix, "/"); prefix == "" {
		return s3 + bucket, nil
	}
	return s3 + bucket + "/" + prefix, nil
}

// Bucket returns the bucket of a Destination, and the prefix in it.
func Bucket(destination string) (bucket, prefix string) {
	bucket, prefix, _ = strings.Cut(strings.TrimPrefix(destination, s3), "/")
	return bucket, prefix
}

// Delivered returns the address of an export that DynamoDB reports as completed.
func Delivered(r backfill.ExportReport) string {
	return s3 + r.Bucket + "/" + strings.TrimSuffix(r.Manifest, "/"+path.Base(r.Manifest))
}
