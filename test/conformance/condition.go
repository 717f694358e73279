package conformance

import (
	"fmt"
	"strings"
)

// examined is the item on which conditions are evaluated.
const examined = `"n":{"N":"5"},"s":{"S":"abc"},"e":{"S":""},"b":{"B":"AP8="},"t":{"BOOL":true},"u":{"NULL":true},"ss":{"SS":["x","y"]},"ns":{"NS":["1","2.0"]},
	"bs":{"BS":["AA=="]},"l":{"L":[{"N":"1"},{"S":"two"},{"L":[{"S":"deep"}]}]},"m":{"M":{"k":{"N":"3"},"a.b":{"S":"dot"}}},"same":{"N":"5.0"}`

// truth checks whether conditions hold for the examined item. A condition that begins with ! must
// not hold. Placeholders of values have the names in operands.
func (c *run) truth(conditions ...string) {
	c.given(examined)
	for _, expression := range conditions {
		expression, not := strings.CutPrefix(expression, "!")
		c.about(expression)
		request := on("simple", "", condition(expression), operandsOf(expression))
		if not {
			c.fails("UpdateItem", request, failed)
		} else {
			c.is("UpdateItem", request, "")
		}
	}
}

// invalid checks that conditions are refused.
func (c *run) invalid(message string, conditions ...string) {
	c.given(examined)
	for _, expression := range conditions {
		c.about(expression)
		c.fails("UpdateItem", on("simple", "", condition(expression), operandsOf(expression)), validation, message)
	}
}

// operands are the values that conditions compare with.
var operands = map[string]string{
	":five": `{"N":"5"}`, ":four": `{"N":"4"}`, ":ten": `{"N":"10"}`, ":fiveText": `{"S":"5"}`, ":abc": `{"S":"abc"}`, ":ab": `{"S":"ab"}`, ":bc": `{"S":"bc"}`,
	":Z": `{"S":"Z"}`, ":empty": `{"S":""}`, ":bytes": `{"B":"AA=="}`, ":high": `{"B":"AP8="}`, ":true": `{"BOOL":true}`, ":null": `{"NULL":true}`,
	":x": `{"S":"x"}`, ":two": `{"N":"2"}`, ":one": `{"N":"1"}`, ":three": `{"N":"3"}`, ":zero": `{"N":"0"}`, ":xy": `{"SS":["y","x"]}`,
	":text": `{"S":"two"}`, ":deep": `{"S":"deep"}`, ":list": `{"L":[{"S":"deep"}]}`, ":typeS": `{"S":"S"}`, ":typeN": `{"S":"N"}`, ":typeSS": `{"S":"SS"}`,
	":typeM": `{"S":"M"}`, ":typeNULL": `{"S":"NULL"}`, ":typeNone": `{"S":"X"}`, ":dot": `{"S":"dot"}`,
	":numbers": `{"NS":["2","1.0"]}`, ":fewer": `{"NS":["1"]}`, ":map": `{"M":{"a.b":{"S":"dot"},"k":{"N":"3.0"}}}`, ":mapless": `{"M":{"k":{"N":"3"}}}`,
	":longer": `{"L":[{"S":"deep"},{"S":"deep"}]}`,
}

// operandsOf returns the ExpressionAttributeValues and ExpressionAttributeNames of an expression.
func operandsOf(expression string) string {
	var used []string
	seen := map[string]bool{}
	for _, word := range strings.FieldsFunc(expression, func(r rune) bool { return strings.ContainsRune(" (),=<>\"", r) }) {
		if value, ok := operands[word]; ok && !seen[word] {
			seen[word] = true
			used = append(used, fmt.Sprintf("%q:%s", word, value))
		}
	}
	out := ""
	if len(used) > 0 {
		out = values(strings.Join(used, ","))
	}
	if strings.Contains(expression, "#d") {
		out = with(out, called(`"#d":"a.b"`))
	}
	return out
}

