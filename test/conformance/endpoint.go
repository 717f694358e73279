package conformance

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
)

// The environment variables that name an endpoint.
const (
	// EndpointVariable is the URL of a DynamoDB, or "aws" for AWS in the region of the environment.
	EndpointVariable = "REPLICATOR_CONFORMANCE_ENDPOINT"
	// StreamsEndpointVariable is the URL of its DynamoDB Streams, if different.
	StreamsEndpointVariable = "REPLICATOR_CONFORMANCE_STREAMS_ENDPOINT"
)

// Endpoint is a DynamoDB with Streams.
type Endpoint struct {
	// Name is the service's name in reports.
	Name string
	// Tables and Streams are the URLs of the two services.
	Tables, Streams string
	// Patience is the longest wait for changes that become visible later.
	Patience time.Duration

	region      string
	credentials aws.CredentialsProvider
}

// Local is a service on this machine, which checks no signatures.
func Local(name, url string) *Endpoint {
	return &Endpoint{
		Name: name, Tables: url, Streams: url, Patience: 3 * time.Second, region: "us-east-1",
		credentials: credentials.NewStaticCredentialsProvider("conformance", "conformance", ""),
	}
}

// FromEnvironment returns the endpoint that the environment names, or nil. Credentials and region
// come from the AWS SDK's default chain.
func FromEnvironment(ctx context.Context) (*Endpoint, error) {
	url := os.Getenv(EndpointVariable)
	if url == "" {
		return nil, nil
	}
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, err
	}
	e := &Endpoint{Name: url, Tables: url, Streams: url, Patience: time.Minute, region: cfg.Region, credentials: cfg.Credentials}
	if other := os.Getenv(StreamsEndpointVariable); other != "" {
		e.Streams = other
	}
	if url == "aws" {
		// Source: https://docs.aws.amazon.com/general/latest/gr/ddb.html
		e.Tables = "https://dynamodb." + cfg.Region + ".amazonaws.com"
		e.Streams = "https://streams.dynamodb." + cfg.Region + ".amazonaws.com"
	}
	if e.region == "" {
		return nil, fmt.Errorf("%s is set, but no region: set AWS_REGION", EndpointVariable)
	}
	return e, nil
}

// streamOperations lists the operations of DynamoDB Streams. All others belong to DynamoDB.
var streamOperations = []string{"ListStreams", "DescribeStream", "GetShardIterator", "GetRecords"}

// answer is a service's answer: a document, or an error.
type answer struct {
	document any // decoded with json.Number
	code     string
	message  string
}

// maxAnswer bounds an answer. It exceeds a page of 1 MB as JSON by far.
const maxAnswer = 64 << 20

// post sends one request and returns the answer, and whether it is an error of the service.
func (e *Endpoint) post(ctx context.Context, operation, body string) (text []byte, failed bool, err error) {
	url, target := e.Tables, "DynamoDB_20120810."
	if slices.Contains(streamOperations, operation) {
		url, target = e.Streams, "DynamoDBStreams_20120810."
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/", strings.NewReader(body))
	if err != nil {
		return nil, false, err
	}
	request.Header.Set("Content-Type", "application/x-amz-json-1.0")
	request.Header.Set("X-Amz-Target", target+operation)
	if err := e.sign(ctx, request, body); err != nil {
		return nil, false, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, false, err
	}
	defer response.Body.Close()
	text, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	return text, response.StatusCode != http.StatusOK, err
}

// parse reads an answer.
func parse(text []byte, failed bool) (answer, error) {
	var a answer
	var err error
	if a.document, err = decode(text); err != nil {
		return answer{}, fmt.Errorf("the answer is no JSON: %w", err)
	}
	if !failed {
		return a, nil
	}
	members, _ := a.document.(map[string]any)
	kind, _ := members["__type"].(string)
	a.code = kind[strings.LastIndex(kind, "#")+1:]
	for _, name := range []string{"message", "Message"} {
		if text, ok := members[name].(string); ok {
			a.message = text
		}
	}
	if a.code == "" {
		return answer{}, errors.New("an error without a type")
	}
	return a, nil
}

// call sends one request. It returns an error only if the service did not answer.
func (e *Endpoint) call(ctx context.Context, operation, body string) (answer, error) {
	text, failed, err := e.post(ctx, operation, body)
	if err != nil {
		return answer{}, err
	}
	return parse(text, failed)
}

// sign adds a signature of version 4.
func (e *Endpoint) sign(ctx context.Context, request *http.Request, body string) error {
	keys, err := e.credentials.Retrieve(ctx)
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(body))
	return v4.NewSigner().SignHTTP(ctx, keys, request, hex.EncodeToString(sum[:]), "dynamodb", e.region, time.Now())
}

// decode reads one JSON document and keeps the spelling of numbers.
func decode(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}
