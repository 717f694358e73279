package cdc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// The names of the service's calls, as errors show them.
const (
	opDescribeStream   = "DescribeStream"
	opGetShardIterator = "GetShardIterator"
	opGetRecords       = "GetRecords"
)

// pageLimit is the most records that one GetRecords returns.
// Source: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_streams_GetRecords.html
const pageLimit = 1000

// API is the part of *dynamodbstreams.Client that this package uses.
type API interface {
	DescribeStream(context.Context, *dynamodbstreams.DescribeStreamInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.DescribeStreamOutput, error)
	GetShardIterator(context.Context, *dynamodbstreams.GetShardIteratorInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetShardIteratorOutput, error)
	GetRecords(context.Context, *dynamodbstreams.GetRecordsInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error)
}

// DynamoDBStream is the Source of one stream of DynamoDB Streams. It is safe for concurrent use.
type DynamoDBStream struct {
	api     API
	arn     string
	newOnly bool // old images are not decoded
}

var _ Source = (*DynamoDBStream)(nil)

// NewSource returns the source of the stream with the given ARN. Every call applies ClientOptions,
// regardless of how the caller made the client.
func NewSource(api API, streamARN string) *DynamoDBStream {
	return &DynamoDBStream{api: api, arn: streamARN}
}

// StreamInfo describes a stream.
type StreamInfo struct {
	ARN       string
	Label     string // the time the stream was enabled, as DynamoDB writes it; part of the ARN
	Table     string
	CreatedAt time.Time
	View      View
	// KeySchema names the partition key and, if the table has one, the sort key.
	KeySchema []string
	// Ended reports that the stream is disabled.
	Ended bool
}

// Describe describes the stream. It does not list shards.
func (s *DynamoDBStream) Describe(ctx context.Context) (StreamInfo, error) {
	d, _, err := s.describe(ctx, &dynamodbstreams.DescribeStreamInput{Limit: aws.Int32(1)})
	if err != nil {
		return StreamInfo{}, err
	}
	info := StreamInfo{
		ARN: aws.ToString(d.StreamArn), Label: aws.ToString(d.StreamLabel), Table: aws.ToString(d.TableName),
		CreatedAt: aws.ToTime(d.CreationRequestDateTime), View: View(d.StreamViewType), Ended: d.StreamStatus == types.StreamStatusDisabled,
	}
	for _, role := range []types.KeyType{types.KeyTypeHash, types.KeyTypeRange} {
		for _, k := range d.KeySchema {
			if k.KeyType == role {
				info.KeySchema = append(info.KeySchema, aws.ToString(k.AttributeName))
			}
		}
	}
	return info, nil
}

// ListPage implements Source.
func (s *DynamoDBStream) ListPage(ctx context.Context, parent, after string) (ListingPage, error) {
	in := &dynamodbstreams.DescribeStreamInput{}
	if parent != "" {
		in.ShardFilter = &types.ShardFilter{Type: types.ShardFilterTypeChildShards, ShardId: aws.String(parent)}
	}
	if after != "" {
		in.ExclusiveStartShardId = aws.String(after)
	}
	d, at, err := s.describe(ctx, in)
	if err != nil {
		return ListingPage{}, err
	}
	page := ListingPage{Ended: d.StreamStatus == types.StreamStatusDisabled, Enabling: d.StreamStatus == types.StreamStatusEnabling, At: at, Next: aws.ToString(d.LastEvaluatedShardId)}
	for _, shard := range d.Shards {
		id := aws.ToString(shard.ShardId)
		if id == "" {
			return ListingPage{}, malformed(opDescribeStream, "a shard without an id")
		}
		r := shard.SequenceNumberRange
		page.Shards = append(page.Shards, Shard{
			ID: id, Parent: aws.ToString(shard.ParentShardId), Closed: r != nil && r.EndingSequenceNumber != nil,
		})
	}
	return page, nil
}

