package backfill

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Description is DynamoDB's description of a table. Source:
// https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TableDescription.html
type Description struct {
	Name string
	ARN  string
	// ID changes if a table is deleted and then created again with the same name. It is "" if the
	// answer had no id.
	ID string
	// Status is the service's name of the state: ACTIVE, CREATING, UPDATING, DELETING, …
	Status string
	// PrimaryKey is the partition key and, if the table has one, the sort key, in this order.
	PrimaryKey []transform.KeyAttribute
	// StreamARN and StreamLabel name the latest stream. That stream may be disabled
	// (StreamEnabled). They are empty if the table never had a stream.
	StreamARN     string
	StreamLabel   string
	StreamEnabled bool
	// ViewType names the images in the stream's records: KEYS_ONLY, NEW_IMAGE, OLD_IMAGE or
	// NEW_AND_OLD_IMAGES. ViewType is empty unless StreamEnabled.
	ViewType string
	// Items and Bytes are DynamoDB's own counts, updated about every six hours.
	Items, Bytes int64
	CreatedAt    time.Time
	// BillingMode is PROVISIONED or PAY_PER_REQUEST.
	BillingMode string
	// ReadCapacity is the provisioned read capacity in units per second; 0 if the table is billed
	// per request.
	ReadCapacity int64
	// KeyARN names the KMS key that encrypts the table; "" if it is DynamoDB's own key.
	KeyARN string
	// Replicas are the other regions of a global table, sorted.
	Replicas []string
	// At is the service's own clock when it answered; zero if the answer had no time.
	At time.Time
}

// ScanPage is the outcome of one Scan request. It has at most 1 MB of items, in no order. It may be
// empty although it is not the last.
type ScanPage struct {
	Items []attribute.Item
	// Next is the key after which the following page begins. It does not exist (Item.Exists) if this page ends the segment.
	Next attribute.Item
	// At is the service's own clock when it answered; zero if the answer had no time.
	At time.Time
	// Consumed is the page's cost in read capacity units; 0 if the answer had none.
	Consumed float64
}
