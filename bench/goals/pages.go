package main

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
)

// shape is an item of about 500 bytes in 10 attributes, of about 2 KB with nested values, or of about 50 KB.
type shape struct {
	name    string
	records int // in a page: 1,000 or 1 MB
	cost    int // about how many small items an item costs
	item    func(n int) string
}

var shapes = []shape{
	{"small", 1000, 1, func(n int) string { return fmt.Sprintf(`{"pk":{"S":"order#%08d"},%s}`, n, scalars(n, 90)) }},
	{"medium", 250, 2, func(n int) string {
		return fmt.Sprintf(`{"pk":{"S":"order#%08d"},%s,"lines":{"L":[%s]},"tags":{"SS":["red","green","blue"]},"sizes":{"NS":["1","2.5","40"]}}`,
			n, scalars(n, 60), strings.Repeat(fmt.Sprintf(`{"M":{%s}},`, scalars(n, 50)), 4)+`{"NULL":true}`)
	}},
	{"large", 10, 20, func(n int) string {
		return fmt.Sprintf(`{"pk":{"S":"order#%08d"},%s,"lines":{"L":[%s]}}`,
			n, scalars(n, 30), strings.Repeat(fmt.Sprintf(`{"M":{%s}},`, scalars(n, 130)), 78)+`{"NULL":true}`)
	}},
}

// scalars are nine attributes, in no order, as the service gives them; one text of them has escapes and one is not ASCII.
func scalars(n, length int) string {
	text := strings.Repeat("x", length)
	return fmt.Sprintf(`"customer":{"S":"%s"},"address":{"S":"%s\"%s\n"},"city":{"S":"%sé"},"total":{"N":"%d.25"},"created":{"N":"17321%05d"},`+
		`"paid":{"BOOL":true},"note":{"NULL":true},"token":{"B":"AAECAwQFBgcICQ=="},"state":{"S":"shipped"}`, text, text[:length/2], text[length/2:], text, n, n)
}

// streamPage is a page of records with old and new image, of the items with the given numbers.
func streamPage(s shape, items []int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"NextShardIterator":"next","Records":[`)
	for i, n := range items {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"awsRegion":"eu-west-1","eventID":"%032d","eventName":"MODIFY","eventSource":"aws:dynamodb","eventVersion":"1.1",`+
			`"dynamodb":{"ApproximateCreationDateTime":1.732175999E9,"Keys":{"pk":{"S":"order#%08d"}},"NewImage":%s,"OldImage":%s,`+
			`"SequenceNumber":"%d","SizeBytes":1024,"StreamViewType":"NEW_AND_OLD_IMAGES"}}`, i, n, s.item(n), s.item(n), 100000000000000000+i)
	}
	b.WriteString(`]}`)
	return b.Bytes()
}

func scanPage(s shape, items []int) []byte {
	var list []string
	for _, n := range items {
		list = append(list, s.item(n))
	}
	return fmt.Appendf(nil, `{"ConsumedCapacity":{"CapacityUnits":128,"TableName":"Orders"},"Count":%d,"Items":[%s],"LastEvaluatedKey":{"pk":{"S":"k"}},"ScannedCount":%d}`,
		len(list), strings.Join(list, ","), len(list))
}

// unique are so many items that differ, from a number on; zipf are drawn, s = 1.1, of 10,000.
func unique(from, n int) (items []int) {
	for i := range n {
		items = append(items, from+i)
	}
	return items
}

func zipf(seed uint64, n int) (items []int) {
	draw := rand.NewZipf(rand.New(rand.NewPCG(seed, 2)), 1.1, 1, 9_999)
	for range n {
		items = append(items, int(draw.Uint64()))
	}
	return items
}

// answers is an HTTP client that gives bodies in turn, each with its checksum, without a network. One task uses it.
type answers struct {
	bodies [][]byte
	sums   []string
	next   int
}

func newAnswers(bodies ...[]byte) *answers {
	a := &answers{bodies: bodies}
	for _, body := range bodies {
		a.sums = append(a.sums, fmt.Sprint(crc32.ChecksumIEEE(body)))
	}
	return a
}

// Do implements the HTTP client of the SDK.
func (a *answers) Do(*http.Request) (*http.Response, error) {
	i := a.next % len(a.bodies)
	a.next++
	header := http.Header{"X-Amz-Crc32": {a.sums[i]}, "Content-Type": {"application/x-amz-json-1.0"}, "Date": {"Thu, 21 Nov 2024 08:00:00 GMT"}}
	return &http.Response{StatusCode: 200, Header: header, ContentLength: int64(len(a.bodies[i])), Body: io.NopCloser(bytes.NewReader(a.bodies[i]))}, nil
}

var credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "key"}, nil
})

func (a *answers) streams() *dynamodbstreams.Client {
	return dynamodbstreams.New(dynamodbstreams.Options{Region: "eu-west-1", Credentials: credentials, HTTPClient: a})
}

func (a *answers) tables(options ...func(*dynamodb.Options)) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{Region: "eu-west-1", Credentials: credentials, HTTPClient: a}, options...)
}
