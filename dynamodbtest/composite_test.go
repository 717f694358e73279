package dynamodbtest_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
)

// schemaOf parses a key schema such as "a b / c d": partition key attributes and, after the slash,
// those of the sort key.
func schemaOf(text string) (elements []types.KeySchemaElement) {
	kind := types.KeyTypeHash
	for _, name := range strings.Fields(text) {
		if name == "/" {
			kind = types.KeyTypeRange
			continue
		}
		elements = append(elements, types.KeySchemaElement{AttributeName: aws.String(name), KeyType: kind})
	}
	return elements
}

// createComposite creates the table Orders with the key pk and a global index with the key schema.
func (f *fixture) createComposite(index string, definitions ...string) error {
	_, err := f.db.CreateTable(f.ctx, &dynamodb.CreateTableInput{
		TableName: aws.String("Orders"), BillingMode: types.BillingModePayPerRequest, KeySchema: keys("pk"),
		AttributeDefinitions:   defined(append([]string{"pk", "S"}, definitions...)...),
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{IndexName: aws.String("byParts"), KeySchema: schemaOf(index), Projection: &types.Projection{ProjectionType: "KEYS_ONLY"}}},
	})
	return err
}

func part(pk, tenant, region, day, seq string) attrs {
	return attrs{"pk": str(pk), "tenant": str(tenant), "region": str(region), "day": str(day), "seq": num(seq), "note": str("x")}
}

// The keys of a global index may have several attributes.
func TestIndexOfSeveralAttributes(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.noError(f.createComposite("tenant region / day seq", "tenant", "S", "region", "S", "day", "S", "seq", "N"))
	if got := f.describe("Orders").GlobalSecondaryIndexes[0].KeySchema; len(got) != 4 || *got[1].AttributeName != "region" || got[1].KeyType != "HASH" || *got[3].AttributeName != "seq" || got[3].KeyType != "RANGE" {
		t.Errorf("it is described as %v", got)
	}
	// Partition keys whose texts would be equal after joining are two partitions.
	for _, it := range []attrs{
		part("1", "t", "eu", "mon", "10"), part("2", "t", "eu", "mon", "9"), part("3", "t", "eu", "tue", "1"), part("4", "te", "u", "mon", "1"),
		{"pk": str("5"), "tenant": str("t"), "region": str("eu"), "day": str("mon")}, // without seq it is not in the index
	} {
		f.put("Orders", it)
	}
	query := func(condition, more string) string {
		return `"TableName":"Orders","IndexName":"byParts","KeyConditionExpression":"tenant = :t AND #r = :r` + condition + `","ExpressionAttributeNames":{"#r":"region","#d":"day"},` +
			`"ExpressionAttributeValues":{":t":{"S":"t"},":r":{"S":"eu"},":d":{"S":"mon"},":n":{"N":"9"}}` + more
	}
	for condition, want := range map[string][]string{
		" AND #d = :d":              {"2", "1"},
		" AND #d >= :d":             {"2", "1", "3"},
		" AND #d = :d AND seq > :n": {"1"},
		" AND seq = :n AND #d = :d": {"2"},
	} {
		text := query(condition, "")
		if !strings.Contains(condition, ":n") {
			text = strings.Replace(text, `,":n":{"N":"9"}`, "", 1)
		}
		if got := f.keysOf(f.noErrorOf("Query", text)); got != strings.Join(want, " ") {
			t.Errorf("%s gives %s, want %v", condition, got, want)
		}
	}
	// Backward, page by page; the last key has the attributes of the index and of the table.
	first := f.noErrorOf("Query", strings.Replace(query(" AND #d >= :d", `,"Limit":2,"ScanIndexForward":false`), `,":n":{"N":"9"}`, "", 1))
	if f.keysOf(first) != "3 1" || !strings.Contains(first, `"LastEvaluatedKey":{"day":{"S":"mon"},"pk":{"S":"1"},"region":{"S":"eu"},"seq":{"N":"10"},"tenant":{"S":"t"}}`) {
		t.Error(first)
	}
	last := strings.TrimSuffix(first[strings.Index(first, `"LastEvaluatedKey":`)+len(`"LastEvaluatedKey":`):], "}")
	rest := f.noErrorOf("Query", strings.Replace(query(" AND #d >= :d", `,"ScanIndexForward":false,"ExclusiveStartKey":`+last), `,":n":{"N":"9"}`, "", 1))
	if f.keysOf(rest) != "2" {
		t.Error(rest)
	}
	scanned := f.noErrorOf("Scan", `"TableName":"Orders","IndexName":"byParts"`)
	if !strings.Contains(scanned, `"Count":4`) {
		t.Error(scanned)
	}
	for body, want := range map[string]string{
		query(" AND seq = :n", ""):             "Query condition missed key schema element: day",
		query(" AND #d > :d AND seq = :n", ""): "Query key condition not supported",
		`"TableName":"Orders","IndexName":"byParts","KeyConditionExpression":"tenant = :t","ExpressionAttributeValues":{":t":{"S":"t"}}`: "Query condition missed key schema element: region",
		query(" AND #d = :d", `,"FilterExpression":"seq = :n"`):                                                                          "Filter Expression can only contain non-primary key attributes: Primary key attribute: seq",
	} {
		if _, answer := f.post("DynamoDB_20120810.Query", "{"+body+"}"); !strings.Contains(answer, want) {
			t.Errorf("%s gives %s, want %s", body, answer, want)
		}
	}
	_, err := f.db.PutItem(f.ctx, &dynamodb.PutItemInput{TableName: aws.String("Orders"), Item: attrs{"pk": str("6"), "region": num("1")}})
	f.wantCode(err, "ValidationException")
	_, err = f.db.PutItem(f.ctx, &dynamodb.PutItemInput{TableName: aws.String("Orders"), Item: part("6", strings.Repeat("t", 1500), strings.Repeat("r", 600), "mon", "1")})
	f.wantCode(err, "ValidationException") // together too long for a partition key
}

