package exports_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/exports"
	"github.com/dynamodb-bigtable/replicator/exports/exportstest"
)

// A program reads every item of a full export. Its store is a folder (Folder), a bucket (package
// bucket), or, as here, in memory.
func ExampleRead() {
	item, err := attribute.UnmarshalItem([]byte(`{"pk":{"S":"order#7"},"total":{"N":"15"}}`))
	if err != nil {
		panic(err)
	}
	var store exportstest.Objects
	table := exportstest.Table{ARN: "arn:aws:dynamodb:eu-west-1:111122223333:table/Orders", ID: "a-table"}
	if err := store.Full(table, "01700000000000-aaaaaaaa", time.Date(2026, 11, 25, 10, 0, 0, 0, time.UTC), []attribute.Item{item}); err != nil {
		panic(err)
	}

	ctx := context.Background()
	export, err := exports.Read(ctx, &store, "01700000000000-aaaaaaaa")
	if err != nil {
		panic(err)
	}
	fmt.Println(export.At.Format(time.RFC3339), export.Items, "item")
	for i := range export.Files {
		file, err := export.Open(ctx, i)
		if err != nil {
			panic(err)
		}
		for {
			record, err := file.Next()
			if errors.Is(err, io.EOF) {
				break // only here the file is known to be complete
			} else if err != nil {
				panic(err)
			}
			text, err := attribute.MarshalItem(record.New)
			if err != nil {
				panic(err)
			}
			fmt.Printf("%s\n", text)
		}
		if err := file.Close(); err != nil {
			panic(err)
		}
	}
	// Output:
	// 2026-11-25T10:00:00Z 1 item
	// {"pk":{"S":"order#7"},"total":{"N":"15"}}
}
