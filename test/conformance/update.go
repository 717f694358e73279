package conformance

import "strings"

var updateCases = []Case{
	{"update/creates a missing item", updateItem, func(c *run) {
		c.is("UpdateItem", update("SET a = :v", values(`":v":{"N":"1"}`)), "")
		c.stored(`"a":{"N":"1"}`)
	}},
	{"update/without an expression creates an item with only its keys", updateItem, func(c *run) {
		c.is("UpdateItem", on("simple", ""), "")
		c.stored("")
	}},
	{"update/a removal does not create a missing item", updateItem, func(c *run) {
		tags := values(`":v":{"SS":["x"]}`)
		for _, request := range []string{update("REMOVE a"), update("REMOVE x.y, l[0]"), update("DELETE s :v", tags), update("REMOVE a DELETE s :v", tags),
			on("simple", "", `"AttributeUpdates":{"a":{"Action":"DELETE"}}`)} {
			c.is("UpdateItem", request, "")
			c.absent()
		}
	}},
	{"update/SET leaves other attributes", updates, func(c *run) {
		c.given(`"a":{"N":"1"},"b":{"S":"x"}`)
		c.is("UpdateItem", update("SET a = :v, c = :v", values(`":v":{"N":"2"}`)), "")
		c.stored(`"a":{"N":"2"},"b":{"S":"x"},"c":{"N":"2"}`)
	}},
	{"update/arithmetic is decimal", updates, func(c *run) {
		c.given(`"a":{"N":"0.1"},"b":{"N":"99999999999999999999999999999999999999"}`)
		c.is("UpdateItem", update("SET a = a + :x, b = b + :one, d = :x - a", values(`":x":{"N":"0.2"},":one":{"N":"1"}`)), "")
		c.stored(`"a":{"N":"0.3"},"b":{"N":"1` + strings.Repeat("0", 38) + `"},"d":{"N":"0.1"}`)
	}},
	{"update/operands are read before anything is written", updates, func(c *run) {
		c.given(`"a":{"N":"1"},"b":{"N":"2"}`)
		c.is("UpdateItem", update("SET a = b, b = a REMOVE d"), "")
		c.stored(`"a":{"N":"2"},"b":{"N":"1"}`)
	}},
	{"update/if_not_exists", updates, func(c *run) {
		c.given(`"a":{"N":"1"}`)
		c.is("UpdateItem", update("SET a = if_not_exists(a, :v), b = if_not_exists(b, :v), d = if_not_exists(x, a) + :v", values(`":v":{"N":"5"}`)), "")
		c.stored(`"a":{"N":"1"},"b":{"N":"5"},"d":{"N":"6"}`)
	}},
	{"update/list_append", updates, func(c *run) {
		c.given(`"l":{"L":[{"N":"1"}]}`)
		c.is("UpdateItem", update("SET l = list_append(l, :v), m = list_append(:v, l)", values(`":v":{"L":[{"S":"x"}]}`)), "")
		c.stored(`"l":{"L":[{"N":"1"},{"S":"x"}]},"m":{"L":[{"S":"x"},{"N":"1"}]}`)
	}},
	{"update/nested attributes", updates, func(c *run) {
		c.given(`"m":{"M":{"l":{"L":[{"N":"1"},{"N":"2"}]},"x.y":{"S":"dot"}}}`)
		c.is("UpdateItem", update("SET m.l[1] = :v, m.#d = :v REMOVE m.l[0]", called(`"#d":"x.y"`), values(`":v":{"BOOL":true}`)), "")
		c.stored(`"m":{"M":{"l":{"L":[{"BOOL":true}]},"x.y":{"BOOL":true}}}`)
	}},
	{"update/SET beyond a list's end appends", updates, func(c *run) {
		c.given(`"l":{"L":[{"N":"1"}]}`)
		c.is("UpdateItem", update("SET l[7] = :v", values(`":v":{"N":"2"}`)), "")
		c.stored(`"l":{"L":[{"N":"1"},{"N":"2"}]}`)
	}},
	{"update/SET below a missing attribute is rejected", updates, func(c *run) {
		c.given(`"s":{"S":"x"}`)
		for _, path := range []string{"m.x", "s.x", "l[0]"} {
			c.fails("UpdateItem", update("SET "+path+" = :v", values(`":v":{"N":"2"}`)), validation, "document path provided in the update expression is invalid for update")
		}
		c.stored(`"s":{"S":"x"}`)
	}},
	{"update/REMOVE of a missing attribute is not an error", updates, func(c *run) {
		c.given(`"a":{"N":"1"},"l":{"L":[]}`)
		c.is("UpdateItem", update("REMOVE b, l[3]"), "")
		c.stored(`"a":{"N":"1"},"l":{"L":[]}`)
	}},
	{"update/REMOVE of elements moves the others", updates, func(c *run) {
		c.given(`"l":{"L":[{"N":"0"},{"N":"1"},{"N":"2"},{"N":"3"}]}`)
		c.is("UpdateItem", update("REMOVE l[0], l[2]"), "")
		c.stored(`"l":{"L":[{"N":"1"},{"N":"3"}]}`)
	}},
	{"update/ADD counts", updates, func(c *run) {
		c.is("UpdateItem", update("ADD n :v", values(`":v":{"N":"2"}`)), "")
		c.is("UpdateItem", update("ADD n :v", values(`":v":{"N":"-5"}`)), "")
		c.stored(`"n":{"N":"-3"}`)
	}},
	{"update/ADD to and DELETE from sets", updates, func(c *run) {
		c.is("UpdateItem", update("ADD s :v, t :n", values(`":v":{"SS":["a","b"]},":n":{"NS":["1"]}`)), "")
		c.is("UpdateItem", update("ADD s :v DELETE t :n", values(`":v":{"SS":["b","c"]},":n":{"NS":["1.0"]}`)), "")
		c.stored(`"s":{"SS":["a","b","c"]}`)
		c.is("UpdateItem", update("DELETE s :v", values(`":v":{"SS":["a","z"]}`)), "")
		c.stored(`"s":{"SS":["b","c"]}`)
	}},
	{"update/operands of the wrong type are rejected", updates, func(c *run) {
		c.given(`"s":{"S":"x"},"n":{"N":"1"}`)
		c.fails("UpdateItem", update("ADD s :v", values(`":v":{"N":"1"}`)), validation, "An operand in the update expression has an incorrect data type")
		c.fails("UpdateItem", update("ADD n :v", values(`":v":{"S":"1"}`)), validation)
		c.fails("UpdateItem", update("DELETE n :v", values(`":v":{"SS":["1"]}`)), validation, "incorrect data type")
		c.fails("UpdateItem", update("SET n = s + :v", values(`":v":{"N":"1"}`)), validation, "incorrect data type")
	}},
	{"update/a missing operand is rejected", updates, func(c *run) {
		c.given("")
		c.fails("UpdateItem", update("SET a = b"), validation, "refers to an attribute that does not exist in the item")
		c.fails("UpdateItem", update("SET a = b + :v", values(`":v":{"N":"1"}`)), validation, "refers to an attribute that does not exist in the item")
		c.stored("")
	}},
	{"update/the key cannot change", updateItem, func(c *run) {
		c.fails("UpdateItem", update("SET pk = :v", values(`":v":{"S":"x"}`)), validation, "Cannot update attribute pk. This attribute is part of the key")
		c.fails("UpdateItem", update("REMOVE pk"), validation, "Cannot update attribute pk. This attribute is part of the key")
	}},
	{"update/ReturnValues", updateItem, func(c *run) {
		c.given(`"a":{"N":"1"},"b":{"N":"1"},"m":{"M":{"x":{"N":"1"},"y":{"N":"1"}}}`)
		for _, step := range []struct{ returned, want string }{
			{"NONE", ""},
			{"ALL_OLD", `"Attributes":{` + partition + `,"a":{"N":"2"},"b":{"N":"1"},"m":{"M":{"x":{"N":"2"},"y":{"N":"1"}}}}`},
			{"ALL_NEW", `"Attributes":{` + partition + `,"a":{"N":"4"},"b":{"N":"1"},"m":{"M":{"x":{"N":"4"},"y":{"N":"1"}}}}`},
			{"UPDATED_OLD", `"Attributes":{"a":{"N":"4"},"m":{"M":{"x":{"N":"4"}}}}`},
			{"UPDATED_NEW", `"Attributes":{"a":{"N":"6"},"m":{"M":{"x":{"N":"6"}}}}`},
		} {
			c.is("UpdateItem", update("SET a = a + :v, m.x = m.x + :v", values(`":v":{"N":"1"}`), `"ReturnValues":"`+step.returned+`"`), step.want)
		}
	}},
	{"update/ReturnValues of removed and created attributes", updateItem, func(c *run) {
		c.is("UpdateItem", update("SET a = :v", values(`":v":{"N":"1"}`), `"ReturnValues":"ALL_OLD"`), "")
		c.is("UpdateItem", update("SET b = :v", values(`":v":{"N":"1"}`), `"ReturnValues":"UPDATED_OLD"`), "")
		c.is("UpdateItem", update("REMOVE a", `"ReturnValues":"UPDATED_OLD"`), `"Attributes":{"a":{"N":"1"}}`)
		c.is("UpdateItem", update("REMOVE b", `"ReturnValues":"UPDATED_NEW"`), "")
	}},
	{"update/with a condition", updateItem, func(c *run) {
		request := update("SET a = :v", values(`":v":{"N":"1"}`), condition("attribute_exists(pk)"))
		c.fails("UpdateItem", request, failed)
		c.absent()
		c.given("")
		c.is("UpdateItem", request, "")
		c.stored(`"a":{"N":"1"}`)
	}},
	{"update/a failed condition can show the item", updateItem, func(c *run) {
		c.given(`"a":{"N":"1"}`)
		for _, request := range []struct{ operation, parameters string }{
			{"UpdateItem", update("SET a = :v", values(`":v":{"N":"2"}`), condition("attribute_not_exists(a)"))},
			{"DeleteItem", on("simple", "", condition("attribute_not_exists(a)"))},
		} {
			a := c.fails(request.operation, with(request.parameters, `"ReturnValuesOnConditionCheckFailure":"ALL_OLD"`), failed)
			if what := mismatch(c.wanted(`"Item":{`+partition+`,"a":{"N":"1"}}`), a.document, true); a.code == failed && what != "" {
				c.differ("%s: %s", request.operation, what)
			}
			a = c.fails(request.operation, request.parameters, failed)
			if at(a.document, "Item") != nil {
				c.differ("%s shows the item unasked", request.operation)
			}
		}
	}},
	{"update/invalid values are rejected", attributes, func(c *run) {
		c.given("")
		for _, v := range []string{`{"SS":[]}`, `{"NS":["1","1.0"]}`, `{"N":"x"}`, `{"NULL":false}`, `{}`, `{"S":"a","N":"1"}`} {
			c.about(v)
			c.fails("UpdateItem", update("SET a = :v", values(`":v":`+v)), validation)
		}
		c.about("")
		c.stored("")
	}},
	{"update/paths that overlap are rejected", updates, func(c *run) {
		c.given(`"m":{"M":{}}`)
		for _, expression := range []string{"SET a = :v, a = :v", "SET a = :v REMOVE a", "SET m = :v, m.x = :v", "SET m[0] = :v REMOVE m"} {
			c.about(expression)
			c.fails("UpdateItem", update(expression, values(`":v":{"N":"1"}`)), validation, "Two document paths overlap with each other")
		}
	}},
	{"update/a section that occurs twice is rejected", updates, func(c *run) {
		c.fails("UpdateItem", update("SET a = :v SET b = :v", values(`":v":{"N":"1"}`)), validation, `The "SET" section can only be used once in an update expression`)
	}},
	{"update/invalid syntax is rejected", updates, func(c *run) {
		for _, expression := range []string{"SET a", "SET a = ", "a = :v", "SET a = :v,", "ADD a = :v", "SET a = :v + :v + :v", "SET (a) = :v", "SET a[:v] = :v"} {
			c.about(expression)
			c.fails("UpdateItem", update(expression, values(`":v":{"N":"1"}`)), validation, "Invalid UpdateExpression: ")
		}
		c.about("")
		c.fails("UpdateItem", update(""), validation, "Invalid UpdateExpression: The expression can not be empty")
	}},
	{"update/invalid operands of functions are rejected", updates, func(c *run) {
		c.given(`"l":{"L":[]}`)
		numbers, lists := values(`":a":{"N":"1"},":b":{"N":"2"}`), values(`":a":{"L":[]},":b":{"L":[]}`)
		c.fails("UpdateItem", update("SET n = if_not_exists(n, :a + :b)", numbers), validation, "Syntax error")
		c.fails("UpdateItem", update("SET l = list_append(list_append(l, :a), :b)", lists), validation, "The function is not allowed to be used this way in an expression; function: list_append")
		c.is("UpdateItem", update("SET n = if_not_exists(n, :a) + :b", numbers), "")
		c.is("UpdateItem", update("SET l = list_append(if_not_exists(l, :a), :b)", lists), "")
	}},
	{"update/names must begin with a letter", names, func(c *run) {
		c.fails("UpdateItem", update("SET _a = :v", values(`":v":{"N":"1"}`)), validation, "Syntax error")
		c.is("UpdateItem", update("SET #_a = :_v", called(`"#_a":"_a"`), values(`":_v":{"N":"1"}`)), "")
		c.stored(`"_a":{"N":"1"}`)
	}},
	{"update/the depth of paths and the indexes of lists are limited", updates, func(c *run) {
		c.given("")
		c.fails("UpdateItem", update("REMOVE a"+strings.Repeat(".b", 32)), validation, "The document path has too many nesting levels; nesting levels: 33")
		c.fails("UpdateItem", update("REMOVE a[2147483648]"), validation, "List index is not within the allowable range; index: [2147483648]")
	}},
	{"update/reserved words need a placeholder", names, func(c *run) {
		for _, word := range []string{"name", "STATUS", "Data"} {
			c.fails("UpdateItem", update("SET "+word+" = :v", values(`":v":{"N":"1"}`)), validation, "Attribute name is a reserved keyword; reserved keyword: "+word)
		}
		c.is("UpdateItem", update("SET #n = :v", called(`"#n":"name"`), values(`":v":{"N":"1"}`)), "")
		c.stored(`"name":{"N":"1"}`)
	}},
	{"update/undefined placeholders are rejected", names, func(c *run) {
		c.fails("UpdateItem", update("SET a = :w", values(`":v":{"N":"1"}`)), validation, "An expression attribute value used in expression is not defined; attribute value: :w")
		c.fails("UpdateItem", update("SET #b = :v", called(`"#a":"a"`), values(`":v":{"N":"1"}`)), validation,
			"An expression attribute name used in the document path is not defined; attribute name: #b")
	}},
	{"update/unused placeholders are rejected", names, func(c *run) {
		c.fails("UpdateItem", update("SET a = :v", values(`":v":{"N":"1"},":w":{"N":"1"}`)), validation,
			"Value provided in ExpressionAttributeValues unused in expressions: keys: {:w}")
		c.fails("UpdateItem", update("SET a = :v", called(`"#a":"a"`), values(`":v":{"N":"1"}`)), validation,
			"Value provided in ExpressionAttributeNames unused in expressions: keys: {#a}")
	}},
	{"update/placeholders without an expression are rejected", names, func(c *run) {
		c.fails("UpdateItem", on("simple", "", values(`":v":{"N":"1"}`)), validation, "ExpressionAttributeValues can only be specified when using expressions")
		c.fails("UpdateItem", on("simple", "", called(`"#a":"a"`)), validation, "ExpressionAttributeNames can only be specified when using expressions")
	}},
	{"update/misplaced functions are rejected", updates, func(c *run) {
		c.given(`"a":{"N":"1"}`)
		c.fails("UpdateItem", update("SET a = size(a)"), validation)
		c.fails("UpdateItem", update("SET a = nothing(a)"), validation)
		c.fails("UpdateItem", update("SET a = list_append(a, a)"), validation)
	}},
}