var conditionCases = []Case{
	{"condition/comparators of numbers", conditions, func(c *run) {
		c.truth("n = :five", "n = same", "!n = :four", "n <> :four", "!n <> same", "n < :ten", "!n < :five", "n <= :five", "n > :four", "!n > :ten", "n >= :five",
			":four < n", ":ten > n")
	}},
	{"condition/comparators of strings and binaries", conditions, func(c *run) {
		c.truth("s = :abc", "s > :ab", "s < :bc", "s > :Z", "e = :empty", "e < :Z", "b = :high", "b > :bytes", "!b < :bytes")
	}},
	{"condition/equality of other types", conditions, func(c *run) {
		c.truth("t = :true", "u = :null", "ss = :xy", "l[2] = :list", "!t = :null", "ss <> :x")
	}},
	{"condition/sets, lists and maps are equal if their contents are", conditions, func(c *run) {
		c.truth("ns = :numbers", "!ns = :fewer", "ns <> :fewer", "m = :map", "!m = :mapless", "!l[2] = :longer")
	}},
	{"condition/values of different types are never equal and have no order", conditions, func(c *run) {
		c.truth("!n = :fiveText", "n <> :fiveText", "!n < :fiveText", "!n >= :fiveText", "!s < :five")
	}},
	{"condition/nested attributes", conditions, func(c *run) {
		c.truth("m.k = :three", "l[0] = :one", "l[1] = :text", "l[2][0] = :deep", "m.#d = :dot", "!m.x = :three", "!l[9] = :one", "!n.x = :one")
	}},
	{"condition/absent attributes", conditions, func(c *run) {
		c.truth("attribute_not_exists(z)", "!attribute_exists(z)", "attribute_exists(n)", "!attribute_not_exists(n)", "attribute_exists(m.k)", "attribute_not_exists(m.z)",
			"attribute_exists(u)", "attribute_exists(e)", "!z = :one", "!z < :one", "!contains(z, :one)", "!begins_with(z, :ab)", "!z BETWEEN :one AND :ten")
	}},
	{"condition/BETWEEN and IN", conditions, func(c *run) {
		c.truth("n BETWEEN :four AND :five", "n BETWEEN :five AND :ten", "!n BETWEEN :zero AND :four", "s BETWEEN :ab AND :bc", "n IN (:four, :five)", "!n IN (:four)",
			"n IN (same)", "!n IN (:fiveText)", "t IN (:true, :null)")
	}},
	{"condition/AND, OR, NOT and parentheses", conditions, func(c *run) {
		c.truth("n = :five AND s = :abc", "!n = :five AND s = :ab", "n = :four OR s = :abc", "NOT n = :four", "!NOT n = :five", "n = :five OR s = :ab AND n = :four",
			"!(n = :five OR s = :ab) AND n = :four", "NOT n = :four AND s = :abc", "not n = :four and (s = :abc or n = :ten)", "NOT (n = :four OR s = :ab)")
	}},
	{"condition/attribute_type", conditions, func(c *run) {
		c.truth("attribute_type(s, :typeS)", "!attribute_type(s, :typeN)", "attribute_type(n, :typeN)", "attribute_type(ss, :typeSS)", "attribute_type(m, :typeM)",
			"attribute_type(u, :typeNULL)", "!attribute_type(z, :typeS)", "attribute_type(:one, :typeN)", "!attribute_type(:one, :typeS)")
		c.invalid("", "attribute_type(s, :typeNone)", "attribute_type(s, :one)")
	}},
	{"condition/begins_with", conditions, func(c *run) {
		c.truth("begins_with(s, :ab)", "begins_with(s, :abc)", "!begins_with(s, :bc)", "begins_with(s, :empty)", "begins_with(b, :bytes)", "!begins_with(n, :ab)")
		c.invalid("Incorrect operand type for operator or function", "begins_with(s, :five)")
	}},
	{"condition/contains", conditions, func(c *run) {
		c.truth("contains(s, :bc)", "!contains(s, :Z)", "contains(ss, :x)", "!contains(ss, :abc)", "contains(ns, :two)", "contains(l, :text)", "contains(l, :list)",
			"!contains(l, :deep)", "contains(bs, :bytes)", "!contains(n, :five)", "contains(b, :high)")
	}},
	{"condition/size", conditions, func(c *run) {
		c.truth("size(s) = :three", "size(e) = :zero", "size(b) = :two", "size(ss) = :two", "size(l) = :three", "size(m) = :two", "size(s) < :five", "!size(z) = :zero",
			":two < size(l)", "size(s) BETWEEN :one AND :three")
	}},
	{"condition/invalid syntax is rejected", conditions, func(c *run) {
		c.invalid("Invalid ConditionExpression: ", "n =", "n = = :five", "n = :five AND", "(n = :five", "n", "size(n)", "n + :one = :five", "NOT", "n = :five n = :five",
			"n BETWEEN :one", "n IN ()", "attribute_exists(:one)", "attribute_exists(n, s)", "begins_with(s)", "Size(s) = :three", "n == :five", "n != :four")
		c.invalid("The expression can not be empty", "")
	}},
	{"condition/invalid operands are rejected", conditions, func(c *run) {
		c.invalid("upper bound to be greater than or equal to lower bound", "n BETWEEN :ten AND :one")
		c.invalid("", "n BETWEEN :one AND :abc")
		c.invalid("Incorrect operand type for operator or function", "n < :true", "n > :null", "n >= :list")
		c.invalid("The first operand must be distinct from the remaining operands", "contains(s, s)")
	}},
}

