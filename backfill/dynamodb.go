package backfill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// requestTimeout bounds one request, including its answer of at most 1 MB. Without the bound, a
// connection that died silently would block its segment permanently.
const requestTimeout = 30 * time.Second

// CallTime bounds a call as a whole. Before it sends a request, the client may have to fetch
// credentials. If another call already fetches them, the client waits for that fetch without a
// deadline. CallTime is longer than requestTimeout, because the error of requestTimeout is more
// specific.
const CallTime = 40 * time.Second

// ask makes one call and ends it after CallTime. The error of an ended call includes the client's
// error, which shows how far the call had come.
func ask[In, Out any](ctx context.Context, call func(context.Context, *In, ...func(*dynamodb.Options)) (*Out, error), in *In) (*Out, error) {
	limited, cancel := task.WithTimeout(ctx, CallTime)
	defer cancel()
	out, err := call(limited, in, Strictly)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("no answer within %s: %w: %w", CallTime, context.Cause(limited), cdc.Brief(err))
	}
	return out, err
}

// API is the part of *dynamodb.Client that Tables uses. The caller must build the client with
// ClientOptions.
type API interface {
	ListTables(context.Context, *dynamodb.ListTablesInput, ...func(*dynamodb.Options)) (*dynamodb.ListTablesOutput, error)
	DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error)
	Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
}

// Tables reads DynamoDB tables. Every call is one attempt, and its errors are *cdc.Error without item data.
type Tables struct{ api API }

// NewTables returns Tables that read through a client built with ClientOptions.
func NewTables(api API) *Tables { return &Tables{api} }

// Describe describes the table. An error with the reason NotFound means that there is no table of
// this name.
func (t *Tables) Describe(ctx context.Context, table string) (Description, error) {
	const op = "DescribeTable"
	out, err := ask(ctx, t.api.DescribeTable, &dynamodb.DescribeTableInput{TableName: &table})
	if err != nil {
		return Description{}, failure(ctx, op, err, false)
	}
	d := out.Table
	if d == nil {
		return Description{}, malformed(op, errors.New("the answer has no table"))
	}
	desc := Description{
		Name: aws.ToString(d.TableName), ARN: aws.ToString(d.TableArn), ID: aws.ToString(d.TableId), Status: string(d.TableStatus),
		StreamARN: aws.ToString(d.LatestStreamArn), StreamLabel: aws.ToString(d.LatestStreamLabel),
		Items: aws.ToInt64(d.ItemCount), Bytes: aws.ToInt64(d.TableSizeBytes), CreatedAt: aws.ToTime(d.CreationDateTime),
		// The service leaves out the summary for a table that was always provisioned.
		BillingMode: string(types.BillingModeProvisioned), At: serverTime(out.ResultMetadata),
	}
	if d.BillingModeSummary != nil && d.BillingModeSummary.BillingMode != "" {
		desc.BillingMode = string(d.BillingModeSummary.BillingMode)
	}
	if d.ProvisionedThroughput != nil {
		desc.ReadCapacity = aws.ToInt64(d.ProvisionedThroughput.ReadCapacityUnits)
	}
	if s := d.StreamSpecification; s != nil && aws.ToBool(s.StreamEnabled) {
		desc.StreamEnabled, desc.ViewType = true, string(s.StreamViewType)
	}
	if d.SSEDescription != nil {
		desc.KeyARN = aws.ToString(d.SSEDescription.KMSMasterKeyArn)
	}
	for _, r := range d.Replicas {
		desc.Replicas = append(desc.Replicas, aws.ToString(r.RegionName))
	}
	slices.Sort(desc.Replicas)
	if desc.PrimaryKey, err = primaryKey(d); err != nil {
		return Description{}, malformed(op, err)
	}
	return desc, nil
}

// ExpiryAPI is the part of *dynamodb.Client that an Expiry uses. The caller must build the client
// with ClientOptions.
type ExpiryAPI interface {
	DescribeTimeToLive(context.Context, *dynamodb.DescribeTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTimeToLiveOutput, error)
}

