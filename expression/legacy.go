package expression

import (
	"maps"
	"slices"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// This file reads the older parameters that expressions replaced: Expected, QueryFilter,
// ScanFilter, KeyConditions, AttributeUpdates and AttributesToGet. The parameters become the same
// trees as expressions, so one evaluator is enough. Source:
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/LegacyConditionalParameters.html

// LegacyTest is a condition on one attribute: a comparison operator such as "EQ" or "NOT_CONTAINS", and its operands.
type LegacyTest struct {
	Operator string
	Operands []attribute.Value
}

// legacyOperators has the number of operands of each operator; -1 means one or more.
var legacyOperators = map[string]int{
	"EQ": 1, "NE": 1, "LE": 1, "LT": 1, "GE": 1, "GT": 1, "NOT_NULL": 0, "NULL": 0, "CONTAINS": 1, "NOT_CONTAINS": 1, "BEGINS_WITH": 1, "IN": -1, "BETWEEN": 2,
}

var legacyComparators = map[string]operator{"EQ": isEqual, "NE": isDifferent, "LE": isAtMost, "LT": isLess, "GE": isAtLeast, "GT": isGreater}

// LegacyCondition makes a condition from tests by attribute. All tests must hold or, if anyOf is
// set, at least one test.
func LegacyCondition(tests map[string]LegacyTest, anyOf bool) (*Condition, error) {
	c := &Condition{attributes: slices.Sorted(maps.Keys(tests))}
	for _, name := range c.attributes {
		term, err := tests[name].predicate(name)
		switch {
		case err != nil:
			return nil, err
		case c.root == nil:
			c.root = term
		case anyOf:
			c.root = &or{c.root, term}
		default:
			c.root = &and{c.root, term}
		}
	}
	return c, nil
}

// predicate returns the test of the named attribute.
func (t LegacyTest) predicate(name string) (predicate, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	place := path{{name: name, index: -1}}
	value := operand{path: place}
	var operands []operand
	for _, v := range t.Operands {
		operands = append(operands, operand{literal: v})
	}
	switch t.Operator {
	case "NOT_NULL", "NULL":
		return &exists{place, t.Operator == "NOT_NULL"}, nil
	case "CONTAINS":
		return &contains{value, operands[0]}, nil
	case "NOT_CONTAINS":
		// A missing attribute does not contain the value, but the test must fail for it too.
		return &and{&exists{place, true}, &not{&contains{value, operands[0]}}}, nil
	case "BEGINS_WITH":
		return &beginsWith{value, operands[0]}, nil
	case "IN":
		return &in{value, operands}, nil
	case "BETWEEN":
		return &between{value, operands[0], operands[1]}, nil
	}
	return &comparison{legacyComparators[t.Operator], value, operands[0]}, nil
}

// legacyKinds are the operand types that an operator accepts. An operator that is not listed
// accepts all types.
var legacyKinds = map[string][]attribute.Kind{
	"LE": {attribute.KindS, attribute.KindN, attribute.KindB}, "LT": {attribute.KindS, attribute.KindN, attribute.KindB}, "GE": {attribute.KindS, attribute.KindN, attribute.KindB}, "GT": {attribute.KindS, attribute.KindN, attribute.KindB},
	"BETWEEN": {attribute.KindS, attribute.KindN, attribute.KindB}, "BEGINS_WITH": {attribute.KindS, attribute.KindB},
	"IN":       {attribute.KindS, attribute.KindN, attribute.KindB, attribute.KindBOOL, attribute.KindNULL},
	"CONTAINS": {attribute.KindS, attribute.KindN, attribute.KindB, attribute.KindBOOL, attribute.KindNULL}, "NOT_CONTAINS": {attribute.KindS, attribute.KindN, attribute.KindB, attribute.KindBOOL, attribute.KindNULL},
}

func (t LegacyTest) check() error {
	count, known := legacyOperators[t.Operator]
	if !known {
		return refuse("1 validation error detected: Value '%s' at 'comparisonOperator' failed to satisfy constraint: Member must satisfy enum value set: [IN, NULL, BETWEEN, LT, NOT_CONTAINS, EQ, GT, NOT_NULL, NE, LE, BEGINS_WITH, GE, CONTAINS]", t.Operator)
	}
	if count >= 0 && len(t.Operands) != count || len(t.Operands) < count || count < 0 && len(t.Operands) == 0 {
		return refuse("One or more parameter values were invalid: Invalid number of argument(s) for the %s ComparisonOperator", t.Operator)
	}
	kinds, limited := legacyKinds[t.Operator]
	for _, v := range t.Operands {
		if limited && !slices.Contains(kinds, v.Kind()) {
			return refuse("One or more parameter values were invalid: ComparisonOperator %s is not valid for %s AttributeValue type", t.Operator, v.Kind())
		}
		if v.Kind() != t.Operands[0].Kind() {
			return refuse("One or more parameter values were invalid: AttributeValues inside AttributeValueList must be of same type")
		}
	}
	if t.Operator == "BETWEEN" {
		if order, _ := compare(&result{value: t.Operands[0]}, &result{value: t.Operands[1]}); order > 0 {
			return refuse("The BETWEEN condition was provided a range where the lower bound is greater than the upper bound")
		}
	}
	return nil
}

// LegacyKeyCondition makes a key condition from tests of the key attributes. The argument `sort` is
// empty if there is no sort key.
func LegacyKeyCondition(tests map[string]LegacyTest, hash, sort []string) (*KeyCondition, error) {
	if len(tests) < 1 || len(tests) > max(2, len(hash)+len(sort)) {
		return nil, refuse("Conditions can be of length 1 or 2 only")
	}
	terms := map[string]predicate{}
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		term, err := tests[name].predicate(name)
		if err != nil {
			return nil, err
		}
		if _, indexable := keyTerm(term); !indexable {
			return nil, refuse("Attempted conditional constraint is not an indexable operation")
		}
		terms[name] = term
	}
	return ofKeys(terms, hash, sort)
}

