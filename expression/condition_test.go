package expression_test

import (
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/expression"
)

const conditionValues = `{":five":{"N":"5.0"},":nine":{"N":"9"},":text":{"S":"text"},":te":{"S":"te"},":a":{"S":"a"},":S":{"S":"S"},":two":{"N":"2"},` +
	`":t":{"BOOL":true},":ss":{"SS":["b","a"]},":null":{"NULL":true}}`

func TestConditions(t *testing.T) {
	cases := map[string]bool{
		"n = :five":                               true,
		"n <> :five":                              false,
		"n < :nine":                               true,
		"n <= :five AND n >= :five":               true,
		"n > :nine OR s = :text":                  true,
		"NOT n > :nine":                           true,
		"not (n = :five and s = :text)":           false,
		"n = :text":                               false,
		"n <> :text":                              true,
		"n < :text":                               false,
		"absent = :five":                          false,
		"absent <> :five":                         true,
		"absent < :five":                          false,
		"absent = nowhere":                        false,
		"n BETWEEN :two AND :nine":                true,
		"n between :nine and :nine":               false,
		"n BETWEEN :two AND :nine AND s = :text":  true,
		"s IN (:a, :text)":                        true,
		"s IN (:a)":                               false,
		"ss = :ss":                                true,
		"attribute_exists(m.deep.y)":              true,
		"attribute_exists(m.deep.z)":              false,
		"attribute_not_exists(q)":                 true,
		"attribute_type(s, :S)":                   true,
		"attribute_type(n, :S)":                   false,
		"begins_with(s, :te)":                     true,
		"begins_with(s, :a)":                      false,
		"begins_with(n, :te)":                     false,
		"contains(s, :te)":                        true,
		"contains(ss, :a)":                        true,
		"contains(l, :a)":                         true,
		"contains(l, :text)":                      false,
		"contains(ns, :two)":                      true,
		"contains(absent, :a)":                    false,
		"size(s) < :five":                         true,
		"size(l) > size(ss)":                      true,
		"size(ss) = :two":                         true,
		"size(n) = :five":                         false,
		"(n) = :five":                             true,
		"((n = :five) AND (s = :text))":           true,
		"m.parts[0].k = s OR l[0] = :a":           true,
		"n = :nine OR n = :five AND s = :text":    true,
		"(n = :nine OR n = :five) AND s <> :text": false,
	}
	for text, want := range cases {
		c, err := expression.ParseCondition("ConditionExpression", text, bindings(t, "", conditionValues))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := c.Match(parseItem(t, someItem)); got != want {
			t.Errorf("%s is %v", text, got)
		}
	}
}

func TestConditionOnNoItem(t *testing.T) {
	for text, want := range map[string]bool{"attribute_not_exists(n)": true, "attribute_exists(n)": false, "n = :five": false} {
		c, err := expression.ParseCondition("ConditionExpression", text, bindings(t, "", conditionValues))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Match(attribute.Item{}); got != want {
			t.Errorf("%s is %v", text, got)
		}
	}
}

func TestConditionParseErrors(t *testing.T) {
	cases := map[string]string{
		"n":                         "Syntax error",
		"n = ":                      "Syntax error",
		"n = :five n":               "Syntax error",
		"n = :five AND":             "Syntax error",
		"(n = :five":                "Syntax error",
		"n BETWEEN :five":           "Syntax error",
		"n IN ()":                   "Syntax error",
		"n BETWEEN :nine AND :two":  "upper bound",
		"n BETWEEN :two AND :text":  "same data type",
		"n < :t":                    "operand type: BOOL",
		"n BETWEEN :null AND :null": "operand type: NULL",
		"begins_with(s, :five)":     "operand type: N",
		"attribute_type(s, :text)":  "Invalid attribute type name",
		"attribute_type(s, :five)":  "operand type: N",
		"nofunc(s)":                 "Invalid function name; function: nofunc",
		"contains(s, nofunc(s))":    "Invalid function name",
		"size(s)":                   "not allowed to be used this way in an expression; function: size",
		"size(n) ":                  "not allowed to be used this way in an expression; function: size",
		"contains(s)":               "Incorrect number of operands for operator or function; operator or function: contains, number of operands: 1",
		"attribute_exists(:a)":      "Operator or function requires a document path; operator or function: attribute_exists",
		"attribute_exists(s) = :t":  "not allowed to be used this way in an expression; function: attribute_exists",
		"((n = :five))":             "The expression has redundant parentheses;",
		"((n)) = :five":             "The expression has redundant parentheses;",
		"m.x = m.x":                 "must be distinct from the remaining operands for this operator or function; operator: =, first operand: [m, x]",
		"contains(l, l)":            "operator: contains, first operand: [l]",
		"size(:five) = :five":       "operator or function: size, operand type: N",
		"status = :five":            "reserved keyword: status",
		"n = :undefined":            "not defined; attribute value: :undefined",
		strings.Repeat("NOT ", 400) + "n = :five":           "too many nested",
		"n IN (" + strings.Repeat(":five,", 100) + ":five)": "too many operands",
	}
	for text, want := range cases {
		if _, err := expression.ParseCondition("FilterExpression", text, bindings(t, "", conditionValues)); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "Invalid FilterExpression: ") {
			t.Errorf("%.40q gives %v, want %q", text, err, want)
		}
	}
}

