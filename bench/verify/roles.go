package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"cloud.google.com/go/bigtable"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"github.com/dynamodb-bigtable/replicator/bench/embedded"
)

// segments is how many tasks read each side of a plain read.
const segments = 4

// perform is what the processes with roles of this benchmark do.
func perform(r embedded.Role) (string, error) {
	ctx := context.Background()
	endpoint := "http://" + r.SourceAddress
	client := dynamodb.NewFromConfig(aws.Config{
		Region: embedded.Region, BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("bench", "bench", ""),
	})
	switch r.Own {
	case "read":
		took, err := readBoth(ctx, client, r)
		return took.String(), err
	case "write":
		go write(ctx, client, r) // until the process ends
		return "writing", nil
	}
	return "", fmt.Errorf("no role %q", r.Own)
}

// readBoth reads both sides once, at the same time, and does nothing with what it reads.
func readBoth(ctx context.Context, client *dynamodb.Client, r embedded.Role) (time.Duration, error) {
	target, closeConn, err := embedded.Open(ctx, r.TargetAddress)
	if err != nil {
		return 0, err
	}
	defer closeConn()
	began := time.Now()
	g, gctx := errgroup.WithContext(ctx)
	for segment := range int32(segments) {
		g.Go(func() error {
			pages := dynamodb.NewScanPaginator(client, &dynamodb.ScanInput{
				TableName: aws.String(embedded.Table), Segment: &segment, TotalSegments: aws.Int32(segments), ConsistentRead: aws.Bool(true),
			})
			for pages.HasMorePages() {
				if _, err := pages.NextPage(gctx); err != nil {
					return err
				}
			}
			return nil
		})
		g.Go(func() error {
			rows := bigtable.NewRange(fmt.Sprintf("%x", segment*4), fmt.Sprintf("%x", segment*4+4)) // keys begin with a hexadecimal digit
			if segment == segments-1 {
				rows = bigtable.InfiniteRange(fmt.Sprintf("%x", segment*4))
			}
			return target.Open(embedded.Table).ReadRows(gctx, rows, func(bigtable.Row) bool { return true })
		})
	}
	err = g.Wait()
	return time.Since(began), err
}

// write changes items, one after the other, at a rate.
func write(ctx context.Context, client *dynamodb.Client, r embedded.Role) {
	random := rand.New(rand.NewPCG(1, 2))
	tick := time.NewTicker(time.Second / time.Duration(max(r.Rate, 1)))
	for range tick.C {
		n := random.IntN(r.Items)
		_, err := client.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String(embedded.Table), Item: map[string]types.AttributeValue{
			"pk": &types.AttributeValueMemberS{Value: embedded.Key(n)}, "number": &types.AttributeValueMemberN{Value: fmt.Sprint(random.IntN(1e6))},
			"note": &types.AttributeValueMemberS{Value: embedded.Note(n)},
		}})
		if errors.Is(err, context.Canceled) {
			return
		}
	}
}
