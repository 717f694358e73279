package dualwrite_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/dualwrite"
)

// An application that writes DynamoDB and Bigtable while replicator runs with the same file.
func ExampleOpen() {
	ctx := context.Background()
	w, err := dualwrite.Open(ctx, "replicator.yaml", "Orders")
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close()
	order, err := attribute.UnmarshalItem([]byte(`{"pk":{"S":"c1"},"sk":{"S":"o1"},"total":{"N":"12.5"}}`))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := w.Put(ctx, order); err != nil {
		log.Print(err)
	}
}

// Update starts again if another writer was faster. The change may ignore the number.
func ExampleWriter_Update() {
	w, orders := exampleWriter()
	keys := orders.item // only its primary key is used
	written, err := w.Update(context.Background(), keys, func(old attribute.Item) (attribute.Item, error) {
		if !old.Exists() {
			return attribute.Item{}, errors.New("no such order")
		}
		return attribute.NewItem(append([]attribute.Attribute{{Name: "paid", Value: attribute.Bool(true)}}, old.Attributes()...)), nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(text(written, "rev"))
	// Output: 8
}

// The outcome of a failed write. Replicator brings what DynamoDB has.
func ExampleError() {
	w, orders := exampleWriter()
	read := orders.item
	// Another writer changed it since.
	orders.fail = func(execute func()) error { return dualwrite.ErrConflict }
	_, err := w.Put(context.Background(), read)
	var failed *dualwrite.Error
	switch {
	case err == nil:
	case errors.Is(err, dualwrite.ErrConflict):
		fmt.Println("read the item again, and put that")
	case errors.As(err, &failed) && failed.DynamoDB == dualwrite.Written:
		fmt.Println("written; the row follows")
	case errors.As(err, &failed) && failed.Repeat:
		fmt.Println("repeat it")
	}
	fmt.Println(err)
	// Output:
	// read the item again, and put that
	// Put: DynamoDB: not written, Bigtable: not written; read the item again: the item's number has changed since it was read
}

func text(i attribute.Item, name string) string {
	value, _ := i.Get(name)
	return value.Text()
}

// exampleWriter returns a writer with stores in memory that hold an order with the number 7.
func exampleWriter() (*dualwrite.Writer, *table) {
	order, err := attribute.UnmarshalItem([]byte(`{"pk":{"S":"c1"},"sk":{"S":"o1"},"customer":{"S":"x"},"rev":{"N":"7"}}`))
	if err != nil {
		log.Fatal(err)
	}
	orders, m := &table{item: order}, mapping()
	return dualwrite.New(m, orders, newRecorder(m)), orders
}