func TestConditionAttributes(t *testing.T) {
	c, err := expression.ParseCondition("FilterExpression", "a.b = :a OR size(#c) > d[0]", bindings(t, `{"#c":"c"}`, conditionValues))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(c.Attributes(), " "); got != "a c d" {
		t.Error(got)
	}
}

func TestProjection(t *testing.T) {
	cases := map[string]string{
		"n":                        `{"n":{"N":"5"}}`,
		"q":                        `{}`,
		"n, m.x, m.deep":           `{"m":{"M":{"deep":{"M":{"y":{"S":"z"}}},"x":{"N":"1"}}},"n":{"N":"5"}}`,
		"l[2], l[0]":               `{"l":{"L":[{"S":"a"},{"S":"c"}]}}`,
		"m.parts[0].k, m.parts[7]": `{"m":{"M":{"parts":{"L":[{"M":{"k":{"S":"v"}}}]}}}}`,
		"s.x, n[0], m.x.y, l[0].z": `{}`,
	}
	for text, want := range cases {
		p, err := expression.ParseProjection(text, bindings(t, "", ""))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := marshal(t, p.Of(parseItem(t, someItem))); got != want {
			t.Errorf("%s gives %s, want %s", text, got, want)
		}
	}
	for text, want := range map[string]string{"a, a.b": "overlap", "a,": "Syntax error", "a b": "Syntax error", "date": "reserved"} {
		if _, err := expression.ParseProjection(text, bindings(t, "", "")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gives %v, want %q", text, err, want)
		}
	}
}

func TestWrittenPaths(t *testing.T) {
	u, err := expression.ParseUpdate("SET m.x = :one, l[1] = :s REMOVE s ADD ss :ss", bindings(t, "", someValues))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"l":{"L":[{"S":"b"}]},"m":{"M":{"x":{"N":"1"}}},"s":{"S":"text"},"ss":{"SS":["a","b"]}}`
	if got := marshal(t, u.Written().Of(parseItem(t, someItem))); got != want {
		t.Errorf("got %s", got)
	}
}

func TestKeyConditions(t *testing.T) {
	it := parseItem(t, `{"pk":{"S":"a"},"sk":{"S":"text"}}`)
	for text, want := range map[string]bool{
		"pk = :a":                             true,
		"pk = :a AND sk = :text":              true,
		":a = pk AND :te <= sk":               true,
		":a = pk AND :te >= sk":               false,
		"(sk > :text) AND (pk = :a)":          false,
		"pk = :a AND begins_with(sk, :te)":    true,
		"pk = :a AND sk BETWEEN :a AND :text": true,
	} {
		k, err := expression.ParseKeyCondition(text, []string{"pk"}, []string{"sk"}, bindings(t, "", conditionValues))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if err := k.CheckTypes([]attribute.Kind{attribute.KindS}, []attribute.Kind{attribute.KindS}); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if k.Hash()[0].Text() != "a" || k.Match(it) != want {
			t.Errorf("%s: hash %q, holds %v", text, k.Hash()[0].Text(), k.Match(it))
		}
	}
	for text, want := range map[string]string{
		"sk = :a":                         "missed key schema element: pk",
		"zzz = :a":                        "missed key schema element: pk",
		"pk > :a":                         "Query key condition not supported",
		"pk = :a AND pk = :a":             "must only contain one condition per key",
		"pk = :a AND zzz = :a":            "missed key schema element: sk",
		"pk = :a AND sk <> :a":            "Invalid operator used in KeyConditionExpression: <>",
		"pk = :a OR sk = :a":              "Invalid operator used in KeyConditionExpression: OR",
		"pk = :a AND contains(sk, :a)":    "Invalid operator used in KeyConditionExpression: contains",
		"pk = :a AND sk = zzz":            "Multiple attributes used in a single condition",
		"pk = :a AND sk = :a AND sk = :a": "must only contain one condition per key",
		"pk.x = :a":                       "conditions on nested attributes",
	} {
		if _, err := expression.ParseKeyCondition(text, []string{"pk"}, []string{"sk"}, bindings(t, "", conditionValues)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gives %v, want %q", text, err, want)
		}
	}
	k, err := expression.ParseKeyCondition("pk = :a AND sk < :five", []string{"pk"}, []string{"sk"}, bindings(t, "", conditionValues))
	if err != nil {
		t.Fatal(err)
	}
	if k.CheckTypes([]attribute.Kind{attribute.KindS}, []attribute.Kind{attribute.KindN}) != nil || k.CheckTypes([]attribute.Kind{attribute.KindS}, []attribute.Kind{attribute.KindS}) == nil || k.CheckTypes([]attribute.Kind{attribute.KindN}, []attribute.Kind{attribute.KindN}) == nil {
		t.Error("types of key conditions are not checked")
	}
}

// FuzzCondition checks that no text makes parsing or evaluating panic.
func FuzzCondition(f *testing.F) {
	f.Add("n = :five AND (s IN (:a) OR NOT size(l) > :two)")
	f.Add("begins_with(s, :te) and ((n) between :two and :nine)")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := expression.ParseCondition("FilterExpression", text, bindings(t, "", conditionValues))
		if err == nil {
			c.Match(parseItem(t, someItem))
		}
	})
}
