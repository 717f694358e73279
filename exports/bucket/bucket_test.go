package bucket

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"google.golang.org/api/option"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
	"github.com/dynamodb-bigtable/replicator/exports"
)

func TestParse(t *testing.T) {
	here, err := filepath.Abs("x")
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]Place{
		"s3://b/p/AWSDynamoDB/01-a":                     {S3, "b", "p/AWSDynamoDB", "01-a"},
		"s3://b/AWSDynamoDB/01-a/manifest-summary.json": {S3, "b", "AWSDynamoDB", "01-a"},
		"gs://b/01-a/":           {CloudStorage, "b", "", "01-a"},
		"/data/AWSDynamoDB/01-a": {Files, "", "/data/AWSDynamoDB/", "01-a"},
		"x":                      {Files, "", filepath.Dir(here) + "/", "x"},
		filepath.Join(here, "..", "manifest-summary.json"): {Files, "", filepath.Dir(filepath.Dir(here)) + "/", filepath.Base(filepath.Dir(here))},
	} {
		if got, err := Parse(address); err != nil || got != want {
			t.Errorf("%s: %+v, %v", address, got, err)
		}
	}
	for _, address := range []string{"", "s3://b", "s3://b/", "s3:///x", "http://b/x", "gs://b/manifest-summary.json"} {
		if p, err := Parse(address); err == nil {
			t.Errorf("%q: %+v", address, p)
		}
	}
}

// config is for a server at this machine.
func config(url string) aws.Config {
	return aws.Config{Region: "us-east-1", BaseEndpoint: &url, Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "AKID", SecretAccessKey: "SECRET"}, nil
	})}
}

func pathStyle(o *s3.Options) { o.UsePathStyle = true }

// TestS3 reads what the embedded DynamoDB exports, a full export and a window behind it, as S3 gives it.
func TestS3(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	server := httptest.NewServer(dynamodbtest.New(dynamodbtest.Options{Clock: func() time.Time { return now }}))
	defer server.Close()
	cfg, ctx := config(server.URL), t.Context()
	db := dynamodb.NewFromConfig(cfg)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := db.CreateTable(ctx, &dynamodb.CreateTableInput{TableName: aws.String("Orders"), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}}})
	must(err)
	_, err = db.UpdateContinuousBackups(ctx, &dynamodb.UpdateContinuousBackupsInput{TableName: aws.String("Orders"),
		PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: aws.Bool(true)}})
	must(err)
	put := func(pk, v string) {
		_, err := db.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String("Orders"), Item: map[string]types.AttributeValue{
			"pk": &types.AttributeValueMemberS{Value: pk}, "v": &types.AttributeValueMemberS{Value: v}}})
		must(err)
	}
	export := func(in dynamodb.ExportTableToPointInTimeInput) *exports.Export {
		t.Helper()
		in.TableArn, in.S3Bucket, in.S3Prefix = aws.String("arn:aws:dynamodb:us-east-1:000000000000:table/Orders"), aws.String("exports"), aws.String("a/b")
		begun, err := db.ExportTableToPointInTime(ctx, &in)
		must(err)
		out, err := db.DescribeExport(ctx, &dynamodb.DescribeExportInput{ExportArn: begun.ExportDescription.ExportArn})
		must(err)
		place, err := Parse("s3://exports/" + *out.ExportDescription.ExportManifest)
		must(err)
		e, err := exports.Read(ctx, NewS3(cfg, place, pathStyle), place.Folder)
		must(err)
		return e
	}
	put("a", "1")
	put("b", "1")
	now = now.Add(time.Hour)
	full := export(dynamodb.ExportTableToPointInTimeInput{})
	put("a", "2")
	begin := now
	now = now.Add(time.Hour)
	window := export(dynamodb.ExportTableToPointInTimeInput{ExportType: types.ExportTypeIncrementalExport,
		IncrementalExportSpecification: &types.IncrementalExportSpecification{ExportFromTime: &begin, ExportToTime: &now}})
	steps, err := exports.Chain([]*exports.Export{window, full}, exports.Wanted{TableARN: full.TableARN, TableID: full.TableID})
	must(err)
	found := map[string]string{}
	for _, step := range steps {
		for i := range step.Files {
			r, err := step.Open(ctx, i)
			must(err)
			record, err := r.Next()
			for ; err == nil; record, err = r.Next() {
				pk, _ := record.New.Get("pk")
				v, _ := record.New.Get("v")
				found[pk.Text()] = v.Text()
			}
			if err != io.EOF || r.Close() != nil {
				t.Error(err)
			}
		}
	}
	if len(found) != 2 || found["a"] != "2" || found["b"] != "1" {
		t.Errorf("the chain holds %v", found)
	}
	if _, err := exports.Read(ctx, NewS3(cfg, Place{S3, "exports", "a", ""}, pathStyle), "none"); !errors.Is(err, fs.ErrNotExist) && !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
}

// TestS3Answers: a bucket of another region is found; who must not list gets "forbidden" for what
// is not there.
func TestS3Answers(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Authorization"), "/eu-west-3/s3/") {
			w.Header().Set("X-Amz-Bucket-Region", "eu-west-3")
			w.WriteHeader(http.StatusMovedPermanently)
			_, _ = io.WriteString(w, "<Error><Code>PermanentRedirect</Code></Error>")
			return
		}
		switch r.URL.Path {
		case "/b/root/here":
			_, _ = io.WriteString(w, "content")
		case "/b/root/hidden":
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, "<Error><Code>AccessDenied</Code></Error>")
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, "<Error><Code>NoSuchKey</Code></Error>")
		}
	}))
	defer server.Close()
	answers(t, NewS3(config(server.URL), Place{S3, "b", "root", "x"}, pathStyle))
}

func answers(t *testing.T, store exports.Store) {
	t.Helper()
	in, err := store.Open(t.Context(), "here")
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(in)
	if string(content) != "content" || err != nil || in.Close() != nil {
		t.Errorf("%q, %v", content, err)
	}
	if _, err := store.Open(t.Context(), "hidden"); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "://b/root/hidden") {
		t.Error(err)
	}
	if _, err := store.Open(t.Context(), "gone"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestCloudStorageAnswers, and packed objects come as they are.
func TestCloudStorageAnswers(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch name := strings.TrimPrefix(r.URL.Path, "/b/b/o/root/"); {
		case name == "here" && r.URL.Query().Get("alt") == "media":
			w.Header().Set("Content-Encoding", "gzip") // it is none: whoever unpacks it fails
			_, _ = io.WriteString(w, "content")
		case name == "hidden":
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"error":{"code":403,"message":"no"}}`)
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"error":{"code":404,"message":"none"}}`)
		}
	}))
	defer server.Close()
	store, err := NewCloudStorage(t.Context(), Place{CloudStorage, "b", "root", "x"}, option.WithEndpoint(server.URL+"/"), option.WithoutAuthentication())
	if err != nil {
		t.Fatal(err)
	}
	answers(t, store)
}