// Expiry reads the name of the attribute by which the items of a table expire. Only a command that
// writes a configuration needs this name. A migration does not. The calls of an Expiry behave like
// the calls of Tables.
type Expiry struct{ api ExpiryAPI }

// NewExpiry returns an Expiry that reads through a client built with ClientOptions.
func NewExpiry(api ExpiryAPI) *Expiry { return &Expiry{api} }

// Attribute returns the attribute by which the table's items expire; "" if they do not expire.
func (e *Expiry) Attribute(ctx context.Context, table string) (string, error) {
	const op = "DescribeTimeToLive"
	out, err := ask(ctx, e.api.DescribeTimeToLive, &dynamodb.DescribeTimeToLiveInput{TableName: &table})
	if err != nil {
		return "", failure(ctx, op, err, false)
	}
	d := out.TimeToLiveDescription
	if d == nil || d.TimeToLiveStatus != types.TimeToLiveStatusEnabled && d.TimeToLiveStatus != types.TimeToLiveStatusEnabling {
		return "", nil
	}
	return aws.ToString(d.AttributeName), nil
}

func primaryKey(d *types.TableDescription) ([]transform.KeyAttribute, error) {
	var key []transform.KeyAttribute
	for _, role := range []types.KeyType{types.KeyTypeHash, types.KeyTypeRange} {
		for _, k := range d.KeySchema {
			if k.KeyType != role {
				continue
			}
			kind := attribute.KindNone
			for _, a := range d.AttributeDefinitions {
				if aws.ToString(a.AttributeName) == aws.ToString(k.AttributeName) {
					kind = map[types.ScalarAttributeType]attribute.Kind{"S": attribute.KindS, "N": attribute.KindN, "B": attribute.KindB}[a.AttributeType]
				}
			}
			if kind == attribute.KindNone {
				return nil, fmt.Errorf("key attribute %q has no known type", aws.ToString(k.AttributeName))
			}
			key = append(key, transform.KeyAttribute{Name: aws.ToString(k.AttributeName), Type: kind})
		}
	}
	if len(key) == 0 || len(key) != len(d.KeySchema) {
		return nil, fmt.Errorf("a key schema of %d attributes, %d of them understood", len(d.KeySchema), len(key))
	}
	return key, nil
}

// List returns the names of all tables of the account in the region, sorted by the service. It
// sends one request for every hundred tables. Source:
// https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_ListTables.html
func (t *Tables) List(ctx context.Context) ([]string, error) {
	const op = "ListTables"
	var names []string
	in := &dynamodb.ListTablesInput{}
	for {
		out, err := ask(ctx, t.api.ListTables, in)
		if err != nil {
			return nil, failure(ctx, op, err, false)
		}
		names = append(names, out.TableNames...)
		switch next := aws.ToString(out.LastEvaluatedTableName); {
		case next == "" && out.TableNames == nil:
			return nil, malformed(op, errors.New("the answer has no list of tables"))
		case next == "":
			return names, nil
		case next == aws.ToString(in.ExclusiveStartTableName):
			return nil, malformed(op, errors.New("the list does not continue"))
		default:
			in.ExclusiveStartTableName = &next
		}
	}
}

