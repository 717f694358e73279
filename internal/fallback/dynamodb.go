package fallback

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/dualwrite"
	"github.com/dynamodb-bigtable/replicator/internal/awssign"
)

// DynamoDB reads and writes the items of source tables. It implements Items. Its client signs each
// request with a time that the caller chooses: the SDK would sign with the time of each attempt.
type DynamoDB struct {
	client *dynamodb.Client
	tables *backfill.Tables
}

// NewDynamoDB makes a DynamoDB from a client that was built with backfill.ClientOptions.
func NewDynamoDB(client *dynamodb.Client) *DynamoDB {
	own := awssign.Client(client)
	return &DynamoDB{client: own, tables: backfill.NewTables(own)}
}

// Item implements Items.
func (d *DynamoDB) Item(ctx context.Context, table string, key attribute.Item) (attribute.Item, bool, error) {
	return d.tables.Get(ctx, table, key)
}

// Accepts reports whether DynamoDB accepts a read of a table with a signature of the given time.
func (d *DynamoDB) Accepts(ctx context.Context, table string, signed time.Time) (bool, error) {
	_, err := d.client.DescribeTable(awssign.At(ctx, signed), &dynamodb.DescribeTableInput{TableName: &table})
	if awssign.TooOld(err) {
		return false, nil
	}
	return err == nil, err
}

// Denied returns the actions of a leader that the policies of AWS deny to this process. Its requests
// have a condition that no item meets, so they change nothing, whatever the key is.
func (d *DynamoDB) Denied(ctx context.Context, table string, key attribute.Item) (denied []string, err error) {
	never, name := "attribute_exists(#k) AND attribute_not_exists(#k)", map[string]string{"#k": key.Attributes()[0].Name}
	update := "SET #a = :v"
	for action, ask := range map[string]func() error{
		"dynamodb:UpdateItem": func() error {
			_, err := d.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
				TableName: &table, Key: dualwrite.SDKItem(key), UpdateExpression: &update, ConditionExpression: &never,
				ExpressionAttributeNames:  map[string]string{"#k": name["#k"], "#a": "replicator"},
				ExpressionAttributeValues: map[string]types.AttributeValue{":v": dualwrite.SDKValue(attribute.Null())},
			})
			return err
		},
		"dynamodb:DeleteItem": func() error {
			_, err := d.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &table, Key: dualwrite.SDKItem(key), ConditionExpression: &never, ExpressionAttributeNames: name})
			return err
		},
		"dynamodb:GetItem": func() error {
			_, _, err := d.tables.Get(ctx, table, key)
			return err
		},
	} {
		var failed *types.ConditionalCheckFailedException
		var known *cdc.Error
		switch err := ask(); {
		case err == nil || errors.As(err, &failed):
		case errors.As(err, &known) && known.Reason == cdc.Denied || isDenied(err):
			denied = append(denied, action)
		default:
			return nil, fmt.Errorf("%s: %w", action, err)
		}
	}
	slices.Sort(denied)
	return denied, nil
}

// isDenied reports whether an error is the answer of AWS that a policy does not allow a request.
func isDenied(err error) bool {
	code, _ := awssign.Rejected(err)
	return code == "AccessDeniedException"
}

// mostChanges is the number of attributes that one request changes. DynamoDB limits the length of
// an expression. Further attributes are changed by the next look.
const mostChanges = 60

// Write implements Items.
func (d *DynamoDB) Write(ctx context.Context, table string, w Write, signed time.Time) Answer {
	ctx = awssign.At(ctx, signed)
	e := expressionOf(w)
	var err error
	if w.Delete {
		_, err = d.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
			TableName: &table, Key: dualwrite.SDKItem(w.Key),
			ConditionExpression: &e.condition, ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values,
		})
	} else {
		_, err = d.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: &table, Key: dualwrite.SDKItem(w.Key), UpdateExpression: e.update,
			ConditionExpression: &e.condition, ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values,
		})
	}
	answer := answerOf(err)
	if answer.Outcome == Done && e.more {
		answer.Outcome = Changed
	}
	return answer
}

// expression is a write in DynamoDB's words.
type expression struct {
	update    *string
	condition string
	names     map[string]string
	values    map[string]types.AttributeValue
	more      bool // attributes were left out
}

// expressionOf returns a write on the condition that what it changes is as it was read. A removal
// of an item depends on its attributes, too.
func expressionOf(w Write) expression {
	e := expression{names: map[string]string{}, values: map[string]types.AttributeValue{}}
	var sets, removes, conditions []string
	name := func(attribute string) string {
		short := fmt.Sprintf("#%d", len(e.names))
		e.names[short] = attribute
		return short
	}
	value := func(v attribute.Value) string {
		short := fmt.Sprintf(":%d", len(e.values))
		e.values[short] = dualwrite.SDKValue(v)
		return short
	}
	asRead := func(short, attribute string) {
		if had, ok := w.Had.Get(attribute); ok {
			conditions = append(conditions, short+" = "+value(had))
		} else {
			conditions = append(conditions, "attribute_not_exists("+short+")")
		}
	}
	if !w.Existed {
		key := name(w.Key.Attributes()[0].Name)
		conditions = append(conditions, "attribute_not_exists("+key+")")
	}
	for _, a := range w.Set {
		if e.more = len(e.names) >= mostChanges; e.more {
			break
		}
		short := name(a.Name)
		sets = append(sets, short+" = "+value(a.Value))
		if w.Existed {
			asRead(short, a.Name)
		}
	}
	for _, attribute := range w.Remove {
		if e.more = e.more || len(e.names) >= mostChanges; e.more {
			break
		}
		short := name(attribute)
		removes = append(removes, short)
		asRead(short, attribute)
	}
	if w.Delete {
		for _, a := range w.Had.Attributes() {
			if len(e.names) < mostChanges {
				asRead(name(a.Name), a.Name)
			}
		}
	}
	e.condition = strings.Join(conditions, " AND ")
	var parts []string
	if len(sets) > 0 {
		parts = append(parts, "SET "+strings.Join(sets, ", "))
	}
	if len(removes) > 0 {
		parts = append(parts, "REMOVE "+strings.Join(removes, ", "))
	}
	if update := strings.Join(parts, " "); update != "" {
		e.update = &update
	}
	if len(e.values) == 0 {
		e.values = nil
	}
	return e
}

// unfittingCodes are the codes of an answer to a request that DynamoDB never accepts.
var unfittingCodes = []string{"ValidationException", "ItemCollectionSizeLimitExceededException", "SerializationException"}

// answerOf returns what an error says about a write.
func answerOf(err error) Answer {
	code, rejected := awssign.Rejected(err)
	var failed *types.ConditionalCheckFailedException
	switch {
	case err == nil:
		return Answer{Outcome: Done}
	case errors.As(err, &failed):
		return Answer{Outcome: Changed}
	case !rejected:
		return Answer{Outcome: Unknown}
	case awssign.TooOld(err):
		return Answer{Outcome: Expired}
	case slices.Contains(unfittingCodes, code):
		return Answer{Outcome: Unfitting, Reason: "DynamoDB does not accept the item: " + code}
	default:
		return Answer{Outcome: Refused}
	}
}
