package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/dynamodb-bigtable/replicator/bench/embedded"
	"github.com/dynamodb-bigtable/replicator/internal/memory"
)

// asker is the role of a process that polls every shard once a second with the SDK's client and
// does nothing else: what is read at least, whatever a worker does besides.
const asker = "asker"

// idleConnections is how many a worker keeps.
const idleConnections = 512

// ask begins with it and goes on until the process ends.
func ask(r embedded.Role) (string, error) {
	memory.Fit() // as run does
	ctx := context.Background()
	client := dynamodbstreams.New(dynamodbstreams.Options{Region: embedded.Region, BaseEndpoint: aws.String("http://" + r.SourceAddress),
		Credentials: credentials.NewStaticCredentialsProvider("bench", "bench", ""), Retryer: aws.NopRetryer{},
		HTTPClient: awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { // connections that are kept, as a worker's are
			t.MaxIdleConnsPerHost, t.MaxIdleConns = idleConnections, idleConnections
		})})
	streams, err := client.ListStreams(ctx, &dynamodbstreams.ListStreamsInput{TableName: aws.String(embedded.Table)})
	if err != nil {
		return "", err
	}
	if len(streams.Streams) != 1 {
		return "", fmt.Errorf("table %s has %d streams", embedded.Table, len(streams.Streams))
	}
	arn := streams.Streams[0].StreamArn
	var shards []types.Shard
	for in := (&dynamodbstreams.DescribeStreamInput{StreamArn: arn}); ; {
		page, err := client.DescribeStream(ctx, in)
		if err != nil {
			return "", err
		}
		shards = append(shards, page.StreamDescription.Shards...)
		if in.ExclusiveStartShardId = page.StreamDescription.LastEvaluatedShardId; in.ExclusiveStartShardId == nil {
			break
		}
	}
	for i, s := range shards {
		first, err := client.GetShardIterator(ctx, &dynamodbstreams.GetShardIteratorInput{StreamArn: arn, ShardId: s.ShardId, ShardIteratorType: types.ShardIteratorTypeTrimHorizon})
		if err != nil {
			return "", err
		}
		go func() {
			time.Sleep(time.Duration(i) * time.Second / time.Duration(len(shards))) // apart from each other, as a worker's are
			iterator := first.ShardIterator
			for range time.Tick(time.Second) {
				page, err := client.GetRecords(ctx, &dynamodbstreams.GetRecordsInput{ShardIterator: iterator})
				if err != nil {
					panic(err)
				}
				iterator = page.NextShardIterator
			}
		}()
	}
	return "polls", nil
}
