package inspect

import (
	"strconv"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// TestItemsThatGarbageCollectionTakes: explain treats an item as expired if its cells are stamped
// by its time to live, from that time on.
func TestItemsThatGarbageCollectionTakes(t *testing.T) {
	now := time.Unix(1_795_000_000, 0)
	item := func(until attribute.Value) attribute.Item {
		return attribute.NewItem([]attribute.Attribute{{Name: "id", Value: attribute.String("a")}, {Name: "until", Value: until}})
	}
	number := func(n int64) attribute.Value {
		v, err := attribute.Number(strconv.FormatInt(n, 10))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, c := range []struct {
		expire string
		until  attribute.Value
		want   bool
	}{
		{"gc", number(now.Unix() - 60), true},
		{"gc", number(now.Unix() + 60), false},
		{"gc", attribute.String("1"), false}, // not a number: it never expires
		{"gc", number(1), false},             // years ago, which DynamoDB ignores
		{"follow_deletes", number(now.Unix() - 60), false},
		{"keep", number(now.Unix() - 60), false},
	} {
		table := config.Table{From: "Sessions", To: "sessions", TTL: config.TTL{Attribute: "until", Expire: c.expire},
			Families: []config.Family{{Name: "d", Rule: "maxage=30d"}}}
		m, err := table.Mapping([]transform.KeyAttribute{{Name: "id", Type: attribute.KindS}})
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Collected(item(c.until), now); got != c.want {
			t.Errorf("expire: %s, until %s: %v", c.expire, c.until.Text(), got)
		}
	}
}
