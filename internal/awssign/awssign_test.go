package awssign_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynamodb-bigtable/replicator/internal/awssign"
)

// answering returns a client of a server that answers each request with a status and a code. The
// requests are appended to seen.
func answering(t *testing.T, status int, code string, seen *[]string) *dynamodb.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*seen = append(*seen, r.Header.Get("X-Amz-Date"))
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"__type":"com.amazonaws.dynamodb.v20120810#` + code + `","message":"m"}`))
	}))
	t.Cleanup(server.Close)
	return awssign.Client(dynamodb.NewFromConfig(aws.Config{
		Region: "us-east-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("key", "secret", ""),
	}))
}

func ask(ctx context.Context, client *dynamodb.Client) error {
	_, err := client.ListTables(ctx, &dynamodb.ListTablesInput{})
	return err
}

// A request is signed with the time of its context, and sent once.
func TestRequestsAreSignedWithAChosenTime(t *testing.T) {
	var seen []string
	client := answering(t, http.StatusInternalServerError, "InternalServerError", &seen)
	if err := ask(awssign.At(t.Context(), time.Date(2026, 11, 29, 12, 34, 56, 0, time.UTC)), client); err == nil {
		t.Error("no error")
	}
	if len(seen) != 1 || seen[0] != "20261129T123456Z" {
		t.Errorf("requests: %q", seen)
	}
	if err := ask(t.Context(), client); err == nil || len(seen) != 2 || seen[1] == seen[0] {
		t.Errorf("without a time: %q, %v", seen, err)
	}
}

func TestWhatAnAnswerPromises(t *testing.T) {
	for _, c := range []struct {
		status   int
		code     string
		rejected bool
		tooOld   bool
	}{
		{400, "ValidationException", true, false},
		{400, "InvalidSignatureException", true, true},
		{403, "RequestExpired", true, true},
		{403, "AccessDeniedException", true, false},
		{408, "RequestTimeout", false, false},
		{500, "InternalServerError", false, false},
		{503, "ServiceUnavailable", false, false},
	} {
		var seen []string
		err := ask(t.Context(), answering(t, c.status, c.code, &seen))
		code, rejected := awssign.Rejected(err)
		if rejected != c.rejected || rejected && code != c.code || awssign.TooOld(err) != c.tooOld {
			t.Errorf("%+v: %q %v %v", c, code, rejected, err)
		}
	}
	for _, err := range []error{nil, errors.New("no connection")} {
		if code, rejected := awssign.Rejected(err); code != "" || rejected || awssign.TooOld(err) {
			t.Errorf("%v: %q %v", err, code, rejected)
		}
	}
}
