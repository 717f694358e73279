package processes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

type (
	value = types.AttributeValue
	item  = map[string]types.AttributeValue
)

// Only the names: the services are on loopback.
const (
	region   = "us-east-1"
	project  = "processes"
	instance = "processes"
)

// mark is part of every text and text key that is written here, so that the workers' logs can be
// searched for item data.
const mark = "zq7mark"

// table is a source table: its keys and its rows.
type table struct {
	name string
	// schema is the primary key: the partition key, and a sort key if there is one.
	schema []keyAttribute
	// key returns the primary key of the n-th item.
	key func(n int) item
	// row returns the row key of an item, computed from the published rule.
	row func(it item) string
}

type keyAttribute struct {
	name string
	kind types.ScalarAttributeType
}

// escape returns a text as it appears in a row key of several parts.
func escape(text string) string { return strings.NewReplacer("%", "%25", "#", "%23").Replace(text) }

// tables have different key schemas, and keys with characters that row keys must escape.
var tables = []*table{
	{
		name:   "Parcels",
		schema: []keyAttribute{{"depot", types.ScalarAttributeTypeS}, {"parcel", types.ScalarAttributeTypeN}},
		key: func(n int) item {
			const depots = 60
			return item{
				"depot":  &types.AttributeValueMemberS{Value: fmt.Sprintf("%s#%02d%%23é", mark, n%depots)},
				"parcel": &types.AttributeValueMemberN{Value: fmt.Sprintf("%d.250", n/depots-5)},
			}
		},
		row: func(it item) string {
			return escape(it["depot"].(*types.AttributeValueMemberS).Value) + "#" + canonical(it["parcel"].(*types.AttributeValueMemberN).Value)
		},
	},
	{
		name:   "Meters",
		schema: []keyAttribute{{"serial", types.ScalarAttributeTypeB}},
		key: func(n int) item {
			return item{"serial": &types.AttributeValueMemberB{Value: []byte{0xff, '#', 0, byte(n >> 8), '%', byte(n), 0}[:6+n%2]}}
		},
		row: func(it item) string { return string(it["serial"].(*types.AttributeValueMemberB).Value) },
	},
}

// create creates the table with its first items and enables its stream afterwards. So these items
// are not in the stream and must be copied.
func (t *table) create(ctx context.Context, client *dynamodb.Client, items []item) error {
	in := &dynamodb.CreateTableInput{TableName: &t.name, BillingMode: types.BillingModePayPerRequest}
	for i, k := range t.schema {
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: aws.String(k.name), AttributeType: k.kind})
		in.KeySchema = append(in.KeySchema, types.KeySchemaElement{
			AttributeName: aws.String(k.name), KeyType: []types.KeyType{types.KeyTypeHash, types.KeyTypeRange}[i],
		})
	}
	if _, err := client.CreateTable(ctx, in); err != nil {
		return fmt.Errorf("create table %s: %w", t.name, err)
	}
	// batch is the most items that BatchWriteItem accepts. Source:
	// https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchWriteItem.html
	const batch = 25
	for len(items) > 0 {
		var requests []types.WriteRequest
		n := min(batch, len(items))
		for _, it := range items[:n] {
			requests = append(requests, types.WriteRequest{PutRequest: &types.PutRequest{Item: it}})
		}
		out, err := client.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{t.name: requests}})
		if err != nil {
			return fmt.Errorf("fill table %s: %w", t.name, err)
		}
		if left := len(out.UnprocessedItems[t.name]); left > 0 {
			return fmt.Errorf("fill table %s: the embedded service left %d items out", t.name, left)
		}
		items = items[n:]
	}
	_, err := client.UpdateTable(ctx, &dynamodb.UpdateTableInput{TableName: &t.name, StreamSpecification: &types.StreamSpecification{
		StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages,
	}})
	if err != nil {
		return fmt.Errorf("enable the stream of table %s: %w", t.name, err)
	}
	return nil
}

// attributes lists the names of attributes besides the keys. An attribute's type changes from write
// to write.
var attributes = []string{"note", "a.b", "größe", "#", "total%", "Data", "DATA", "0", "quoted\"name", strings.Repeat("long", 10)}

// newItem returns the n-th item with about two thirds of the attributes, sometimes with only its
// key.
func (t *table) newItem(r *rand.Rand, n int) item {
	it := t.key(n)
	if r.IntN(15) == 0 {
		return it
	}
	for _, name := range attributes {
		if r.IntN(3) > 0 {
			it[name] = newValue(r, 3)
		}
	}
	return it
}

// newValue returns a random value of any of the ten types, nested up to a depth.
func newValue(r *rand.Rand, depth int) value {
	n := 10
	if depth == 0 {
		n = 8 // neither list nor map
	}
	switch r.IntN(n) {
	case 0:
		return newText(r)
	case 1:
		return &types.AttributeValueMemberN{Value: newNumber(r)}
	case 2:
		return &types.AttributeValueMemberB{Value: newBytes(r, r.IntN(30))}
	case 3:
		return &types.AttributeValueMemberBOOL{Value: r.IntN(2) == 0}
	case 4:
		return &types.AttributeValueMemberNULL{Value: true}
	case 5:
		return &types.AttributeValueMemberSS{Value: distinct(r, func() string { return fmt.Sprintf("%s %d é", mark, r.IntN(40)) })}
	case 6:
		return &types.AttributeValueMemberNS{Value: distinct(r, func() string { return fmt.Sprintf("%d.%d", r.IntN(60)-30, 1+r.IntN(8)) })}
	case 7:
		set := [][]byte{}
		for _, s := range distinct(r, func() string { return string(newBytes(r, 1+r.IntN(3))) }) {
			set = append(set, []byte(s))
		}
		return &types.AttributeValueMemberBS{Value: set}
	case 8:
		list := []value{}
		for range r.IntN(4) {
			list = append(list, newValue(r, depth-1))
		}
		return &types.AttributeValueMemberL{Value: list}
	default:
		members := item{}
		for range r.IntN(4) {
			members[attributes[r.IntN(len(attributes))]] = newValue(r, depth-1)
		}
		return &types.AttributeValueMemberM{Value: members}
	}
}

// newText returns a text that is mostly short, sometimes empty, and occasionally so large that a
// few fill a page of 1 MB.
func newText(r *rand.Rand) value {
	text := fmt.Sprintf("%s \"%d\" <é帽🎩> \\ \t\n\x01", mark, r.IntN(1_000_000))
	switch n := r.IntN(200); {
	case n < 10:
		text = ""
	case n == 10:
		text = strings.Repeat(text, 2000)
	}
	return &types.AttributeValueMemberS{Value: text}
}

// newNumber uses all forms in which a number may be written. DynamoDB keeps 38 digits.
func newNumber(r *rand.Rand) string {
	return []string{
		"0", "-0", fmt.Sprint(r.IntN(1_000_000)), fmt.Sprintf("-%d.%02d", r.IntN(1000), r.IntN(100)), fmt.Sprintf("%d.500", r.IntN(1000)),
		fmt.Sprintf("%de40", 1+r.IntN(90)), fmt.Sprintf("%dE-30", 1+r.IntN(90)), fmt.Sprintf("+00%d", r.IntN(100)),
		fmt.Sprintf("12345678901234567890123456789012345%03d", r.IntN(1000)),
	}[r.IntN(9)]
}

func newBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// distinct draws one to four different members.
func distinct(r *rand.Rand, draw func() string) []string {
	var out []string
	seen := map[string]bool{}
	for range 1 + r.IntN(4) {
		if s := draw(); !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}
