package dynamodbtest_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
)

// signedAt replaces the time of requests' signatures.
type signedAt struct {
	dynamodb.HTTPClient
	date *string
}

func (c signedAt) Do(req *http.Request) (*http.Response, error) {
	req.Header.Set("X-Amz-Date", *c.date)
	return c.HTTPClient.Do(req)
}

func TestSignatureWindow(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{SignatureWindow: 5 * time.Minute}) // the clock is at 10:00:00.5
	date := ""
	client := dynamodb.New(f.db.Options(), func(o *dynamodb.Options) { o.HTTPClient = signedAt{o.HTTPClient, &date} })
	for _, c := range []struct{ date, code, message string }{
		{"20261121T100000Z", "", ""},
		{"20261121T095500Z", "", ""},
		{"20261121T095459Z", "InvalidSignatureException", "Signature expired: 20261121T095459Z is now earlier than 20261121T095500Z (20261121T100000Z - 5 min.)"},
		{"20261121T100500Z", "", ""},
		{"20261121T100501Z", "InvalidSignatureException", "Signature not yet current: 20261121T100501Z is still later than 20261121T100500Z (20261121T100000Z + 5 min.)"},
		{"yesterday", "IncompleteSignatureException", "X-Amz-Date"},
		{"", "IncompleteSignatureException", "X-Amz-Date"},
	} {
		date = c.date
		_, err := client.ListTables(f.ctx, &dynamodb.ListTablesInput{})
		if c.code == "" {
			f.noError(err)
			continue
		}
		f.wantMessage(err, c.code, c.message)
	}
	if got := f.server.Calls("ListTables"); got != 3 {
		t.Errorf("%d calls were let in", got)
	}
	// The server's clock decides, also when it moves.
	date = "20261121T100000Z"
	f.clock.Advance(5 * time.Minute)
	_, err := client.ListTables(f.ctx, &dynamodb.ListTablesInput{})
	f.noError(err)
	f.server.AdvanceClock(time.Second)
	_, err = client.ListTables(f.ctx, &dynamodb.ListTablesInput{})
	f.wantMessage(err, "InvalidSignatureException", "Signature expired")
}

func TestSignaturesAreNotCheckedByDefault(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	date := "20010101T000000Z"
	client := dynamodb.New(f.db.Options(), func(o *dynamodb.Options) { o.HTTPClient = signedAt{o.HTTPClient, &date} })
	_, err := client.ListTables(f.ctx, &dynamodb.ListTablesInput{})
	f.noError(err)
}

// A late write was signed in time and allowed when it arrived. So it takes effect although its
// signature has expired since, and although a policy denies it since.
func TestLateWritePassesTheFence(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{SignatureWindow: 5 * time.Minute, Roles: map[string]string{"APP": appRole}})
	date := start.Format("20060102T150405Z")
	f.db = dynamodb.New(f.db.Options(), func(o *dynamodb.Options) { o.HTTPClient = signedAt{o.HTTPClient, &date} })
	f.createTable("Orders", "", "")
	f.server.Straggle("Orders", 1, 10*time.Minute)
	if err := f.writeAs("APP"); err == nil {
		t.Fatal("the late write has an answer")
	}
	_, err := f.putPolicy(document(denyPuts), "")
	f.noError(err)
	f.clock.Advance(10*time.Minute - time.Second)
	date = f.server.Now().Format("20060102T150405Z")
	f.wantMessage(f.writeAs("APP"), "AccessDeniedException", appRole)
	if f.get("Orders", attrs{"pk": str("a")}) != nil {
		t.Fatal("the write is early")
	}
	f.clock.Advance(time.Second)
	if f.get("Orders", attrs{"pk": str("a")}) == nil {
		t.Error("the write did not take effect")
	}
	_, err = f.db.DeleteItem(f.ctx, &dynamodb.DeleteItemInput{TableName: aws.String("Orders"), Key: attrs{"pk": str("a")}})
	f.noError(err)
}
