package backfill_test

import (
	"context"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// orders is a table of three items, in pages of two. In production it is the result of NewTables.
type orders struct{}

func (orders) Scan(_ context.Context, _ string, _, _ int, after attribute.Item, _ int) (backfill.ScanPage, error) {
	item := func(pk string) attribute.Item {
		return attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String(pk)}})
	}
	if !after.Exists() {
		return backfill.ScanPage{Items: []attribute.Item{item("order#1"), item("order#2")}, Next: item("order#2")}, nil
	}
	return backfill.ScanPage{Items: []attribute.Item{item("order#3")}}, nil
}

// A part of a load goes page by page. Progress is saved from time to time, never ahead of what is
// written, so another process that resumes there skips no item.
func ExamplePart_Run() {
	part := backfill.Part{
		Index: 0, Total: 1, Source: backfill.Segments{Table: "Orders", Source: orders{}},
		Write: func(_ context.Context, page backfill.Page, _ time.Time) error {
			for _, item := range page.Items {
				pk, _ := item.Get("pk")
				fmt.Println("write", pk.Text())
			}
			return nil
		},
		Save: func(context.Context, checkpoint.PartProgress) error { return nil }, // in production in the ledger
	}
	ctx := context.Background()
	done, err := part.Run(ctx, ctx, checkpoint.PartProgress{})
	fmt.Println(done.Items, "items", err)

	fmt.Println("after the first page:")
	done, err = part.Run(ctx, ctx, checkpoint.PartProgress{Items: 2, Position: []byte(`{"pk":{"S":"order#2"}}`)})
	fmt.Println(done.Items, "items", err)
	// Output:
	// write order#1
	// write order#2
	// write order#3
	// 3 items <nil>
	// after the first page:
	// write order#3
	// 3 items <nil>
}