// keysOf returns the keys of a page's items, in order.
func (f *fixture) keysOf(page string) string {
	var found []string
	for _, rest := range strings.Split(page[:strings.Index(page, `"Count"`)], `"pk":{"S":"`)[1:] {
		found = append(found, rest[:strings.IndexByte(rest, '"')])
	}
	return strings.Join(found, " ")
}

// An index of several attributes that is added later holds the existing items.
func TestIndexOfSeveralAttributesIsFilled(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "", "")
	f.put("Orders", part("1", "t", "eu", "mon", "1"))
	_, err := f.db.UpdateTable(f.ctx, &dynamodb.UpdateTableInput{
		TableName: aws.String("Orders"), AttributeDefinitions: defined("tenant", "S", "region", "S"),
		GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{{Create: &types.CreateGlobalSecondaryIndexAction{
			IndexName: aws.String("byParts"), KeySchema: schemaOf("tenant region"), Projection: &types.Projection{ProjectionType: "ALL"},
		}}},
	})
	f.noError(err)
	out := f.query(dynamodb.QueryInput{IndexName: aws.String("byParts"), KeyConditions: map[string]types.Condition{"tenant": test("EQ", str("t")), "region": test("EQ", str("eu"))}})
	if out.Count != 1 {
		t.Errorf("it holds %d", out.Count)
	}
}

func TestKeySchemasOfSeveralAttributesRefused(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	all := []string{"a", "S", "b", "S", "c", "S", "d", "S", "e", "S"}
	for schema, want := range map[string]string{
		"a b c d e":     "at most 4 attributes of each key type: HASH: 5, RANGE: 0",
		"a / b c d e f": "defined in AttributeDefinitions",
		"/ a b":         "not a HASH key type",
		"a a":           "KeySchema",
		"a b / a":       "Duplicate attribute in the key schema: a",
		"a z":           "not defined in AttributeDefinitions",
	} {
		if err := f.createComposite(schema, all...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gives %v, want %q", schema, err, want)
		}
	}
	_, err := f.db.CreateTable(f.ctx, &dynamodb.CreateTableInput{
		TableName: aws.String("Orders"), BillingMode: types.BillingModePayPerRequest, KeySchema: schemaOf("a b"), AttributeDefinitions: defined("a", "S", "b", "S"),
	})
	if err == nil || !strings.Contains(err.Error(), "second KeySchemaElement is not a RANGE") {
		t.Errorf("a table's key gives %v", err)
	}
}
