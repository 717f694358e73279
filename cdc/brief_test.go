package cdc

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/smithy-go"
)

// envelope is the text that the SDK adds to an error.
var envelope = []string{"operation error", "https response error", "StatusCode", "RequestID", "api error", "request send failed", "deserialization failed"}

// An error has the words of the service or the network, once, and still wraps the SDK's error.
func TestErrorsAreBrief(t *testing.T) {
	for name, c := range map[string]struct {
		status     int
		body, want string
	}{
		"a known code":         {400, `{"__type":"com.amazonaws.dynamodb.v20120810#LimitExceededException","message":"too fast"}`, "DescribeStream: throttled: LimitExceededException: too fast"},
		"an unknown code":      {400, `{"__type":"ThrottlingException","message":"Rate exceeded"}`, "DescribeStream: throttled: ThrottlingException: Rate exceeded"},
		"no text":              {500, `{"__type":"InternalServerError"}`, "DescribeStream: unavailable: InternalServerError"},
		"no answer of its":     {502, `<html>bad gateway of somebody</html>`, "DescribeStream: unavailable: an answer with HTTP status 502"},
		"an empty answer":      {503, ``, "DescribeStream: unavailable: an answer with HTTP status 503"},
		"a refusal on the way": {403, `<html>blocked</html>`, "DescribeStream: denied: an answer with HTTP status 403"},
	} {
		_, client := newWire(t, always(c.status, c.body))
		_, err := NewSource(client, "arn").ListPage(t.Context(), "", "")
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
		isBrief(t, err)
		var whole *awshttp.ResponseError
		if !errors.As(err, &whole) || whole.HTTPStatusCode() != c.status {
			t.Errorf("%s: the cause is lost: %v", name, err)
		}
	}
}

func isBrief(t *testing.T, err error) {
	t.Helper()
	for _, words := range envelope {
		if err == nil || strings.Contains(err.Error(), words) {
			t.Errorf("%v holds %q", err, words)
		}
	}
}

// Errors of the network have no envelope either.
func TestErrorsOfTheNetworkAreBrief(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	_, err := NewSource(newClient(server.URL), "arn").Read(t.Context(), "x")
	if isBrief(t, err); !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("refused: %v", err)
	}
	broken := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(rw, `{"Records":[`)
	}))
	defer broken.Close()
	_, err = NewSource(newClient(broken.URL), "arn").Read(t.Context(), "x")
	isBrief(t, err)
	none := errors.New("no credentials found")
	client := dynamodbstreams.New(dynamodbstreams.Options{Region: "eu-west-1", BaseEndpoint: aws.String(server.URL),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return aws.Credentials{}, none })})
	_, err = NewSource(client, "arn").Read(t.Context(), "x")
	if isBrief(t, err); !strings.HasSuffix(err.Error(), none.Error()) {
		t.Errorf("without credentials: %v", err)
	}
}

// The SDK quotes an answer that it cannot decode, which may be an item.
func TestAnAnswerThatCannotBeDecodedIsNotQuoted(t *testing.T) {
	err := Brief(&smithy.OperationError{ServiceID: "DynamoDB", OperationName: "Scan", Err: &smithy.DeserializationError{Err: errors.New("secret"), Snapshot: []byte("secret")}})
	if err.Error() != "the answer cannot be decoded" {
		t.Error(err)
	}
}