// LegacyProjection returns the projection on whole top-level attributes.
func LegacyProjection(names []string) (*Projection, error) {
	p := &Projection{}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return nil, refuse("One or more parameter values were invalid: Duplicate value in attribute name: %s", name)
		}
		p.paths = append(p.paths, path{{name: name, index: -1}})
	}
	return p, nil
}

// LegacyChange is the change of one attribute in AttributeUpdates: PUT, ADD or DELETE. The zero
// Value means that no value was given.
type LegacyChange struct {
	Action string
	Value  attribute.Value
}

// LegacyUpdate makes an update from changes by attribute.
func LegacyUpdate(changes map[string]LegacyChange) (*Update, error) {
	u := &Update{}
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		c, place := changes[name], path{{name: name, index: -1}}
		given, kind := c.Value.Kind() != attribute.KindNone, c.Value.Kind()
		set := kind == attribute.KindSS || kind == attribute.KindNS || kind == attribute.KindBS
		switch {
		case c.Action == "DELETE" && !given:
			u.removes = append(u.removes, place)
		case !given:
			return nil, refuse("One or more parameter values were invalid: Only DELETE action is allowed when no attribute value is specified")
		case c.Action == "" || c.Action == "PUT":
			u.sets = append(u.sets, setAction{place, literal(c.Value)})
		case c.Action == "ADD" && (set || kind == attribute.KindN):
			u.adds = append(u.adds, memberAction{place, c.Value})
		case c.Action == "ADD":
			return nil, refuse("One or more parameter values were invalid: ADD action is not supported for the type %s", kind)
		case c.Action == "DELETE" && set:
			u.deletes = append(u.deletes, memberAction{place, c.Value})
		case c.Action == "DELETE":
			return nil, refuse("One or more parameter values were invalid: DELETE action with value is not supported for the type %s", kind)
		default:
			return nil, refuse("1 validation error detected: Value '%s' at 'attributeUpdates.member.action' failed to satisfy constraint: Member must satisfy enum value set: [ADD, DELETE, PUT]", c.Action)
		}
	}
	return u, nil
}
