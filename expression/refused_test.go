package expression_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/expression"
)

// deep returns a document path with the given number of levels.
func deep(levels int) string { return "a" + strings.Repeat(".b", levels-1) }

func TestUpdatesThatDynamoDBRefuses(t *testing.T) {
	const values = `{":v":{"N":"1"},":w":{"N":"2"},":l":{"L":[{"S":"x"}]}}`
	for text, want := range map[string]string{
		"SET _a = :v":                                  `Invalid UpdateExpression: Syntax error; token: "_", near: "SET _a"`,
		"REMOVE _12":                                   `Invalid UpdateExpression: Syntax error; token: "_", near: "REMOVE _12"`,
		"SET a._b = :v":                                `Syntax error; token: "_"`,
		"SET a = _f(b)":                                `Syntax error; token: "_"`,
		"SET a = if_not_exists(a, :v + :w)":            `Syntax error; token: "+", near: ":v + :w"`,
		"SET a = list_append(:l, a - :w)":              `Syntax error; token: "-"`,
		"SET a = list_append(list_append(:l, :l), :l)": "Invalid UpdateExpression: The function is not allowed to be used this way in an expression; function: list_append",
		"SET a = list_append(a, list_append(:l, :l))":  "not allowed to be used this way in an expression; function: list_append",
		"SET a = if_not_exists(a, list_append(a, :l))": "not allowed to be used this way in an expression; function: list_append",
		"REMOVE " + deep(33):                           "Invalid UpdateExpression: The document path has too many nesting levels; nesting levels: 33",
		"REMOVE a[2147483648]":                         "Invalid UpdateExpression: List index is not within the allowable range; index: [2147483648]",
		"REMOVE a[99999999999999999999]":               "List index is not within the allowable range; index: [99999999999999999999]",
	} {
		if _, err := expression.ParseUpdate(text, bindings(t, "", values)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s gives %v, want %q", text, err, want)
		}
	}
	for _, text := range []string{
		"SET a_ = :v", "SET a = if_not_exists(b, :v) + :w", "SET a = (b + :v)", "SET a = list_append(if_not_exists(a, :l), (:l))",
		"REMOVE " + deep(32), "REMOVE a[2147483647]",
	} {
		if _, err := expression.ParseUpdate(text, bindings(t, "", values)); err != nil {
			t.Errorf("%.60s: %v", text, err)
		}
	}
	if _, err := expression.ParseUpdate("SET #_ = :_", bindings(t, `{"#_":"_name"}`, `{":_":{"N":"1"}}`)); err != nil {
		t.Errorf("a placeholder may begin with an underscore: %v", err)
	}
}

func TestConditionsThatDynamoDBRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"_a = :five":                         `Invalid FilterExpression: Syntax error; token: "_", near: "_a"`,
		"attribute_exists(a._b)":             `Syntax error; token: "_"`,
		"attribute_exists(" + deep(33) + ")": "Invalid FilterExpression: The document path has too many nesting levels; nesting levels: 33",
		"a[2147483648] = :five":              "Invalid FilterExpression: List index is not within the allowable range; index: [2147483648]",
	} {
		if _, err := expression.ParseCondition("FilterExpression", text, bindings(t, "", conditionValues)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s gives %v, want %q", text, err, want)
		}
	}
	if _, err := expression.ParseProjection(deep(33), bindings(t, "", "")); err == nil || !strings.Contains(err.Error(), "Invalid ProjectionExpression: The document path has too many") {
		t.Errorf("a path of 33 levels gives %v", err)
	}
	if _, err := expression.ParseProjection("_a", bindings(t, "", "")); err == nil {
		t.Error("a projection takes a name that begins with an underscore")
	}
}

// A mapping's condition refuses every expression that DynamoDB refuses, and the error says where it
// is.
func TestWhenRefusesWhatDynamoDBRefuses(t *testing.T) {
	for _, c := range []struct {
		text                string
		offset              int
		problem, suggestion string
	}{
		{`PK = "x" AND _type = "a"`, 13, `the name "_type" begins with an underscore`, "`_type`"},
		{`a._b = 1`, 2, "begins with an underscore", "`_b`"},
		{`a = 1 OR attribute_exists(` + deep(33) + `)`, 26, "nesting levels: 33", ""},
		{`a[2147483648] = 1`, 2, "List index is not within the allowable range", ""},
		{`a[99999999999999999999] = 1`, 2, "List index is not within the allowable range", ""},
	} {
		_, err := expression.ParseWhen(c.text)
		var syntax *expression.SyntaxError
		if !errors.As(err, &syntax) || syntax.Offset != c.offset || !strings.Contains(syntax.Problem, c.problem) || !strings.Contains(syntax.Suggestion, c.suggestion) {
			t.Errorf("%.60s gives %v; want offset %d, %q, %q", c.text, err, c.offset, c.problem, c.suggestion)
		}
	}
	it := parseItem(t, `{"_type":{"S":"a"}}`)
	c, err := expression.ParseWhen("`_type` = 'a'")
	if err != nil || !c.Match(it) {
		t.Fatalf("a name in backquotes may begin with an underscore: %v", err)
	}
	checkText(t, c, it)
}

