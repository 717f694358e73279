package bucket

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	smithyhttp "github.com/aws/smithy-go/transport/http"
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
		"s3://b/p/AWSDynamoDB/01-a":                            {S3, "b", "p/AWSDynamoDB/", "01-a"},
		"s3://b/AWSDynamoDB/01-a/manifest-summary.json":        {S3, "b", "AWSDynamoDB/", "01-a"},
		"s3://b/p//AWSDynamoDB/01-a":                           {S3, "b", "p//AWSDynamoDB/", "01-a"},
		"gs://b//AWSDynamoDB/01-a//":                           {CloudStorage, "b", "/AWSDynamoDB/", "01-a"},
		"gs://b/a/./b/../c d%20+?#/01-a/manifest-summary.json": {CloudStorage, "b", "a/./b/../c d%20+?#/", "01-a"},
		"gs://b/01-a/":           {CloudStorage, "b", "", "01-a"},
		"/data/AWSDynamoDB/01-a": {Files, "", "/data/AWSDynamoDB/", "01-a"},
		"x":                      {Files, "", filepath.Dir(here) + "/", "x"},
		filepath.Join(here, "..", "manifest-summary.json"): {Files, "", filepath.Dir(filepath.Dir(here)) + "/", filepath.Base(filepath.Dir(here))},
	} {
		if got, err := Parse(address); err != nil || got != want {
			t.Errorf("%s: %+v, %v", address, got, err)
		}
	}
	for _, address := range []string{"", "s3://b", "s3://b/", "s3:///x", "http://b/x", "gs://b/manifest-summary.json", "s3://b//", "s3://b/x/..", "gs://b/x/./"} {
		if p, err := Parse(address); err == nil {
			t.Errorf("%q: %+v", address, p)
		}
	}
}

// config returns a configuration for a server on this machine.
func config(url string) aws.Config {
	return aws.Config{Region: "us-east-1", BaseEndpoint: &url, Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "AKID", SecretAccessKey: "SECRET"}, nil
	})}
}

func pathStyle(o *s3.Options) { o.UsePathStyle = true }

// TestS3 reads exports of the embedded DynamoDB, a full export and a window after it, over S3.
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
	if _, err := exports.Read(ctx, NewS3(cfg, Place{S3, "exports", "a/", ""}, pathStyle), "none"); !errors.Is(err, fs.ErrNotExist) && !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
}

// TestRequesterPays: only a client with the option offers to pay, in a signed header.
func TestRequesterPays(t *testing.T) {
	var offered, signed string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		offered, signed = r.Header.Get("X-Amz-Request-Payer"), r.Header.Get("Authorization")
		_, _ = io.WriteString(w, "content")
	}))
	defer server.Close()
	for want, options := range map[string][]func(*s3.Options){"": {pathStyle}, "requester": {pathStyle, RequesterPays}} {
		object, err := NewS3(config(server.URL), Place{S3, "b", "root/", "x"}, options...).Open(t.Context(), "here")
		if err != nil {
			t.Fatal(err)
		}
		if err := object.Close(); err != nil || offered != want || strings.Contains(signed, "x-amz-request-payer") != (want != "") {
			t.Errorf("the header is %q, want %q; signed: %s (%v)", offered, want, signed, err)
		}
	}
}

// TestS3Answers: a bucket in another region is found. A caller that may not list gets "forbidden"
// for a missing object. S3 names the region in a redirect or, if the request was signed for another
// region, with a 400.
func TestS3Answers(t *testing.T) {
	for _, moved := range []int{http.StatusMovedPermanently, http.StatusBadRequest} {
		s3Answers(t, moved)
	}
}

func s3Answers(t *testing.T, moved int) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Authorization"), "/eu-west-3/s3/") {
			w.Header().Set("X-Amz-Bucket-Region", "eu-west-3")
			w.WriteHeader(moved)
			_, _ = io.WriteString(w, "<Error><Code>Elsewhere</Code></Error>")
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
	answers(t, NewS3(config(server.URL), Place{S3, "b", "root/", "x"}, pathStyle))
}

