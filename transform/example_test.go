package transform_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/expression"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// An application computes the rows and cells that replicator writes for an item, to read them or to
// write them itself.
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
		PrimaryKey: []transform.KeyAttribute{{Name: "machine", Type: attribute.KindS}, {Name: "ts", Type: attribute.KindN}},
		Rules: []transform.Rule{{Name: "measurement", When: when, Writes: []transform.Write{{RowKey: rowKey, Columns: []transform.ColumnRule{
			{Attribute: "temperature", To: "e:celsius", As: transform.AsText},
		}}}}},
	})
	if err != nil {
		panic(err)
	}
	item, err := attribute.UnmarshalItem([]byte(`{"machine":{"S":"press#1"},"ts":{"N":"1795170000000"},"temperature":{"N":"20.50"}}`))
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

// Check finds all mistakes in a mapping, each with its reason and fix.
func ExampleCheck() {
	rowKey, err := transform.ParseTemplate("{email | lower}")
	if err != nil {
		panic(err)
	}
	for _, f := range transform.Check(transform.Spec{
		Source: "Users", Table: "users", PrimaryKey: []transform.KeyAttribute{{Name: "email", Type: attribute.KindS}},
		Families: []transform.Family{{Name: "d"}},
		Rules:    []transform.Rule{{Writes: []transform.Write{{RowKey: rowKey}}}},
	}) {
		fmt.Println(f.What)
		fmt.Println(f.Cause)
		fmt.Println(f.Fix)
	}
	// Output:
	// two items can have the same row key: it lacks email
	// lower makes different values of email equal
	// add #{email} at the end of row_key
}

// Without rules, each attribute is a column, and the row key is the primary key. Row returns the
// row key to read in Bigtable, and Key returns the item's key from a row.
func ExampleMapping_Row() {
	m, err := transform.NewMapping("Orders", "orders", "d", []transform.KeyAttribute{{Name: "customer", Type: attribute.KindS}, {Name: "order", Type: attribute.KindN}})
	if err != nil {
		panic(err)
	}
	order, err := attribute.Number("7.0")
	if err != nil {
		panic(err)
	}
	row, err := m.Row(attribute.NewItem([]attribute.Attribute{{Name: "customer", Value: attribute.String("ana#2")}, {Name: "order", Value: order}}))
	if err != nil {
		panic(err)
	}
	fmt.Println(row)
	key, err := m.Key(row)
	if err != nil {
		panic(err)
	}
	text, err := attribute.MarshalItem(key)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s\n", text)
	// Output:
	// ana%232#7
	// {"customer":{"S":"ana#2"},"order":{"N":"7"}}
}

// An item's addresses, and what it owns there, follow from its key. An application that removes an
// item itself deletes exactly that. Here a comment is one cell of its video's row.
func ExampleMapping_Addresses() {
	rowKey, err := transform.ParseTemplate("{PK | after('VIDEO#')}")
	if err != nil {
		panic(err)
	}
	column, err := transform.ParseTemplate("{SK | after('COMMENT#')}")
	if err != nil {
		panic(err)
	}
	when, err := expression.ParseWhen(`begins_with(PK, "VIDEO#") AND begins_with(SK, "COMMENT#")`)
	if err != nil {
		panic(err)
	}
	m, err := transform.New(transform.Spec{
		Source: "VideoApp", Table: "videos", Families: []transform.Family{{Name: "comments"}},
		PrimaryKey: []transform.KeyAttribute{{Name: "PK", Type: attribute.KindS}, {Name: "SK", Type: attribute.KindS}},
		Rules: []transform.Rule{{Name: "comment", When: when, Writes: []transform.Write{{RowKey: rowKey,
			Cell: &transform.CellRule{Family: "comments", Qualifier: column, As: transform.AsJSON}}}}},
	})
	if err != nil {
		panic(err)
	}
	rows, err := m.Addresses(attribute.NewItem([]attribute.Attribute{{Name: "PK", Value: attribute.String("VIDEO#42")}, {Name: "SK", Value: attribute.String("COMMENT#2026-11-02")}}))
	if err != nil {
		panic(err)
	}
	for _, row := range rows {
		fmt.Println(row.Table, row.Row, row.Families, row.Columns)
	}
	// Output:
	// videos 42 [] [{comments 2026-11-02}]
}

