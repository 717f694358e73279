package cdc_test

import (
	"context"
	"fmt"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// shards is a stream of two shards, each on a page of its own. In production it is the result of
// NewSource.
type shards struct{ cdc.Source }

func (shards) ListPage(_ context.Context, _, after string) (cdc.ListingPage, error) {
	if after == "" {
		return cdc.ListingPage{Shards: []cdc.Shard{{ID: "parent"}}, Next: "parent"}, nil
	}
	return cdc.ListingPage{Shards: []cdc.Shard{{ID: "child", Parent: "parent"}}}, nil
}

// A program reads a long listing page by page, so that other work can be done between the pages.
func ExampleNewLister() {
	lister := cdc.NewLister(shards{}, "")
	for {
		done, err := lister.Next(context.Background())
		if err != nil {
			panic(err)
		}
		if done {
			break
		}
	}
	for _, shard := range lister.Listing().Shards {
		fmt.Printf("%s, parent %q\n", shard.ID, shard.Parent)
	}
	fmt.Println(lister.Pages(), "pages")
	// Output:
	// parent, parent ""
	// child, parent "parent"
	// 2 pages
}

// Sequence numbers are compared as numbers, and keep the text of the service.
func ExampleParseSequenceNumber() {
	early, err := cdc.ParseSequenceNumber("000000000000000000099")
	if err != nil {
		panic(err)
	}
	late, err := cdc.ParseSequenceNumber("100")
	if err != nil {
		panic(err)
	}
	fmt.Println(early.Compare(late), early)
	_, err = cdc.ParseSequenceNumber("1e3")
	fmt.Println(err != nil)
	// Output:
	// -1 000000000000000000099
	// true
}