// Scan reads one page of a segment. The page begins after the given key, or at the segment's
// beginning if the key does not exist. A limit of zero means the service's limit of 1 MB. The read
// is strongly consistent (B4).
func (t *Tables) Scan(ctx context.Context, table string, segment, total int, after attribute.Item, limit int) (ScanPage, error) {
	const op = "Scan"
	in := &dynamodb.ScanInput{
		TableName: &table, ConsistentRead: aws.Bool(true),
		Segment: aws.Int32(int32(segment)), TotalSegments: aws.Int32(int32(total)),
		ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
	}
	if limit > 0 {
		in.Limit = aws.Int32(int32(limit))
	}
	var err error
	if in.ExclusiveStartKey, err = keyAttributes(after); err != nil {
		return ScanPage{}, malformed(op, err)
	}
	var decoded decodedScan
	out, err := ask(context.WithValue(ctx, decodedScanKey{}, &decoded), t.api.Scan, in)
	if err != nil {
		return ScanPage{}, failure(ctx, op, err, after.Exists())
	}
	if decoded.done {
		decoded.At = serverTime(out.ResultMetadata)
		return decoded.ScanPage, nil
	}
	return scanPageOf(out)
}

// scanPageOf converts an answer that the client decoded.
func scanPageOf(out *dynamodb.ScanOutput) (ScanPage, error) {
	const op = "Scan"
	if out.Items == nil || int(out.Count) != len(out.Items) {
		// A missing key marks the end of a segment. An answer without any field, such as a proxy's
		// {}, is no such mark.
		return ScanPage{}, malformed(op, fmt.Errorf("an answer of %d items with Count %d", len(out.Items), out.Count))
	}
	page := ScanPage{Items: make([]attribute.Item, 0, len(out.Items)), At: serverTime(out.ResultMetadata)}
	if out.ConsumedCapacity != nil {
		page.Consumed = aws.ToFloat64(out.ConsumedCapacity.CapacityUnits)
	}
	for _, attributes := range out.Items {
		item, err := ConvertItem(attributes)
		if err == nil && !item.Exists() {
			err = errors.New("an item without attributes")
		}
		if err != nil {
			return ScanPage{}, malformed(op, err)
		}
		page.Items = append(page.Items, item)
	}
	var err error
	if page.Next, err = ConvertItem(out.LastEvaluatedKey); err != nil {
		return ScanPage{}, malformed(op, err)
	}
	return page, nil
}

// Get reads one item by its key; false if there is none. The read is strongly consistent.
func (t *Tables) Get(ctx context.Context, table string, key attribute.Item) (attribute.Item, bool, error) {
	const op = "GetItem"
	attributes, err := keyAttributes(key)
	if err != nil {
		return attribute.Item{}, false, malformed(op, err)
	}
	in := &dynamodb.GetItemInput{TableName: &table, Key: attributes, ConsistentRead: aws.Bool(true)}
	out, err := ask(ctx, t.api.GetItem, in)
	if err != nil {
		return attribute.Item{}, false, failure(ctx, op, err, true)
	}
	item, err := ConvertItem(out.Item)
	if err != nil {
		return attribute.Item{}, false, malformed(op, err)
	}
	return item, item.Exists(), nil
}

func serverTime(metadata middleware.Metadata) time.Time {
	at, _ := awsmiddleware.GetServerTime(metadata)
	return at
}

// keyAttributes converts a key for the SDK; nil if it does not exist.
func keyAttributes(key attribute.Item) (map[string]types.AttributeValue, error) {
	if !key.Exists() {
		return nil, nil
	}
	attributes := make(map[string]types.AttributeValue, len(key.Attributes()))
	for _, a := range key.Attributes() {
		switch a.Value.Kind() {
		case attribute.KindS:
			attributes[a.Name] = &types.AttributeValueMemberS{Value: a.Value.Text()}
		case attribute.KindN:
			attributes[a.Name] = &types.AttributeValueMemberN{Value: a.Value.Text()}
		case attribute.KindB:
			attributes[a.Name] = &types.AttributeValueMemberB{Value: []byte(a.Value.Text())}
		default:
			return nil, fmt.Errorf("attribute %q of type %s cannot be part of a key", a.Name, a.Value.Kind())
		}
	}
	return attributes, nil
}

// The conversion of values rejects the same values as the conversion of stream records. A value
// that DynamoDB cannot hold does not come from DynamoDB. In the target it would differ from the
// stream's value.

