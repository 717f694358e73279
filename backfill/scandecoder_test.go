package backfill

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"pgregory.net/rapid"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/attribute/attributetest"
)

// textClient answers every call with the same text, without a network.
type textClient string

func (c textClient) Do(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{}, ContentLength: int64(len(c)), Body: io.NopCloser(strings.NewReader(string(c)))}, nil
}

func (c textClient) api() *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{Region: "eu-west-1", HTTPClient: c, Credentials: aws.AnonymousCredentials{}}, ClientOptions)
}

// differ describes how Scan's result for a body differs from the client's; "" if it does not.
func differ(body string) string {
	ctx, api, table := context.Background(), textClient(body).api(), "T"
	got, err := NewTables(api).Scan(ctx, table, 0, 1, attribute.Item{}, 0)
	out, plain := ask(ctx, api.Scan, &dynamodb.ScanInput{TableName: &table})
	var want ScanPage
	if plain != nil {
		plain = failure(ctx, "Scan", plain, false)
	} else {
		want, plain = scanPageOf(out)
	}
	switch {
	case (err == nil) != (plain == nil) || err != nil && err.Error() != plain.Error():
		return fmt.Sprintf("error %v, plainly %v", err, plain)
	case len(got.Items) != len(want.Items) || fmt.Sprint(got.Consumed) != fmt.Sprint(want.Consumed) || !got.Next.Equal(want.Next):
		return fmt.Sprintf("%+v, plainly %+v", got, want)
	}
	for i := range want.Items {
		if !got.Items[i].Equal(want.Items[i]) {
			return fmt.Sprintf("item %d is %v, plainly %v", i, got.Items[i], want.Items[i])
		}
	}
	return ""
}

func scanned(items ...string) string {
	return fmt.Sprintf(`{"ConsumedCapacity":{"CapacityUnits":12.5,"TableName":"T"},"Count":%d,"Items":[%s],"LastEvaluatedKey":{"pk":{"S":"k"}},"ScannedCount":7}`,
		len(items), strings.Join(items, ","))
}

func oddScans() (bodies []string) {
	good := scanned(`{"a":{"S":"x"}}`, `{"b":{"N":"1"}}`)
	for end := range good {
		bodies = append(bodies, good[:end])
	}
	for _, change := range [][2]string{{"12.5", "1e400"}, {"12.5", `"NaN"`}, {`"TableName":"T"`, `"Table":{"CapacityUnits":1}`}, {`"TableName":"T"`, `"CapacityUnits":2`},
		{`"Count":2`, `"Count":3`}, {`"Count":2`, `"Count":2.0`}, {`"Count":2`, `"Count":null`}, {`"Count":2`, `"Later":[{}],"Count":2`}, {`"Count":2`, `"Count":1,"Count":2`},
		{`7}`, `"7"}`}, {`7}`, `99999999999}`}, {`{"pk":{"S":"k"}}`, `null`}, {`{"pk":{"S":"k"}}`, `{}`}, {`"ScannedCount"`, `"Items":[],"ScannedCount"`}, {`7}`, `7} x`}} {
		bodies = append(bodies, strings.Replace(good, change[0], change[1], 1))
	}
	for _, image := range attributetest.OddImages() {
		bodies = append(bodies, scanned(image), scanned(`{"a":{"S":"x"}}`, image))
	}
	return append(bodies, good, "{}", "null", `{"Count":0,"Items":[]}`, `{"Count":0,"Items":null}`, `{"Count":1,"Items":[null]}`)
}

// For any text, Scan's result equals the client's, whether this package's decoder handles the text
// or leaves it to the client.
func TestScansAreDecodedAsTheClientDecodesThem(t *testing.T) {
	for _, body := range oddScans() {
		if d := differ(body); d != "" {
			t.Errorf("%.300s: %s", body, d)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		var items []string
		for _, item := range rapid.SliceOfN(attributetest.Items(1), 0, 3).Draw(t, "items") {
			items = append(items, string(attributetest.Must(attribute.MarshalItem(item))))
		}
		body := scanned(items...)
		if page, ok := decodeScan(body); !ok || len(page.Items) != len(items) {
			t.Fatalf("what the service writes is left to the client: %s", body)
		}
		if d := differ(body); d != "" {
			t.Fatalf("%s: %s", body, d)
		}
	})
}

// They agree after any change of a page.
func FuzzDecodeScan(f *testing.F) {
	for _, body := range oddScans() {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		if d := differ(body); d != "" {
			t.Fatal(d)
		}
	})
}