// The layout of Google's batch utility, for Go programs that read or write it.
func ExampleUtilityRowKey() {
	key := transform.KeyAttribute{Name: "id", Type: attribute.KindB}
	m, err := transform.New(transform.Spec{
		Source: "Photos", Table: "photos", PrimaryKey: []transform.KeyAttribute{key}, Families: []transform.Family{{Name: transform.UtilityFamily}},
		Rules: []transform.Rule{{Writes: []transform.Write{{RowKey: transform.UtilityRowKey(key),
			Columns: []transform.ColumnRule{{Attribute: "*", To: transform.UtilityFamily, As: transform.AsGoogleUtility}}}}}},
	})
	if err != nil {
		panic(err)
	}
	row, err := m.Row(attribute.NewItem([]attribute.Attribute{{Name: "id", Value: attribute.Binary([]byte{0, 255})}}))
	if err != nil {
		panic(err)
	}
	fmt.Println(row)
	// Output:
	// QVA4PQ==
}

// The error for an item that cannot be mapped contains none of its values.
func ExampleUnmappable() {
	m, err := transform.NewMapping("Orders", "orders", "d", []transform.KeyAttribute{{Name: "id", Type: attribute.KindS}}, "tenant", "id")
	if err != nil {
		panic(err)
	}
	_, err = m.Row(attribute.NewItem([]attribute.Attribute{{Name: "id", Value: attribute.String("secret")}}))
	if unmappable := (*transform.Unmappable)(nil); errors.As(err, &unmappable) {
		fmt.Println(unmappable.Reason)
	}
	// Output:
	// attribute "tenant" of the row key is missing
}

// Kept versions are one of the reasons why rows do not give their items back.
func ExampleSpec_NotInvertible() {
	spec := transform.Spec{Source: "Orders", Table: "orders", Families: []transform.Family{{Name: "d"}}, KeepVersions: true,
		PrimaryKey: []transform.KeyAttribute{{Name: "order", Type: attribute.KindS}}}
	for _, why := range spec.NotInvertible() {
		fmt.Println(why)
	}
	// Output:
	// keep_versions keeps older values, which items do not have
}

// A row gives its item back. The cells of an ordinary column do not show the type of a value, so the
// types are collected from the items first.
func ExampleMapping_Invert() {
	m, err := transform.NewMapping("Orders", "orders", "d", []transform.KeyAttribute{{Name: "order", Type: attribute.KindS}})
	if err != nil {
		panic(err)
	}
	item, err := attribute.UnmarshalItem([]byte(`{"order":{"S":"7"},"paid":{"BOOL":false},"total":{"N":"12.50"}}`))
	if err != nil {
		panic(err)
	}
	types := transform.Types{"note": {Kinds: transform.KindsOf(attribute.KindS)}} // no item has it yet
	part := transform.Types{}
	part.Add(item)
	types.Merge(part)
	names, others := m.NeedsTypes()
	fmt.Println(len(m.NotInvertible()), len(m.Unclear(types)), names, others)
	row, err := m.Invert("7", []transform.Cell{{Family: "d", Qualifier: "total", Value: []byte("13")}, {Family: "d", Qualifier: "note", Value: []byte("7")}}, types)
	if err != nil {
		panic(err)
	}
	set, remove := m.Differences(item, row)
	for _, a := range set {
		fmt.Println("set", a.Name, a.Value.Text())
	}
	names, others = m.Dropped()
	fmt.Println("remove", remove, "keep", names, others, "expired", m.Expired(row, time.Unix(0, 0)))
	// Output:
	// 0 0 [] true
	// set note 7
	// set total 13
	// remove [paid] keep [] false expired false
}
