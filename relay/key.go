package relay

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// Keying determines which messages of a table share an ordering key. It is the number of buckets
// into which the hashes of the items are divided. Each bucket has one key. With 0, each item has a
// key of its own.
//
// The order of an item's messages needs no more than one key for all of them. But Pub/Sub's client
// sends a request for each key. With a key for each item, a request holds one message. A failed
// publish blocks its key, so more buckets block fewer items.
type Keying int

// MaxKeying is the highest number of buckets.
const MaxKeying = 65_536

// Key returns the ordering key of an item's messages. The subject is the item's.
func (k Keying) Key(table, subject string) string {
	if k <= 0 {
		return subject
	}
	sum := sha256.Sum256([]byte(table))
	return hex.EncodeToString(sum[:4]) + "-" + strconv.Itoa(k.bucket(subject))
}

// bucket returns the bucket of an item. The subject is a hash, so any part of it is one too.
func (k Keying) bucket(subject string) int {
	var part [8]byte
	_, _ = hex.Decode(part[:], []byte(subject[:16]))
	return int(binary.BigEndian.Uint64(part[:]) % uint64(k))
}

// Subject returns the subject of an item's messages: a hash of the source table and the primary
// key.
func Subject(table string, keys attribute.Item) (string, error) {
	text, err := attribute.MarshalItem(keys)
	if err != nil {
		return "", err
	}
	return subjectOf(table, text), nil
}

// subjectOf returns the subject of an item with the keys, in DynamoDB JSON.
func subjectOf(table string, keys []byte) string {
	text := strconv.AppendInt(make([]byte, 0, 128), int64(len(table)), 10)
	text = append(append(append(text, ':'), table...), keys...)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
