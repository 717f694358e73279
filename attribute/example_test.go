package attribute_test

import (
	"errors"
	"fmt"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// DynamoDB JSON in and out: members are sorted, and each number has one text, so equal items give
// equal bytes.
func Example() {
	item, err := attribute.UnmarshalItem([]byte(`{"sk": {"N": "1.50e1"}, "pk": {"S": "order#7"}, "tags": {"SS": ["b", "a"]}}`))
	if err != nil {
		panic(err)
	}
	text, err := attribute.MarshalItem(item)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s\n", text)
	total, _ := item.Get("sk")
	fmt.Println(total.Kind(), total.Text())
	// Output:
	// {"pk":{"S":"order#7"},"sk":{"N":"15"},"tags":{"SS":["a","b"]}}
	// N 15
}

// An error says where and what, and never quotes the item's data.
func ExampleUnmarshalItem() {
	_, err := attribute.UnmarshalItem([]byte(`{"balance": {"N": "12,50"}}`))
	var wrong *attribute.JSONError
	fmt.Println(errors.As(err, &wrong), errors.Is(err, attribute.ErrNumber))
	fmt.Println(err)
	// Output:
	// true true
	// not DynamoDB JSON: at byte 25: a number: not a DynamoDB number: unexpected character in text of 5 characters
}
