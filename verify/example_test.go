package verify_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// orders is a table of some items by key. In production it is the result of backfill.NewTables.
type orders map[string]attribute.Item

func (o orders) Scan(_ context.Context, _ string, segment, _ int, _ attribute.Item, _ int) (page backfill.ScanPage, err error) {
	if segment == 0 { // the first segment has all items
		page.Items = slices.Collect(maps.Values(o))
	}
	return page, nil
}

func (o orders) Get(_ context.Context, _ string, keys attribute.Item) (attribute.Item, bool, error) {
	pk, _ := keys.Get("pk")
	item, found := o[pk.Text()]
	return item, found, nil
}

// A program compares a table with its target after its own copy. One item was never written.
func ExampleComparison_Compare() {
	m, err := transform.NewMapping("Orders", "orders", "d", []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}})
	if err != nil {
		panic(err)
	}
	source, copied := orders{}, []attribute.Item(nil)
	for _, pk := range []string{"order#1", "order#2"} {
		source[pk] = attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String(pk)}, {Name: "paid", Value: attribute.Bool(true)}})
	}
	copied = append(copied, source["order#1"])

	ctx := context.Background()
	var target sinktest.Memory // in production the result of sink.Connect
	target.Create("orders", "d")
	batch := transform.Load(m, copied, 1, time.Unix(1_795_170_000, 0))
	writer := sink.NewWriter(sink.Options{Table: &target, Parking: sink.NewParking(&sinktest.Records{}, "example")})
	if err := writer.Write(ctx, sink.Unfenced(), &batch); err != nil {
		panic(err)
	}

	comparison := verify.Comparison{Mapping: m, Source: source, Target: &target, Owned: true}
	plan, err := comparison.NewPlan(ctx, verify.Quiet, "", 0, []byte("a secret of the run"))
	if err != nil {
		panic(err)
	}
	result, err := comparison.Compare(ctx, plan, 1)
	if err != nil {
		panic(err)
	}
	fmt.Println("clean:", result.Clean())
	for _, finding := range result.Findings {
		fmt.Println(finding.Kind, finding.Table, finding.Row)
	}
	// Output:
	// clean: false
	// missing orders order#2
}
