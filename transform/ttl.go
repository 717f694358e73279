package transform

import (
	"strconv"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// never is the time at which an item without a time to live expires: the end of the year 9999. Its cells are stamped so that no
// age rule takes them (H83).
const never = 253402300799_000_000

// staleTTL is how far in the past a time to live may be for DynamoDB to remove the item at all.
// Source: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/howitworks-ttl.html
const staleTTL = 5 * 365 * 24 * time.Hour

// expires is when an item written at a time expires, in microseconds. What is not a number of seconds never does, for DynamoDB either.
func (t TTL) expires(item attribute.Item, written time.Time) int64 {
	v, _ := item.Get(t.Attribute)
	if v.Kind() != attribute.KindN {
		return never
	}
	seconds, _, _ := strings.Cut(v.Text(), ".")
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil || n >= never/1_000_000 || n < written.Add(-staleTTL).Unix() {
		return never
	}
	return max(n, 1) * 1_000_000
}
