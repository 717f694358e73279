package dynamodbtest

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/dynamodbtest/item"
)

// maxItemSize is 400 KB, names and values together ("Item size").
const maxItemSize = 400 << 10

// table is one table with its items and the stream that records its changes. The field mu guards
// the fields below it, including the table's streams and shards.
type table struct {
	server  *Server
	name    string
	id      string
	schema  keySchema
	created time.Time

	mu                 sync.RWMutex
	deleted            bool
	items              index
	secondary          atomic.Pointer[[]*secondaryIndex]
	billing            billing
	deletionProtection bool
	tableClass         string
	tags               []tag
	onDemand           *onDemandThroughput
	encryption         *encryption
	ttlAttribute       string
	history            *history  // nil if point-in-time recovery is off
	stream             *stream   // the latest stream; nil until one was enabled
	streams            []*stream // all readable streams
	random             *rand.Rand
	policyVersions     atomic.Pointer[[]policyVersion] // the policy in force and its successors
	policyRevision     int64                           // the last revision

	// Tests set the following for present and future streams.
	timeOffset       time.Duration // added to the times of new records
	restartSequences bool          // children restart at the first sequence number
	autoRoll         time.Duration
	childrenDelay    time.Duration // new children are listed after this delay
	closingDelay     time.Duration // closed shards are shown as open for this time
	listingPage      int           // maximum number of shards in a page of DescribeStream; 0 means 100
	repeatPages      int           // number of future pages that repeat the previous one
	policyDelay      time.Duration // policies come into force after this delay
	oldPolicyReads   bool          // during the delay, reads return the former policy
}

// billing holds the capacity settings of CreateTable and UpdateTable.
type billing struct {
	onDemand    bool
	changed     time.Time
	read, write int64
}

type tag struct {
	Key   string `json:"Key"`
	Value string `json:"Value"`
}

// arn returns the table's Amazon Resource Name.
func (t *table) arn() string {
	return "arn:aws:dynamodb:" + t.server.opts.Region + ":" + t.server.opts.AccountID + ":table/" + t.name
}

// change is one write to one item: the new image, or nil for a removal.
type change struct {
	key     primaryKey
	image   *stored
	expired bool // made by the expiry of a TTL attribute, not by a user
}

// newImage validates an item against the schema and the size limit.
func (t *table) newImage(it attribute.Item) (change, error) {
	key, err := t.schema.ofItem(it)
	if err != nil {
		return change{}, err
	}
	if err := checkNames(it); err != nil {
		return change{}, err
	}
	if err := t.checkIndexKeys(it); err != nil {
		return change{}, err
	}
	size := item.Size(it)
	if size > maxItemSize {
		return change{}, validation("Item size has exceeded the maximum allowed size")
	}
	return change{key: key, image: &stored{wire: attribute.AppendItem(nil, it), size: size}}, nil
}

// checkNames rejects attribute names that are empty or longer than 64 KB.
func checkNames(it attribute.Item) error {
	for _, a := range it.Attributes() {
		if a.Name == "" {
			return validation("One or more parameter values were invalid: Attribute name must not be empty")
		}
		if len(a.Name) > 65535 {
			return validation("One or more parameter values were invalid: Attribute name is too large, must be less than 65536 bytes")
		}
	}
	return nil
}

// apply makes the write in the table, its indexes and its stream. It returns the item's former
// image and the cost for the indexes. The image is nil if there was no item. The caller holds mu.
func (t *table) apply(c change, now time.Time) (old *stored, indexes []indexWrite) {
	if c.image == nil {
		old = t.items.delete(c.key.order)
	} else {
		old = t.items.set(c.key.order, c.image)
	}
	indexes = t.updateIndexes(c.key, old, c.image)
	if t.history != nil {
		t.history.add(c, now)
	}
	if t.stream == nil || !t.stream.enabled {
		return old, indexes
	}
	switch {
	case old == nil && c.image == nil:
	case old != nil && c.image != nil && bytes.Equal(old.wire, c.image.wire):
		// S4: a write that changes nothing makes no record.
	default:
		t.stream.append(c, old, now)
	}
	return old, indexes
}
