package backfill

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// ExportBucket describes the bucket to which an Exporter lets DynamoDB write exports. The zero
// value is a bucket of the caller's account with keys of S3
// (https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_ExportTableToPointInTime.html).
type ExportBucket struct {
	// Owner is the id of the account that owns the bucket. DynamoDB needs it for a bucket of another
	// account.
	Owner string
	// KMSKey is the id or the ARN of the KMS key that encrypts the objects.
	KMSKey string
}

// To returns an Exporter that requests exports to a bucket as described.
func (e *Exporter) To(b ExportBucket) *Exporter { return &Exporter{api: e.api, bucket: b} }

func (b ExportBucket) describe(in *dynamodb.ExportTableToPointInTimeInput) {
	if b.Owner != "" {
		in.S3BucketOwner = &b.Owner
	}
	if b.KMSKey != "" {
		in.S3SseAlgorithm, in.S3SseKmsKeyId = types.S3SseAlgorithmKms, &b.KMSKey
	}
}
