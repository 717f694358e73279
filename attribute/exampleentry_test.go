package attribute_test

import (
	"fmt"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// A program makes an item from values. The order of the attributes does not matter.
func ExampleNewItem() {
	total, err := attribute.Number("15.0")
	if err != nil {
		panic(err)
	}
	item := attribute.NewItem([]attribute.Attribute{
		{Name: "total", Value: total}, {Name: "pk", Value: attribute.String("order#7")}, {Name: "paid", Value: attribute.Bool(true)},
	})
	text, err := attribute.MarshalItem(item)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s\n", text)
	// Output: {"paid":{"BOOL":true},"pk":{"S":"order#7"},"total":{"N":"15"}}
}

// A decoder of pages reads an answer of DynamoDB in one pass. If a method returns false, the answer
// is unusual, and UnmarshalItem decodes it and explains its errors.
func ExampleNewScanner() {
	scanner := attribute.NewScanner(`{"Count":2,"Items":[{"pk":{"S":"a"}},{"pk":{"S":"b"}}]}`)
	usual := scanner.Object(func(member string) bool {
		if member != "Items" {
			return scanner.Skip()
		}
		return scanner.List(func() bool {
			item, ok := scanner.Item()
			pk, _ := item.Get("pk")
			fmt.Println(pk.Text())
			return ok
		})
	})
	fmt.Println(usual && scanner.End())
	// Output:
	// a
	// b
	// true
}
