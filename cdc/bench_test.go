package cdc

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/dynamodb-bigtable/replicator/attribute"
)

// Items of the three sizes for which results are recorded: about 500 bytes in 10 attributes; about
// 2 KB with nested maps, lists and sets; about 50 KB. Every record carries the old and the new
// image.
var shapes = []struct {
	name    string
	records int // per page: 1,000 or 1 MB
	item    func(n int) string
}{
	{"small", 1000, func(n int) string { return fmt.Sprintf(`{"pk":{"S":"order#%08d"},%s}`, n, scalars(n, 90)) }},
	{"medium", 250, func(n int) string {
		return fmt.Sprintf(`{"pk":{"S":"order#%08d"},%s,"lines":{"L":[%s]},"tags":{"SS":["red","green","blue"]},"sizes":{"NS":["1","2.5","40"]}}`,
			n, scalars(n, 60), strings.Repeat(fmt.Sprintf(`{"M":{%s}},`, scalars(n, 50)), 4)+`{"NULL":true}`)
	}},
	{"large", 10, func(n int) string {
		return fmt.Sprintf(`{"pk":{"S":"order#%08d"},%s,"lines":{"L":[%s]}}`,
			n, scalars(n, 30), strings.Repeat(fmt.Sprintf(`{"M":{%s}},`, scalars(n, 130)), 78)+`{"NULL":true}`)
	}},
}

// scalars returns nine attributes, some of them with text of the given length.
func scalars(n, length int) string {
	text := strings.Repeat("x", length)
	return fmt.Sprintf(`"customer":{"S":"%s"},"address":{"S":"%s"},"city":{"S":"%s"},"total":{"N":"%d.25"},"created":{"N":"17321%05d"},`+
		`"paid":{"BOOL":true},"note":{"NULL":true},"token":{"B":"AAECAwQFBgcICQ=="},"state":{"S":"shipped"}`, text, text, text, n, n)
}

func benchPage(records int, item func(n int) string) string {
	var list []string
	for n := range records {
		list = append(list, fmt.Sprintf(`{"awsRegion":"eu-west-1","eventID":"%032d","eventName":"MODIFY","eventSource":"aws:dynamodb","eventVersion":"1.1",`+
			`"dynamodb":{"ApproximateCreationDateTime":1.732175999E9,"Keys":{"pk":{"S":"order#%08d"}},"NewImage":%s,"OldImage":%s,`+
			`"SequenceNumber":"%d","SizeBytes":1024,"StreamViewType":"NEW_AND_OLD_IMAGES"}}`, n, n, item(n), item(n), 100000000000000000+n))
	}
	return page(list...)
}

// benchClient answers every call with the same body, without a network.
func benchClient(body string) *dynamodbstreams.Client {
	return dynamodbstreams.New(dynamodbstreams.Options{
		Region: "eu-west-1",
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "key"}, nil
		}),
		HTTPClient: httpClientFunc(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Header: http.Header{}, ContentLength: int64(len(body)), Body: io.NopCloser(strings.NewReader(body))}, nil
		}),
	})
}

func perRecord(b *testing.B, records int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*records), "ns/record")
}

// BenchmarkConvert converts the client's types.
func BenchmarkConvert(b *testing.B) {
	for _, shape := range shapes {
		b.Run(shape.name, func(b *testing.B) {
			out, err := benchClient(benchPage(shape.records, shape.item)).GetRecords(b.Context(),
				&dynamodbstreams.GetRecordsInput{ShardIterator: aws.String("x")})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := convertRecords(out.Records); err != nil {
					b.Fatal(err)
				}
			}
			perRecord(b, shape.records)
		})
	}
}

// BenchmarkRead runs all of Read except the network: request, decoding by the client, strictness,
// conversion.
func BenchmarkRead(b *testing.B) {
	for _, shape := range shapes {
		b.Run(shape.name, func(b *testing.B) {
			body := benchPage(shape.records, shape.item)
			source := NewSource(benchClient(body), "arn")
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := source.Read(b.Context(), "x"); err != nil {
					b.Fatal(err)
				}
			}
			perRecord(b, shape.records)
		})
	}
}

func BenchmarkDynamoDBJSON(b *testing.B) {
	for _, shape := range shapes {
		text := []byte(shape.item(7))
		item := must(attribute.UnmarshalItem(text))
		b.Run("unmarshal/"+shape.name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				_, _ = attribute.UnmarshalItem(text)
			}
		})
		b.Run("marshal/"+shape.name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				_, _ = attribute.MarshalItem(item)
			}
		})
	}
}

// The bodies of the benchmarks have the stated sizes.
func TestBenchmarkShapes(t *testing.T) {
	for _, shape := range shapes {
		body := benchPage(shape.records, shape.item)
		var parsed struct{ Records []json.RawMessage }
		if err := json.Unmarshal([]byte(body), &parsed); err != nil || len(parsed.Records) != shape.records {
			t.Errorf("%s: %d records, %v", shape.name, len(parsed.Records), err)
		}
		least := map[string]int{"small": 400, "medium": 1600, "large": 40_000}[shape.name]
		if size := len(shape.item(7)); size < least || size > 2*least {
			t.Errorf("%s: an item of %d bytes", shape.name, size)
		}
	}
}
