package dynamodbtest_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
)

// Writers, a scanner and a stream reader work while shards split and roll. In the end the stream
// has every change of every key once and, along the lineage, in order.
func TestConcurrentUse(t *testing.T) {
	const writers, writes, keys = 4, 150, 7
	f := newFixture(t, dynamodbtest.Options{InitialShards: 2})
	f.createTable("Orders", "NEW_IMAGE", "")
	var wg sync.WaitGroup
	failures := make(chan error, 100)
	run := func(work func() error) {
		wg.Go(func() {
			if err := work(); err != nil {
				failures <- err
			}
		})
	}
	for w := range writers {
		run(func() error {
			for i := range writes {
				_, err := f.db.PutItem(f.ctx, &dynamodb.PutItemInput{TableName: ptr("Orders"), Item: attrs{
					"pk": str(fmt.Sprintf("%d-%d", w, i%keys)), "v": num(strconv.Itoa(i)),
				}})
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	run(func() error {
		for i := range 20 {
			shards, err := f.server.Shards("Orders")
			if err != nil {
				return err
			}
			for _, sh := range shards {
				if !sh.Open {
					continue
				}
				if i%4 == 0 {
					_, err = f.server.SplitShard("Orders", sh.ID)
				} else {
					_, err = f.server.RollShard("Orders", sh.ID)
				}
				if err != nil {
					return err
				}
				break
			}
		}
		return nil
	})
	run(func() error {
		for range 30 {
			if _, err := f.db.Scan(f.ctx, &dynamodb.ScanInput{TableName: ptr("Orders")}); err != nil {
				return err
			}
		}
		return nil
	})
	wg.Wait()
	close(failures)
	for err := range failures {
		t.Fatal(err)
	}

	arn := f.streamARN("Orders")
	children := map[string][]string{}
	for _, sh := range f.allShards("Orders") {
		children[sh.Parent] = append(children[sh.Parent], sh.ID)
	}
	total := 0
	last := map[string]int{}
	var walk func(id string)
	walk = func(id string) {
		for _, r := range f.records(arn, id) {
			image := r.Dynamodb.NewImage
			pk := image["pk"].(*streamtypes.AttributeValueMemberS).Value
			v, err := strconv.Atoi(image["v"].(*streamtypes.AttributeValueMemberN).Value)
			f.noError(err)
			if before, found := last[pk]; found && v != before+keys || !found && v >= keys {
				t.Errorf("key %s: %d after %d", pk, v, before)
			}
			last[pk] = v
			total++
		}
		for _, child := range children[id] {
			walk(child)
		}
	}
	for _, root := range children[""] {
		walk(root)
	}
	if total != writers*writes {
		t.Errorf("%d records, want %d", total, writers*writes)
	}
}