func (s *DynamoDBStream) describe(ctx context.Context, in *dynamodbstreams.DescribeStreamInput) (*types.StreamDescription, time.Time, error) {
	in.StreamArn = aws.String(s.arn)
	out, err := ask(ctx, s.api.DescribeStream, in)
	if err != nil {
		return nil, time.Time{}, failed(ctx, opDescribeStream, err)
	}
	if out == nil || out.StreamDescription == nil {
		return nil, time.Time{}, malformed(opDescribeStream, "no description")
	}
	return out.StreamDescription, serverTime(out.ResultMetadata), nil
}

// Seek implements Source.
func (s *DynamoDBStream) Seek(ctx context.Context, shard string, from Position) (Iterator, error) {
	in := &dynamodbstreams.GetShardIteratorInput{
		StreamArn: aws.String(s.arn), ShardId: aws.String(shard), ShardIteratorType: types.ShardIteratorTypeTrimHorizon,
	}
	if !from.AtHorizon() {
		in.ShardIteratorType = types.ShardIteratorTypeAfterSequenceNumber
		in.SequenceNumber = aws.String(from.After.String())
	}
	out, err := ask(ctx, s.api.GetShardIterator, in)
	if err != nil {
		return "", failed(ctx, opGetShardIterator, err)
	}
	if out == nil || aws.ToString(out.ShardIterator) == "" {
		return "", malformed(opGetShardIterator, "no iterator")
	}
	return Iterator(*out.ShardIterator), nil
}

// Read implements Source.
func (s *DynamoDBStream) Read(ctx context.Context, at Iterator) (Page, error) {
	in := &dynamodbstreams.GetRecordsInput{ShardIterator: aws.String(string(at)), Limit: aws.Int32(pageLimit)}
	decoded := decodedPage{newOnly: s.newOnly}
	out, err := ask(context.WithValue(ctx, decodedPageKey{}, &decoded), s.api.GetRecords, in)
	if unclear, ok := errors.AsType[*unclearAnswer](err); ok && ctx.Err() == nil {
		if sequence, found := decoded.culprit(); found {
			return Page{}, unreadable(sequence, unclear)
		}
	}
	if err != nil {
		return Page{}, failed(ctx, opGetRecords, err)
	}
	if decoded.done {
		decoded.At = serverTime(out.ResultMetadata)
		return decoded.Page, nil
	}
	page, err := pageOf(out)
	if s.newOnly {
		dropOldImages(page.Changes)
	}
	return page, err
}

// pageOf converts an answer that the client decoded.
func pageOf(out *dynamodbstreams.GetRecordsOutput) (Page, error) {
	// A missing iterator marks the end of a shard. An answer without any field, such as an empty
	// body or a proxy's {}, is no such mark.
	if out == nil || out.Records == nil && out.NextShardIterator == nil {
		return Page{}, malformed(opGetRecords, "neither records nor an iterator")
	}
	page := Page{Next: Iterator(aws.ToString(out.NextShardIterator)), At: serverTime(out.ResultMetadata)}
	page.End = page.Next == ""
	var err error
	if page.Changes, err = convertRecords(out.Records); err != nil {
		return Page{}, err
	}
	return page, nil
}

func serverTime(m middleware.Metadata) time.Time {
	at, _ := awsmiddleware.GetServerTime(m)
	return at
}

func malformed(op, what string) error {
	return &Error{op, Malformed, errors.New("the answer holds " + what)}
}

// ask makes one call and ends it after callTime. The error of an ended call includes the client's
// error, which shows how far the call had come.
func ask[In, Out any](ctx context.Context, call func(context.Context, *In, ...func(*dynamodbstreams.Options)) (*Out, error), in *In) (*Out, error) {
	limited, cancel := task.WithTimeout(ctx, callTime)
	defer cancel()
	out, err := call(limited, in, ClientOptions)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("no answer within %s: %w: %w", callTime, context.Cause(limited), Brief(err))
	}
	return out, err
}

// failed turns an error of the client into an *Error.
func failed(ctx context.Context, op string, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return &Error{op, Unavailable, cause}
	}
	if unclear, ok := errors.AsType[*unclearAnswer](err); ok {
		return &Error{op, Malformed, unclear}
	}
	return &Error{op, reasonOf(err), Brief(err)}
}

