package dynamodbtest

import (
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/dynamodbtest/item"
	"github.com/dynamodb-bigtable/replicator/expression"
)

// This file reads the older parameters that expressions replaced. A request uses either these
// parameters or expressions.

// legacyTest is an entry of KeyConditions, QueryFilter and ScanFilter.
type legacyTest struct {
	ComparisonOperator string
	AttributeValueList []item.Value
}

func (t legacyTest) test() expression.LegacyTest {
	test := expression.LegacyTest{Operator: t.ComparisonOperator}
	for _, v := range t.AttributeValueList {
		test.Operands = append(test.Operands, v.Value)
	}
	return test
}

type legacyTests map[string]legacyTest

func (tests legacyTests) all() map[string]expression.LegacyTest {
	all := map[string]expression.LegacyTest{}
	for name, t := range tests {
		all[name] = t.test()
	}
	return all
}

// legacyExpectation is an entry of Expected. It is a test, or says whether the attribute must exist
// and which value it must have.
type legacyExpectation struct {
	legacyTest
	Exists *bool
	Value  item.Value
}

func (e *legacyExpectation) read(name string) (expression.LegacyTest, error) {
	given := e.Value.Kind() != attribute.KindNone
	switch {
	case e.ComparisonOperator != "" && (e.Exists != nil || given && e.AttributeValueList != nil):
		return expression.LegacyTest{}, validation("One or more parameter values were invalid: Exists and Value cannot be used with ComparisonOperator for Attribute: %s", name)
	case e.ComparisonOperator != "" && given:
		return expression.LegacyTest{Operator: e.ComparisonOperator, Operands: []attribute.Value{e.Value.Value}}, nil
	case e.ComparisonOperator != "":
		return e.test(), nil
	case e.AttributeValueList != nil:
		return expression.LegacyTest{}, validation("One or more parameter values were invalid: AttributeValueList can only be used with a ComparisonOperator for Attribute: %s", name)
	case e.Exists != nil && !*e.Exists && given:
		return expression.LegacyTest{}, validation("One or more parameter values were invalid: Value cannot be used when Exists is false for Attribute: %s", name)
	case e.Exists != nil && !*e.Exists:
		return expression.LegacyTest{Operator: "NULL"}, nil
	case !given:
		return expression.LegacyTest{}, validation("One or more parameter values were invalid: Value must be provided when Exists is true for Attribute: %s", name)
	}
	return expression.LegacyTest{Operator: "EQ", Operands: []attribute.Value{e.Value.Value}}, nil
}

// anyOf parses ConditionalOperator for a request that has the given number of tests.
func anyOf(operator string, tests int) (bool, error) {
	switch {
	case operator == "":
		return false, nil
	case tests == 0:
		return false, validation("One or more parameter values were invalid: ConditionalOperator cannot be used without Filter or Expected")
	case tests == 1:
		return false, validation("One or more parameter values were invalid: ConditionalOperator can only be used when Filter or Expected has two or more elements")
	}
	return operator == "OR", nil
}

// expected makes a condition from Expected; nil if the request has none.
func (c *conditionParameters) expected() (*expression.Condition, error) {
	either, err := anyOf(c.ConditionalOperator, len(c.Expected))
	if err != nil || len(c.Expected) == 0 {
		return nil, err
	}
	tests := map[string]expression.LegacyTest{}
	for _, name := range sortedKeys(c.Expected) {
		e := c.Expected[name]
		if tests[name], err = e.read(name); err != nil {
			return nil, err
		}
	}
	return expression.LegacyCondition(tests, either)
}

// filter makes a condition from QueryFilter or ScanFilter; nil if there is none.
func (tests legacyTests) filter(operator string) (*expression.Condition, error) {
	either, err := anyOf(operator, len(tests))
	if err != nil || len(tests) == 0 {
		return nil, err
	}
	return expression.LegacyCondition(tests.all(), either)
}

// attributeUpdate is an entry of AttributeUpdates.
type attributeUpdate struct {
	Action string
	Value  item.Value
}

// legacyUpdate makes an update from AttributeUpdates; nil if there are none.
func legacyUpdate(updates map[string]attributeUpdate) (*expression.Update, error) {
	if updates == nil {
		return nil, nil
	}
	changes := map[string]expression.LegacyChange{}
	for name, u := range updates {
		changes[name] = expression.LegacyChange{Action: u.Action, Value: u.Value.Value}
	}
	return expression.LegacyUpdate(changes)
}

// parameter is a request member that belongs either to expressions or to the parameters that they
// replaced.
type parameter struct {
	name   string
	given  bool
	legacy bool
}

// exclusive rejects a request with parameters of both kinds.
func exclusive(parameters ...parameter) error {
	named := func(legacy bool) string {
		var names []string
		for _, p := range parameters {
			if p.given && p.legacy == legacy {
				names = append(names, p.name)
			}
		}
		slices.Sort(names)
		return strings.Join(names, ", ")
	}
	old, modern := named(true), named(false)
	if old == "" || modern == "" {
		return nil
	}
	return validation("Can not use both expression and non-expression parameters in the same request: Non-expression parameters: {%s} Expression parameters: {%s}", old, modern)
}