var projectionCases = []Case{
	{"projection/attributes", projections, func(c *run) {
		c.given(examined)
		project := func(expression, want string) {
			request := on("simple", "", consistent, `"ProjectionExpression":"`+expression+`"`)
			if strings.Contains(expression, "#d") {
				request = with(request, called(`"#d":"a.b"`))
			}
			c.is("GetItem", request, want)
		}
		project("n, s", `"Item":{"n":{"N":"5"},"s":{"S":"abc"}}`)
		project("pk,zzz", `"Item":{`+partition+`}`)
		project("zzz", `"Item":{}`)
		project("m.k", `"Item":{"m":{"M":{"k":{"N":"3"}}}}`)
		project("m.#d, n", `"Item":{"m":{"M":{"a.b":{"S":"dot"}}},"n":{"N":"5"}}`)
		project("l[0], l[2][0]", `"Item":{"l":{"L":[{"N":"1"},{"L":[{"S":"deep"}]}]}}`)
		project("l[2]", `"Item":{"l":{"L":[{"L":[{"S":"deep"}]}]}}`)
	}},
	{"projection/paths that overlap are rejected", projections, func(c *run) {
		for _, expression := range []string{"m, m.k", "n, n", "l[0], l[0]"} {
			c.fails("GetItem", on("simple", "", `"ProjectionExpression":"`+expression+`"`), validation, "Two document paths overlap with each other")
		}
	}},
	{"projection/invalid syntax is rejected", projections, func(c *run) {
		for _, expression := range []string{"n,", "n s", "l[", "l[x]", "m..k", ".n", "size(s)", "name"} {
			c.about(expression)
			c.fails("GetItem", on("simple", "", `"ProjectionExpression":"`+expression+`"`), validation, "Invalid ProjectionExpression: ")
		}
		c.fails("GetItem", on("simple", "", `"ProjectionExpression":""`), validation, "The expression can not be empty")
	}},
	{"projection/ProjectionExpression excludes AttributesToGet", getItem, func(c *run) {
		c.fails("GetItem", on("simple", "", `"ProjectionExpression":"a","AttributesToGet":["a"]`), validation)
	}},
	{"projection/unused placeholders are rejected", names, func(c *run) {
		c.fails("GetItem", on("simple", "", `"ProjectionExpression":"a"`, called(`"#x":"x"`)), validation, "unused in expressions: keys: {#x}")
		c.fails("GetItem", on("simple", "", called(`"#x":"x"`)), validation, "ExpressionAttributeNames can only be specified when using expressions")
	}},
}