// DynamoDB's attribute_type accepts a value as its first operand, although the documentation
// requires a path.
func TestAttributeTypeOfAValue(t *testing.T) {
	const values = `{":v":{"N":"1"},":N":{"S":"N"},":S":{"S":"S"}}`
	for text, want := range map[string]bool{"attribute_type(:v, :N)": true, "attribute_type(:v, :S)": false} {
		c, err := expression.ParseCondition("ConditionExpression", text, bindings(t, "", values))
		if err != nil || c.Match(attribute.Item{}) != want {
			t.Errorf("%s is not %v: %v", text, want, err)
		}
	}
	c, err := expression.ParseWhen(`attribute_type("x", "S")`)
	if err != nil || !c.Match(attribute.Item{}) {
		t.Fatalf("attribute_type of a literal: %v", err)
	}
	checkText(t, c, attribute.Item{})
	if _, err := expression.ParseWhen(`attribute_type(size(a), "N")`); err == nil {
		t.Error("attribute_type takes a size")
	}
}

// NOT_CONTAINS is false for an absent attribute.
func TestLegacyNotContains(t *testing.T) {
	c, err := expression.LegacyCondition(map[string]expression.LegacyTest{"a": {Operator: "NOT_CONTAINS", Operands: []attribute.Value{attribute.String("x")}}}, false)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{`{"b":{"S":"y"}}`: false, `{"a":{"S":"y"}}`: true, `{"a":{"S":"xy"}}`: false, `{"a":{"SS":["y"]}}`: true} {
		if got := c.Match(parseItem(t, text)); got != want {
			t.Errorf("of %s it is %v", text, got)
		}
	}
}

// An update that only removes does not create an item; one without clauses does.
func TestUpdateCreates(t *testing.T) {
	for text, want := range map[string]bool{
		"REMOVE a": false, "DELETE a :ss": false, "REMOVE b.c DELETE a :ss": false, "SET a = :one": true, "ADD a :one": true, "SET b = :one REMOVE a": true,
	} {
		u, err := expression.ParseUpdate(text, bindings(t, "", someValues))
		if err != nil || u.Creates() != want {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
	}
	if !(&expression.Update{}).Creates() {
		t.Error("an update without clauses does not make its item")
	}
}

// A key of several attributes requires its whole partition key, and its sort key from the left.
func TestKeyConditionsOfSeveralAttributes(t *testing.T) {
	hash, sort := []string{"h1", "h2"}, []string{"r1", "r2", "r3"}
	const values = `{":a":{"S":"a"},":b":{"S":"b"},":c":{"S":"c"}}`
	it := parseItem(t, `{"h1":{"S":"a"},"h2":{"S":"b"},"r1":{"S":"a"},"r2":{"S":"b"},"r3":{"S":"c"}}`)
	for text, want := range map[string]bool{
		"h1 = :a AND h2 = :b":                                      true,
		"h2 = :b AND r1 = :a AND h1 = :a":                          true,
		"h1 = :a AND h2 = :b AND r1 = :a AND r2 > :a":              true,
		"h1 = :a AND h2 = :b AND r1 = :a AND r2 > :b":              false,
		"h1 = :a AND h2 = :b AND r2 = :b AND r1 = :a AND r3 < :c":  false,
		"h1 = :a AND h2 = :b AND r1 BETWEEN :a AND :b":             true,
		"h1 = :a AND h2 = :b AND r1 = :a AND begins_with(r2, :b)":  true,
		"h1 = :a AND h2 = :b AND r1 = :a AND r2 = :b AND r3 >= :c": true,
		"h1 = :a AND h2 = :b AND r1 = :b AND r2 = :b AND :c <= r3": false,
	} {
		k, err := expression.ParseKeyCondition(text, hash, sort, bindings(t, "", values))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if len(k.Hash()) != 2 || k.Hash()[0].Text() != "a" || k.Hash()[1].Text() != "b" || k.Match(it) != want {
			t.Errorf("%s: %v, holds %v", text, k.Hash(), k.Match(it))
		}
		if err := k.CheckTypes([]attribute.Kind{attribute.KindS, attribute.KindS}, []attribute.Kind{attribute.KindS, attribute.KindS, attribute.KindS}); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, want := range map[string]string{
		"h1 = :a":                                     "missed key schema element: h2",
		"h1 = :a AND h2 > :b":                         "Query key condition not supported",
		"h1 = :a AND h2 = :b AND r2 = :b":             "missed key schema element: r1",
		"h1 = :a AND h2 = :b AND r1 = :a AND r3 = :c": "missed key schema element: r2",
		"h1 = :a AND h2 = :b AND r1 > :a AND r2 = :b": "Query key condition not supported",
		"h1 = :a AND h2 = :b AND h2 = :b":             "must only contain one condition per key",
		"h1 = :a AND h2 = :b AND zzz = :a":            "missed key schema element: r1",
	} {
		if _, err := expression.ParseKeyCondition(text, hash, sort, bindings(t, "", values)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gives %v, want %q", text, err, want)
		}
	}
}
