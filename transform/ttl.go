package transform

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// never is the expiry of an item without a time to live: the end of the year 9999. Its cells are
// stamped so that no age rule removes them (H83).
const never = 253402300799_000_000

// staleTTL is the age of an expiry time beyond which DynamoDB no longer removes the item. Source:
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/howitworks-ttl.html
const staleTTL = 5 * 365 * 24 * time.Hour

// expires returns when an item that was written at the given time expires, in microseconds. An item
// whose attribute is not a number of seconds never expires, as in DynamoDB.
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

// Expires reports whether the item has a time to live that DynamoDB accepts, given when it was
// written. An attribute that is not a number of seconds, or a time that was too long ago, never
// expires.
func (m *Mapping) Expires(item attribute.Item, written time.Time) bool {
	return m.ttl.Attribute != "" && m.ttl.expires(item, written) != never
}

// Unexpired returns the items of a page whose time to live has not ended, and the number of the
// other items. A load uses it if it leaves expired items to DynamoDB's TTL deletions. An item that
// DynamoDB would not remove, because its time is not a number or too long ago, counts as live. The
// result may be the given slice.
func (m *Mapping) Unexpired(items []attribute.Item, readAt time.Time) (live []attribute.Item, expired int) {
	if m.ttl.Attribute == "" {
		return items, 0
	}
	over := func(item attribute.Item) bool { return m.Expired(item, readAt) }
	if !slices.ContainsFunc(items, over) {
		return items, 0
	}
	live = slices.DeleteFunc(slices.Clone(items), over) // the caller keeps its page unchanged
	return live, len(items) - len(live)
}