// reasonOf returns the reason for a client's error. The order of the checks matters. An error may
// contain the answer of another service, for example STS when it fails to return credentials.
func reasonOf(err error) Reason {
	for e := err; ; {
		call, ok := errors.AsType[*smithy.OperationError](e)
		if !ok {
			break
		}
		if call.ServiceID != dynamodbstreams.ServiceID {
			return Denied
		}
		e = call.Err
	}
	status := 0
	if answer, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		status = answer.HTTPStatusCode()
	}
	if fault, ok := errors.AsType[smithy.APIError](err); ok {
		return ReasonOf(fault.ErrorCode(), status)
	}
	if status != 0 {
		return ReasonOf("", status)
	}
	if _, ok := errors.AsType[*smithyhttp.RequestSendError](err); ok {
		return Unavailable
	}
	if _, ok := errors.AsType[*smithy.CanceledError](err); ok || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return Unavailable
	}
	// The client sent no request: it has no credentials, no region or no endpoint.
	return Denied
}

// requestTimeout bounds one request, including its answer of at most 1 MB. Without the bound, a
// connection that died silently would block its shard permanently, while the shard's lease is still
// renewed.
const requestTimeout = 20 * time.Second

// callTime bounds a call as a whole. Before it sends a request, the client may have to fetch
// credentials. If another call already fetches them, the client waits for that fetch without a
// deadline. Without callTime, such a wait would block every shard. No error would be reported, and
// no shard would be released to another worker. callTime is longer than requestTimeout, because the
// error of requestTimeout is more specific.
const callTime = 30 * time.Second

// idleConnections is how many connections are kept for the next call. All shards of a worker call
// one host, about once a second. Each call without a kept connection costs a TLS handshake.
const idleConnections = 512

// ClientOptions sets the options that every call needs. A call makes one attempt, because the
// pipeline retries calls. Further attempts of the client would multiply these retries. A call uses
// no compression, because decompression costs twice as much CPU as reading the text. Answers are
// decoded strictly, and requests are sent whole, on kept connections. A second application of the
// options has no further effect.
func ClientOptions(o *dynamodbstreams.Options) {
	if _, done := o.Protocol.(strictProtocol); done {
		return
	}
	o.Retryer = aws.NopRetryer{}
	o.APIOptions = append(o.APIOptions, smithyhttp.SetHeaderValue("Accept-Encoding", "identity"))
	o.Protocol = strictProtocol{o.Protocol}
	if client, ok := o.HTTPClient.(*awshttp.BuildableClient); ok {
		o.HTTPClient = client.WithTimeout(requestTimeout).WithTransportOptions(func(t *http.Transport) {
			t.MaxIdleConnsPerHost, t.MaxIdleConns = idleConnections, idleConnections
		})
	}
	o.HTTPClient = wholeRequests{o.HTTPClient}
}

// wholeRequests hides the WriteTo of request bodies. smithy-go 1.28 closes a body as soon as the
// answer arrives. If net/http has not yet reached the end of the body, WriteTo reports io.EOF as a
// failure. net/http then drops the connection together with the good answer. Read reports the same
// io.EOF as a normal end.
type wholeRequests struct{ dynamodbstreams.HTTPClient }

func (c wholeRequests) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return c.HTTPClient.Do(r)
}

// convertRecords converts a page. Its errors name a record by position and sequence number, and an
// attribute by name.
func convertRecords(records []types.Record) ([]Change, error) {
	if len(records) == 0 {
		return nil, nil
	}
	changes := make([]Change, len(records))
	for i := range records {
		var err error
		if changes[i], err = convertRecord(&records[i]); err != nil {
			return nil, unreadable(sequenceOf(&records[i]), fmt.Errorf("record %d of %d: %w", i+1, len(records), err))
		}
	}
	return changes, nil
}

// sequenceOf returns a record's sequence number as the service wrote it; "" if it has none.
func sequenceOf(r *types.Record) string {
	if r.Dynamodb == nil {
		return ""
	}
	number, err := ParseSequenceNumber(aws.ToString(r.Dynamodb.SequenceNumber))
	if err != nil {
		return ""
	}
	return number.String()
}

