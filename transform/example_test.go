package transform_test

import (
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/expression"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// An application computes the rows and cells that the replicator writes for an item, to read them or to write them itself.
func ExampleNew() {
	rowKey, err := transform.ParseTemplate("{machine | salt(16)}#{machine}#{ts | newest_first(13)}")
	if err != nil {
		panic(err)
	}
	when, err := expression.ParseWhen("attribute_exists(temperature)")
	if err != nil {
		panic(err)
	}
	family, err := transform.ParseFamily("e", "maxversions=1 || maxage=90d")
	if err != nil {
		panic(err)
	}
	m, err := transform.New(transform.Spec{
		Source: "DeviceEvents", Table: "device_events", Families: []transform.Family{family},
		PrimaryKey: []transform.KeyAttribute{{Name: "machine", Type: cdc.KindS}, {Name: "ts", Type: cdc.KindN}},
		Rules: []transform.Rule{{Name: "measurement", When: when, Writes: []transform.Write{{RowKey: rowKey, Columns: []transform.ColumnRule{
			{Attribute: "temperature", To: "e:celsius", As: transform.AsText},
		}}}}},
	})
	if err != nil {
		panic(err)
	}
	item, err := cdc.UnmarshalItem([]byte(`{"machine":{"S":"press#1"},"ts":{"N":"1795170000000"},"temperature":{"N":"20.50"}}`))
	if err != nil {
		panic(err)
	}
	placed, err := m.Map(item, time.Unix(1_795_170_000, 0))
	if err != nil {
		panic(err)
	}
	for _, row := range placed.Rows {
		fmt.Println(row.Table, row.Row)
		for _, c := range row.Cells {
			fmt.Printf("  %s:%s %s\n", c.Family, c.Qualifier, c.Value)
		}
	}
	// Output:
	// device_events 14#press%231#8204829999999
	//   e:celsius 20.5
}

// Check finds everything that is wrong with a mapping, with reason and cure.
func ExampleCheck() {
	rowKey, err := transform.ParseTemplate("{email | lower}")
	if err != nil {
		panic(err)
	}
	for _, f := range transform.Check(transform.Spec{
		Source: "Users", Table: "users", PrimaryKey: []transform.KeyAttribute{{Name: "email", Type: cdc.KindS}},
		Families: []transform.Family{{Name: "d"}},
		Rules:    []transform.Rule{{Writes: []transform.Write{{RowKey: rowKey}}}},
	}) {
		fmt.Println(f.What)
		fmt.Println(f.Cause)
		fmt.Println(f.Fix)
	}
	// Output:
	// two items can have the same row key: email is not carried
	// lower does not keep different values of email apart
	// add #{email} at the end of row_key
}
