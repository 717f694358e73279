package main

import (
	"context"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
)

// exportItems is the number of items in the full export. The window has half of them.
const exportItems = 400

// exportPrefix has characters that must be escaped in a URL.
const exportPrefix = "daily exports/ä+b%20"

// readStores makes a full export and a window, and reads them from independent object stores.
func readStores(ctx context.Context, o options, dir string) error {
	amazon, google, stop, err := serveStores(ctx, o.stores)
	if err != nil {
		return err
	}
	defer stop()
	keys, err := exportTable(ctx, dir)
	if err != nil {
		return err
	}
	s3, err := amazonLike(ctx, amazon)
	if err != nil {
		return err
	}
	gcs, err := googleLike(ctx, google)
	if err != nil {
		return err
	}
	for _, s := range []objectStore{s3, gcs} {
		if err := s.check(ctx, filepath.Join(dir, exportBucket), keys); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// exportTable lets the embedded DynamoDB write the exports of a table below dir, and returns their
// folders in the bucket.
func exportTable(ctx context.Context, dir string) (keys []string, err error) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	server := httptest.NewServer(dynamodbtest.New(dynamodbtest.Options{Clock: func() time.Time { return now }, ExportsTo: dir}))
	defer server.Close()
	db := dynamodb.NewFromConfig(aws.Config{Region: "us-east-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("x", "x", "")})
	const table = "Orders"
	name := aws.String(table)
	if _, err := db.CreateTable(ctx, &dynamodb.CreateTableInput{TableName: name, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}}}); err != nil {
		return nil, err
	}
	if _, err := db.UpdateContinuousBackups(ctx, &dynamodb.UpdateContinuousBackupsInput{TableName: name,
		PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: aws.Bool(true)}}); err != nil {
		return nil, err
	}
	put := func(count int, text string) error {
		for i := range count {
			if _, err := db.PutItem(ctx, &dynamodb.PutItemInput{TableName: name, Item: map[string]types.AttributeValue{
				"pk": &types.AttributeValueMemberS{Value: fmt.Sprint(i)}, "text": &types.AttributeValueMemberS{Value: strings.Repeat(text, i)},
				"binary": &types.AttributeValueMemberB{Value: []byte{0, byte(i), 255}}}}); err != nil {
				return err
			}
		}
		return nil
	}
	export := func(in dynamodb.ExportTableToPointInTimeInput) error {
		in.TableArn, in.S3Bucket, in.S3Prefix = aws.String("arn:aws:dynamodb:us-east-1:000000000000:table/"+table), aws.String(exportBucket), aws.String(exportPrefix)
		begun, err := db.ExportTableToPointInTime(ctx, &in)
		if err != nil {
			return err
		}
		out, err := db.DescribeExport(ctx, &dynamodb.DescribeExportInput{ExportArn: begun.ExportDescription.ExportArn})
		if err == nil {
			keys = append(keys, strings.TrimSuffix(*out.ExportDescription.ExportManifest, "/manifest-summary.json"))
		}
		return err
	}
	if err := put(exportItems, "é\n"); err != nil {
		return nil, err
	}
	begin := now
	now = now.Add(time.Hour)
	if err := export(dynamodb.ExportTableToPointInTimeInput{}); err != nil {
		return nil, err
	}
	if err := put(exportItems/2, "later"); err != nil {
		return nil, err
	}
	now = now.Add(time.Hour)
	err = export(dynamodb.ExportTableToPointInTimeInput{ExportType: types.ExportTypeIncrementalExport,
		IncrementalExportSpecification: &types.IncrementalExportSpecification{ExportFromTime: &begin, ExportToTime: &now}})
	return keys, err
}