func convertRecord(r *types.Record) (c Change, err error) {
	if r.Dynamodb == nil {
		return c, errors.New("no content")
	}
	if c.Sequence, err = ParseSequenceNumber(aws.ToString(r.Dynamodb.SequenceNumber)); err != nil {
		return c, err
	}
	if r.Dynamodb.ApproximateCreationDateTime != nil {
		c.Time = r.Dynamodb.ApproximateCreationDateTime.UTC().Truncate(time.Second)
	}
	known := false
	if c.Event, known = parseEvent(string(r.EventName)); !known {
		return c, fmt.Errorf("unknown event of %d characters", len(r.EventName))
	}
	for _, image := range []struct {
		name string
		from map[string]types.AttributeValue
		to   *attribute.Item
	}{{"Keys", r.Dynamodb.Keys, &c.Keys}, {"OldImage", r.Dynamodb.OldImage, &c.Old}, {"NewImage", r.Dynamodb.NewImage, &c.New}} {
		if *image.to, err = convertItem(image.from); err != nil {
			return c, fmt.Errorf("%s: %w", image.name, err)
		}
	}
	// For a TTL deletion the service itself is the user. Source:
	// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/time-to-live-ttl-streams.html
	if u := r.UserIdentity; u != nil {
		c.Expired = c.Event == Remove && aws.ToString(u.Type) == "Service" && aws.ToString(u.PrincipalId) == "dynamodb.amazonaws.com"
	}
	return c, c.check(View(r.Dynamodb.StreamViewType), c.Old.Exists())
}

// convertItem names the attribute that it cannot convert. Names inside values are data, so errors
// do not contain them.
func convertItem(m map[string]types.AttributeValue) (attribute.Item, error) {
	members, culprit, err := convertMembers(m)
	if err != nil {
		return attribute.Item{}, fmt.Errorf("attribute %q: %w", culprit, err)
	}
	return attribute.NewItem(members), nil
}

func convertMembers(m map[string]types.AttributeValue) (members []attribute.Attribute, culprit string, err error) {
	members = make([]attribute.Attribute, 0, len(m))
	for name, value := range m {
		v, err := convertValue(value)
		if err == nil && notUTF8(name) {
			err = attribute.ErrText
		}
		if err != nil {
			return nil, name, err
		}
		members = append(members, attribute.Attribute{Name: name, Value: v})
	}
	return members, "", nil
}

func notUTF8(s string) bool { return !utf8.ValidString(s) }

func convertValue(value types.AttributeValue) (v attribute.Value, err error) {
	switch value := value.(type) {
	case *types.AttributeValueMemberS:
		if notUTF8(value.Value) {
			return attribute.Value{}, attribute.ErrText
		}
		return attribute.String(value.Value), nil
	case *types.AttributeValueMemberN:
		return attribute.Number(value.Value)
	case *types.AttributeValueMemberB:
		return attribute.Binary(value.Value), nil
	case *types.AttributeValueMemberBOOL:
		return attribute.Bool(value.Value), nil
	case *types.AttributeValueMemberNULL:
		if !value.Value {
			return attribute.Value{}, errors.New("a NULL that is not true")
		}
		return attribute.Null(), nil
	case *types.AttributeValueMemberM:
		members, _, err := convertMembers(value.Value)
		return attribute.Map(members), err
	case *types.AttributeValueMemberL:
		list := make([]attribute.Value, len(value.Value))
		for i, e := range value.Value {
			if list[i], err = convertValue(e); err != nil {
				return attribute.Value{}, err
			}
		}
		return attribute.List(list), nil
	case *types.AttributeValueMemberSS:
		if !slices.ContainsFunc(value.Value, notUTF8) {
			v = attribute.StringSet(value.Value)
		} else {
			err = attribute.ErrText
		}
	case *types.AttributeValueMemberNS:
		v, err = attribute.NumberSet(value.Value)
	case *types.AttributeValueMemberBS:
		v = attribute.BinarySet(value.Value)
	default:
		return attribute.Value{}, fmt.Errorf("a value of unknown type (%T)", value)
	}
	if err == nil {
		err = attribute.CheckSet(v)
	}
	return v, err
}