// ConvertItem converts an item of the SDK. Its error names the attribute that it cannot convert.
// Names inside values are data, so the error does not contain them.
func ConvertItem(attributes map[string]types.AttributeValue) (attribute.Item, error) {
	members, culprit, err := convertMembers(attributes)
	if err != nil {
		return attribute.Item{}, fmt.Errorf("attribute %q: %w", culprit, err)
	}
	return attribute.NewItem(members), nil
}

// convertMembers collects a map; NewItem and Map sort the result, so the map's random order does
// not matter.
func convertMembers(attributes map[string]types.AttributeValue) (members []attribute.Attribute, culprit string, err error) {
	members = make([]attribute.Attribute, 0, len(attributes))
	for name, a := range attributes {
		v, err := convertValue(a)
		if err == nil {
			err = attribute.CheckText(name)
		}
		if err != nil {
			return nil, name, err
		}
		members = append(members, attribute.Attribute{Name: name, Value: v})
	}
	return members, "", nil
}

// convertValue converts a value of the SDK. A type other than the ten known ones is an error.
// Without the error, the attribute would be lost silently.
func convertValue(a types.AttributeValue) (v attribute.Value, err error) {
	switch a := a.(type) {
	case *types.AttributeValueMemberS:
		return attribute.String(a.Value), attribute.CheckText(a.Value)
	case *types.AttributeValueMemberN:
		return attribute.Number(a.Value)
	case *types.AttributeValueMemberB:
		return attribute.Binary(a.Value), nil
	case *types.AttributeValueMemberBOOL:
		return attribute.Bool(a.Value), nil
	case *types.AttributeValueMemberNULL:
		if !a.Value {
			return attribute.Value{}, errors.New("a NULL that is not true")
		}
		return attribute.Null(), nil
	case *types.AttributeValueMemberM:
		members, _, err := convertMembers(a.Value)
		if err != nil {
			return attribute.Value{}, err
		}
		return attribute.Map(members), nil
	case *types.AttributeValueMemberL:
		elements := make([]attribute.Value, len(a.Value))
		for i, e := range a.Value {
			if elements[i], err = convertValue(e); err != nil {
				return attribute.Value{}, fmt.Errorf("element %d: %w", i, err)
			}
		}
		return attribute.List(elements), nil
	}
	return convertSet(a)
}

func convertSet(a types.AttributeValue) (v attribute.Value, err error) {
	switch a := a.(type) {
	case *types.AttributeValueMemberSS:
		for _, member := range a.Value {
			if err := attribute.CheckText(member); err != nil {
				return attribute.Value{}, err
			}
		}
		v = attribute.StringSet(a.Value)
	case *types.AttributeValueMemberNS:
		v, err = attribute.NumberSet(a.Value)
	case *types.AttributeValueMemberBS:
		v = attribute.BinarySet(a.Value)
	default:
		err = errUnknownType
	}
	if err == nil {
		err = attribute.CheckSet(v)
	}
	return v, err
}

var errUnknownType = errors.New("a value of a type that is not known")

func malformed(op string, err error) error {
	return &cdc.Error{Op: op, Reason: cdc.Malformed, Err: err}
}

