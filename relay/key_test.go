package relay_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/relay"
)

// R3: an item has one ordering key, a bucket of its table. All buckets are used, about equally, and
// two tables share none. Without buckets the key is the subject, as it was in older versions. The
// keys of a version must stay, or a new version would reorder the changes of an item.
func TestItemsHaveOneBucketOfTheirTable(t *testing.T) {
	const items = 20_000
	used := map[string]int{}
	for n := range items {
		keys := parse(t, fmt.Sprintf(`{"PK":{"S":"ORDER#%d"}}`, n))
		subject, err := relay.Subject("Orders", keys)
		if err != nil {
			t.Fatal(err)
		}
		key := relay.Keying(256).Key("Orders", subject)
		if n == 42 && (key != "b7e8acdd-239" || relay.Keying(0).Key("Orders", subject) != subject) {
			t.Errorf("key %q of item 42", key)
		}
		if again := relay.Keying(256).Key("Orders", subject); again != key {
			t.Fatalf("%s has keys %s and %s", subject, key, again)
		}
		if !strings.HasPrefix(key, relay.Keying(1).Key("Orders", subject)[:9]) || strings.HasPrefix(relay.Keying(256).Key("Orders1", subject), key[:9]) {
			t.Errorf("key %q", key)
		}
		used[key]++
	}
	for key, n := range used {
		if n < items/256/3 || n > items/256*3 {
			t.Errorf("bucket %s has %d of %d items", key, n, items)
		}
	}
	if len(used) != 256 {
		t.Errorf("%d buckets", len(used))
	}
}

// A message has the key of its origin's keying, and is otherwise the same (R1).
func TestTheKeyingChangesOnlyTheKey(t *testing.T) {
	for name, c := range examples(t) {
		whole, _, err := relay.Encode(c)
		if err != nil {
			t.Fatal(err)
		}
		c.Keying = 16
		m, _, err := relay.Encode(c)
		if err != nil || string(m.Data) != string(whole.Data) || m.Key != c.Keying.Key(c.Table, whole.Key) || m.Key == whole.Key {
			t.Errorf("%s: key %q, %v", name, m.Key, err)
		}
	}
}
