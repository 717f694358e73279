package cdc

import (
	"testing"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
)

// A connection that died silently must not hold a shard for ever: every request has an end of its own (rounds of real processes
// forget connections on purpose).
func TestRequestsAreBounded(t *testing.T) {
	o := dynamodbstreams.Options{HTTPClient: awshttp.NewBuildableClient()}
	ClientOptions(&o)
	wrapped, ok := o.HTTPClient.(wholeRequests)
	if !ok {
		t.Fatalf("the client is a %T", o.HTTPClient)
	}
	bounded, ok := wrapped.HTTPClient.(*awshttp.BuildableClient)
	if !ok || bounded.GetTimeout() != requestTimeout {
		t.Fatalf("a request is not bounded: %T", wrapped.HTTPClient)
	}
}