// failure turns the error of a failed request into a *cdc.Error. The argument `keyed` reports that
// the request contained an item's key. A ValidationException may quote such a key.
func failure(ctx context.Context, op string, err error, keyed bool) error {
	fail := func(reason cdc.Reason, err error) error { return &cdc.Error{Op: op, Reason: reason, Err: err} }
	if ctx.Err() != nil {
		return fail(cdc.Unavailable, context.Cause(ctx))
	}
	for e, call := err, (*smithy.OperationError)(nil); errors.As(e, &call); e = call.Err {
		if call.ServiceID != dynamodb.ServiceID {
			return fail(cdc.Denied, cdc.Brief(err)) // another service, for example STS, did not return credentials
		}
	}
	status := 0
	var answered *smithyhttp.ResponseError
	if errors.As(err, &answered) {
		status = answered.HTTPStatusCode()
	}
	var answer smithy.APIError
	if errors.As(err, &answer) {
		reason := cdc.ReasonOf(answer.ErrorCode(), status)
		if reason == cdc.Malformed && keyed {
			return fail(reason, fmt.Errorf("%s; its text is withheld because it may quote the item's key", answer.ErrorCode()))
		}
		return fail(reason, cdc.Brief(err))
	}
	if errors.Is(err, errUnknownType) {
		return fail(cdc.Malformed, errUnknownType)
	}
	var network net.Error
	if errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, cdc.ErrChecksum) {
		return fail(cdc.Unavailable, cdc.Brief(err))
	}
	if answered != nil && status/100 != 2 {
		// The error is not in the service's form: a proxy has answered.
		return fail(cdc.ReasonOf("", status), cdc.Brief(err))
	}
	var undecoded *smithy.DeserializationError
	if errors.As(err, &undecoded) {
		return fail(cdc.Malformed, errors.New("the answer cannot be decoded")) // the SDK's text may quote the answer
	}
	var unsent *smithyhttp.RequestSendError
	if errors.As(err, &unsent) || answered != nil {
		return fail(cdc.Unavailable, cdc.Brief(err))
	}
	return fail(cdc.Denied, cdc.Brief(err)) // the request was not sent: no credentials, no region or no endpoint
}

// connections is how many connections are kept open, one for each part. With fewer, most parts
// would connect again for each page.
const connections = 64

// ClientOptions configures a client for Tables: dynamodb.NewFromConfig(cfg,
// backfill.ClientOptions). It bounds the time of a request and keeps enough connections, in
// addition to the options that Tables sets for every call (Strictly).
func ClientOptions(o *dynamodb.Options) {
	if client, ok := o.HTTPClient.(*awshttp.BuildableClient); ok {
		o.HTTPClient = client.WithTimeout(requestTimeout).WithTransportOptions(func(t *http.Transport) {
			t.MaxIdleConnsPerHost = connections
			t.MaxIdleConns = 2 * connections
		})
	}
	Strictly(o)
}

// Strictly sets the options that every call needs, regardless of how its client was built. A call
// makes one attempt, because the pipeline retries calls. Further attempts of the client would
// multiply these retries. A call uses no compression, because decompression costs more CPU time
// than it saves network time. A value of an unknown type is an error.
func Strictly(o *dynamodb.Options) {
	if _, ok := o.Protocol.(strictProtocol); ok {
		return
	}
	o.Retryer = aws.NopRetryer{}
	o.RetryMaxAttempts = 1
	o.EnableAcceptEncodingGzip = false
	o.Protocol = strictProtocol{o.Protocol}
	o.HTTPClient = plainBody{o.HTTPClient}
}

// plainBody hides the WriteTo method of request bodies. With that method, smithy-go 1.28.7 may
// close the body while net/http still writes it. This happens if the server answers early. The
// connection is then dropped together with a good answer.
type plainBody struct{ client dynamodb.HTTPClient }

func (c plainBody) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return c.client.Do(r)
}

// strictProtocol makes an attribute of unknown type an error. The SDK (dynamodb 1.72.3,
// types.deserializeAttributeMap and deserializeListAttributeValue) decodes all values of a map or
// list through one variable. A value of unknown type leaves this variable unchanged. So the
// attribute would silently get the value of the previous attribute.
type strictProtocol struct{ smithyhttp.ClientProtocol }

func (p strictProtocol) DeserializeResponse(
	ctx context.Context, op *smithy.OperationSchema, registry *smithy.TypeRegistry, r *smithyhttp.Response, out smithy.Deserializable,
) error {
	r.Body = cdc.Checked(r.Response)
	if decodingOf(ctx).decode(r) {
		return nil
	}
	return p.ClientProtocol.DeserializeResponse(ctx, op, registry, r, strictOutput{out})
}