// TestRefusalsOfBuckets: a missing bucket is not a missing object, and a request without an
// identity is denied. Each request is sent once, because the caller retries.
func TestRefusalsOfBuckets(t *testing.T) {
	for _, c := range []struct {
		status             int
		body               string
		missing, forbidden bool
	}{
		{404, "<Error><Code>NoSuchKey</Code></Error>", true, false}, {404, "<Error><Code>NoSuchBucket</Code></Error>", false, false},
		{403, "<Error><Code>AccessDenied</Code></Error>", false, true}, {503, "<Error><Code>SlowDown</Code></Error>", false, false},
		{500, "<Error><Code>InternalError</Code></Error>", false, false},
	} {
		asked := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked++
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}))
		// This server knows no names of buckets.
		_, err := NewS3(config(server.URL), Place{S3, "b", "root/", "x"}).Open(t.Context(), "here")
		if err == nil || errors.Is(err, fs.ErrNotExist) != c.missing || errors.Is(err, fs.ErrPermission) != c.forbidden || asked != 1 {
			t.Errorf("%d %s: %v after %d requests", c.status, c.body, err, asked)
		}
		server.Close()
	}
	for status, forbidden := range map[int]bool{401: true, 403: true, 500: false} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"error":{"message":"no"}}`)
		}))
		store, err := NewCloudStorage(t.Context(), Place{CloudStorage, "b", "root/", "x"}, option.WithEndpoint(server.URL+"/"), option.WithoutAuthentication())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Open(t.Context(), "here"); err == nil || errors.Is(err, fs.ErrPermission) != forbidden || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%d: %v", status, err)
		}
		server.Close()
	}
	for status, want := range map[int]string{301: "eu-west-3", 400: "eu-west-3", 403: ""} {
		header := http.Header{"X-Amz-Bucket-Region": []string{"eu-west-3"}}
		if got := elsewhere(&smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: &http.Response{StatusCode: status, Header: header}}}); got != want {
			t.Errorf("%d: %q", status, got)
		}
	}
}

// silent is a connection that records how long a read may take.
type silent struct {
	net.Conn
	until time.Time
	fails error
}

func (s *silent) SetReadDeadline(at time.Time) error { s.until = at; return s.fails }

func (s *silent) Read([]byte) (int, error) { return 1, nil }

// TestSilenceIsBounded: each read of a connection has a minute, however long the whole file takes.
func TestSilenceIsBounded(t *testing.T) {
	s := &silent{}
	if n, err := (watched{s}).Read(make([]byte, 1)); n != 1 || err != nil || time.Until(s.until) < silence-10*time.Second || time.Until(s.until) > silence {
		t.Errorf("%d, %v, until %s", n, err, s.until)
	}
	s.fails = errors.New("closed")
	if n, err := (watched{s}).Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("%d, %v", n, err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	conn, err := watchSilence(&http.Transport{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := conn.(watched); !ok {
		t.Errorf("%T", conn)
	}
	_ = conn.Close()
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

// TestCloudStorageAnswers checks the answers, and that compressed objects arrive as stored.
func TestCloudStorageAnswers(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch name := strings.TrimPrefix(r.URL.Path, "/b/b/o/root/"); {
		case name == "here" && r.URL.Query().Get("alt") == "media":
			w.Header().Set("Content-Encoding", "gzip") // it is not gzip, so decompressing it fails
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
	store, err := NewCloudStorage(t.Context(), Place{CloudStorage, "b", "root/", "x"}, option.WithEndpoint(server.URL+"/"), option.WithoutAuthentication())
	if err != nil {
		t.Fatal(err)
	}
	answers(t, store)
}

// TestKeysAreKept: any key is requested letter by letter. In a bucket, a//b and a/b are two
// objects.
func TestKeysAreKept(t *testing.T) {
	asked := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.RequestURI
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	ctx := t.Context()
	for _, folder := range []string{"dir//AWSDynamoDB/01-a", "/AWSDynamoDB/01-a", "a/./b/../01-a", "a b/c+d/e%20f/g?h#i/ü/01-a", "//01-a"} {
		key := folder + "/manifest-summary.json"
		s3Place, err := Parse("s3://bucket/" + folder)
		if err != nil {
			t.Fatal(err)
		}
		_, err = NewS3(config(server.URL), s3Place, pathStyle).Open(ctx, s3Place.Folder+"/manifest-summary.json")
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "s3://bucket/"+key) {
			t.Error(err)
		}
		if got, err := url.PathUnescape(strings.TrimPrefix(strings.TrimSuffix(<-asked, "?x-id=GetObject"), "/bucket/")); got != key || err != nil {
			t.Errorf("S3 is asked for %s, want %s: %v", got, key, err)
		}
		gsPlace, err := Parse("gs://bucket/" + key)
		if err != nil {
			t.Fatal(err)
		}
		store, err := NewCloudStorage(ctx, gsPlace, option.WithEndpoint(server.URL+"/"), option.WithoutAuthentication())
		if err != nil {
			t.Fatal(err)
		}
		_, err = store.Open(ctx, gsPlace.Folder+"/manifest-summary.json")
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "gs://bucket/"+key) {
			t.Error(err)
		}
		uri, _, _ := strings.Cut(<-asked, "?")
		if got, err := url.PathUnescape(strings.TrimPrefix(uri, "/b/bucket/o/")); got != key || err != nil {
			t.Errorf("Cloud Storage is asked for %s, want %s: %v", got, key, err)
		}
		if s3Place.String() != "s3://bucket/"+folder || gsPlace.String() != "gs://bucket/"+folder {
			t.Errorf("%s is told as %s and %s", folder, s3Place, gsPlace)
		}
	}
}

// TestS3TrustsTheBundle: certificates of AWS_CA_BUNDLE and of a profile's ca_bundle apply to
// exports as they do to DynamoDB, and so does a proxy from the environment.
func TestS3TrustsTheBundle(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "content") }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	defer server.Close()
	bundle := filepath.Join(t.TempDir(), "bundle.pem")
	profile := filepath.Join(t.TempDir(), "config")
	for file, content := range map[string][]byte{
		bundle:  pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		profile: []byte("[default]\nca_bundle = " + bundle + "\n"),
	} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", os.DevNull)
	for name, c := range map[string]struct {
		bundle, file string
		trusted      bool
	}{"neither": {"", os.DevNull, false}, "the environment": {bundle, os.DevNull, true}, "a profile": {"", profile, true}} {
		t.Setenv("AWS_CA_BUNDLE", c.bundle)
		t.Setenv("AWS_CONFIG_FILE", c.file)
		cfg, err := awsconfig.LoadDefaultConfig(t.Context(), awsconfig.WithCredentialsProvider(config("").Credentials), awsconfig.WithRegion("us-east-1"),
			awsconfig.WithBaseEndpoint(server.URL))
		if err != nil {
			t.Fatal(err)
		}
		in, err := NewS3(cfg, Place{S3, "b", "", "x"}, pathStyle).Open(t.Context(), "here")
		if (err == nil) != c.trusted {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			_ = in.Close()
		}
		if transportOf(cfg).Proxy == nil {
			t.Errorf("%s: there is no proxy", name)
		}
	}
}
