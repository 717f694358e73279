package transform

import (
	"fmt"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// Loads with backfill.skip_expired leave out exactly the items that DynamoDB will remove.
func TestUnexpired(t *testing.T) {
	now := time.Unix(1_795_000_000, 0)
	var items []attribute.Item
	for _, until := range []string{
		fmt.Sprintf(`{"N":"%d"}`, now.Unix()-1), // expired
		fmt.Sprintf(`{"N":"%d"}`, now.Unix()),   // expires now
		fmt.Sprintf(`{"N":"%d"}`, now.Unix()+1),
		fmt.Sprintf(`{"N":"%d"}`, now.Add(-6*365*24*time.Hour).Unix()), // too long ago: DynamoDB keeps it
		`{"S":"1"}`, // not a time
		`{"N":"-5"}`,
	} {
		item, err := attribute.UnmarshalItem([]byte(`{"PK":{"S":"a"},"until":` + until + `}`))
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, item)
	}
	spec := Spec{Source: "T", Table: "t", PrimaryKey: []KeyAttribute{{"PK", attribute.KindS}}, Families: families("d"), TTL: TTL{"until", FollowDeletes}}
	m, err := New(spec)
	if err != nil {
		t.Fatal(err)
	}
	live, expired := m.Unexpired(items, now)
	if expired != 2 || len(live) != 4 || !live[0].Equal(items[2]) || !live[3].Equal(items[5]) {
		t.Errorf("%d live, %d expired", len(live), expired)
	}
	if !items[0].Exists() || items[0].Equal(items[2]) {
		t.Error("the page was changed")
	}
	if all, none := m.Unexpired(items[2:], now); none != 0 || len(all) != 4 {
		t.Errorf("%d live, %d expired", len(all), none)
	}
	spec.TTL = TTL{}
	if m, err = New(spec); err != nil {
		t.Fatal(err)
	}
	if all, none := m.Unexpired(items, now); none != 0 || len(all) != len(items) {
		t.Errorf("without a time-to-live attribute %d are expired", none)
	}
}
