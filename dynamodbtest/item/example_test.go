package item_test

import (
	"fmt"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/dynamodbtest/item"
)

// A program computes an item's size before it writes it, and the error that DynamoDB would return
// for a rejected one.
func Example() {
	order, err := item.Parse([]byte(`{"pk":{"S":"order#7"},"total":{"N":"15"}}`))
	if err != nil {
		panic(err)
	}
	fmt.Println(item.Size(order), "bytes")
	fmt.Printf("%s\n", attribute.AppendItem(nil, order))
	_, err = item.Parse([]byte(`{"pk":{"S":"order#7"},"total":{"N":"fifteen"}}`))
	fmt.Println(err)
	// Output:
	// 16 bytes
	// {"pk":{"S":"order#7"},"total":{"N":"15"}}
	// The parameter cannot be converted to a numeric value
}
