package backfill

import (
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// A primary key has its partition key first, whatever the order of the answer. A key that is not
// understood completely is an error, because rows would be written under a part of the key.
func TestThePrimaryKeyOfATable(t *testing.T) {
	part := func(name string, role types.KeyType) types.KeySchemaElement {
		return types.KeySchemaElement{AttributeName: aws.String(name), KeyType: role}
	}
	of := func(name string, kind types.ScalarAttributeType) types.AttributeDefinition {
		return types.AttributeDefinition{AttributeName: aws.String(name), AttributeType: kind}
	}
	pk, sk := part("pk", types.KeyTypeHash), part("sk", types.KeyTypeRange)
	for name, c := range map[string]struct {
		schema []types.KeySchemaElement
		kinds  []types.AttributeDefinition
		want   string
	}{
		"one attribute":      {[]types.KeySchemaElement{pk}, []types.AttributeDefinition{of("pk", "S")}, "[{pk S}]"},
		"two":                {[]types.KeySchemaElement{pk, sk}, []types.AttributeDefinition{of("sk", "N"), of("pk", "B"), of("gsi", "S")}, "[{pk B} {sk N}]"},
		"two, the other way": {[]types.KeySchemaElement{sk, pk}, []types.AttributeDefinition{of("pk", "S"), of("sk", "S")}, "[{pk S} {sk S}]"},
		"none":               {nil, []types.AttributeDefinition{of("pk", "S")}, "error"},
		"no definition":      {[]types.KeySchemaElement{pk, sk}, []types.AttributeDefinition{of("pk", "S")}, "error"},
		"an unknown type":    {[]types.KeySchemaElement{pk}, []types.AttributeDefinition{of("pk", "M")}, "error"},
		"an unknown role":    {[]types.KeySchemaElement{pk, part("x", "GEO")}, []types.AttributeDefinition{of("pk", "S"), of("x", "S")}, "error"},
	} {
		key, err := primaryKey(&types.TableDescription{KeySchema: c.schema, AttributeDefinitions: c.kinds})
		got := fmt.Sprint(key)
		if err != nil {
			got = "error"
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s (%v)", name, got, c.want, err)
		}
	}
}
