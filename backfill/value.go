package backfill

import (
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// The conversion of values refuses what that of the stream's records does: what DynamoDB cannot hold was not written by it, and would differ in the
// target from what the stream brings.

// convertItem names the attribute that it fails at; the names inside of values are data and are not told.
func convertItem(attributes map[string]types.AttributeValue) (cdc.Item, error) {
	members, culprit, err := convertMembers(attributes)
	if err != nil {
		return cdc.Item{}, fmt.Errorf("attribute %q: %w", culprit, err)
	}
	return cdc.NewItem(members), nil
}

// convertMembers collects a map; NewItem and Map sort what comes out, so that the map's own order does not matter.
func convertMembers(attributes map[string]types.AttributeValue) (members []cdc.Attribute, culprit string, err error) {
	members = make([]cdc.Attribute, 0, len(attributes))
	for name, a := range attributes {
		v, err := convertValue(a)
		if err == nil {
			err = cdc.CheckText(name)
		}
		if err != nil {
			return nil, name, err
		}
		members = append(members, cdc.Attribute{Name: name, Value: v})
	}
	return members, "", nil
}

// convertValue is the SDK's value as ours. A type that is not one of the ten is an error: leaving the attribute out would lose
// it in the target without a word.
func convertValue(a types.AttributeValue) (v cdc.Value, err error) {
	switch a := a.(type) {
	case *types.AttributeValueMemberS:
		return cdc.String(a.Value), cdc.CheckText(a.Value)
	case *types.AttributeValueMemberN:
		return cdc.Number(a.Value)
	case *types.AttributeValueMemberB:
		return cdc.Binary(a.Value), nil
	case *types.AttributeValueMemberBOOL:
		return cdc.Bool(a.Value), nil
	case *types.AttributeValueMemberNULL:
		if !a.Value {
			return cdc.Value{}, errors.New("a NULL that is not true")
		}
		return cdc.Null(), nil
	case *types.AttributeValueMemberM:
		members, _, err := convertMembers(a.Value)
		if err != nil {
			return cdc.Value{}, err
		}
		return cdc.Map(members), nil
	case *types.AttributeValueMemberL:
		elements := make([]cdc.Value, len(a.Value))
		for i, e := range a.Value {
			if elements[i], err = convertValue(e); err != nil {
				return cdc.Value{}, fmt.Errorf("element %d: %w", i, err)
			}
		}
		return cdc.List(elements), nil
	}
	return convertSet(a)
}

func convertSet(a types.AttributeValue) (v cdc.Value, err error) {
	switch a := a.(type) {
	case *types.AttributeValueMemberSS:
		for _, member := range a.Value {
			if err := cdc.CheckText(member); err != nil {
				return cdc.Value{}, err
			}
		}
		v = cdc.StringSet(a.Value)
	case *types.AttributeValueMemberNS:
		v, err = cdc.NumberSet(a.Value)
	case *types.AttributeValueMemberBS:
		v = cdc.BinarySet(a.Value)
	default:
		err = errUnknownType
	}
	if err == nil {
		err = cdc.CheckSet(v)
	}
	return v, err
}
