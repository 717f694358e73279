package tablepolicy

import (
	"context"
	"errors"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/internal/awssign"
)

// KeyAttribute is an attribute of a table's primary key.
type KeyAttribute struct {
	Name string
	Type types.ScalarAttributeType
}

// KeyOf returns the primary key of a table.
func KeyOf(d backfill.Description) (key []KeyAttribute) {
	for _, k := range d.PrimaryKey {
		key = append(key, KeyAttribute{k.Name, types.ScalarAttributeType(k.Type.String())})
	}
	return key
}

// Probes writes a table as the second role. It implements Prober. Its writes have a condition that
// can never hold. DynamoDB authorizes a request before it reads the item. So an answer that the
// condition failed means that the write was let through.
type Probes struct {
	client *dynamodb.Client
	table  string
	item   map[string]types.AttributeValue
	names  map[string]string
}

// impossible is the condition of the writes.
const impossible = "attribute_exists(#k) AND attribute_not_exists(#k)"

// NewProbes makes Probes of a table with the given primary key. The client has the credentials of
// the second role, and shares its HTTP client with no other.
func NewProbes(client *dynamodb.Client, table string, key []KeyAttribute) *Probes {
	p := &Probes{table: table, item: map[string]types.AttributeValue{}, names: map[string]string{"#k": key[0].Name}}
	for _, k := range key {
		p.item[k.Name] = probeValue(k.Type)
	}
	p.client = dynamodb.New(client.Options(), func(o *dynamodb.Options) {
		o.HTTPClient = closing{o.HTTPClient}
		backfill.Strictly(o)
	})
	return p
}

// probeValue returns a value for an attribute of a key.
func probeValue(t types.ScalarAttributeType) types.AttributeValue {
	switch t {
	case types.ScalarAttributeTypeN:
		return &types.AttributeValueMemberN{Value: "0"}
	case types.ScalarAttributeTypeB:
		return &types.AttributeValueMemberB{Value: []byte("replicator-probe")}
	}
	return &types.AttributeValueMemberS{Value: "replicator-probe"}
}

// closing closes the connection after each request, so that the next one has a new connection.
// DynamoDB may authorize the requests of an old connection by an older policy.
type closing struct{ client dynamodb.HTTPClient }

func (c closing) Do(r *http.Request) (*http.Response, error) {
	r.Close = true
	return c.client.Do(r)
}

// Put implements Prober.
func (p *Probes) Put(ctx context.Context) Seen {
	_, err := p.client.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: &p.table, Item: p.item, ConditionExpression: aws.String(impossible), ExpressionAttributeNames: p.names,
	})
	return seenOf(err)
}

// Transact implements Prober.
func (p *Probes) Transact(ctx context.Context) Seen {
	_, err := p.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{{Put: &types.Put{
		TableName: &p.table, Item: p.item, ConditionExpression: aws.String(impossible), ExpressionAttributeNames: p.names,
	}}}})
	return seenOf(err)
}

// seenOf returns what the answer to a probe says about the policy.
func seenOf(err error) Seen {
	var failed *types.ConditionalCheckFailedException
	var canceled *types.TransactionCanceledException
	code, rejected := awssign.Rejected(err)
	switch {
	case err == nil, errors.As(err, &failed):
		return LetThrough
	case errors.As(err, &canceled):
		if len(canceled.CancellationReasons) == 1 && aws.ToString(canceled.CancellationReasons[0].Code) == "ConditionalCheckFailed" {
			return LetThrough
		}
	case rejected && code == "AccessDeniedException":
		return Denied
	}
	return Unseen
}
