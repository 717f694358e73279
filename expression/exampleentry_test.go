package expression_test

import (
	"fmt"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/expression"
)

// number returns a number of the examples.
func number(text string) attribute.Value {
	v, err := attribute.Number(text)
	if err != nil {
		panic(err)
	}
	return v
}

// order returns an item of the examples.
func order() attribute.Item {
	return attribute.NewItem([]attribute.Attribute{
		{Name: "customer", Value: attribute.String("c7")}, {Name: "number", Value: number("12")}, {Name: "state", Value: attribute.String("new")},
	})
}

// The expressions of a request share its names and values. A placeholder that no expression uses is
// an error.
func ExampleNewBindings() {
	bindings, err := expression.NewBindings(map[string]string{"#s": "state"}, map[string]attribute.Value{":new": attribute.String("new"), ":old": attribute.String("old")})
	if err != nil {
		panic(err)
	}
	condition, err := expression.ParseCondition("FilterExpression", "#s = :new", bindings)
	if err != nil {
		panic(err)
	}
	fmt.Println(condition.Match(order()))
	fmt.Println(bindings.CheckUsed())
	// Output:
	// true
	// Value provided in ExpressionAttributeValues unused in expressions: keys: {:old}
}

// A program checks a condition of a request on an item in memory.
func ExampleParseCondition() {
	bindings, err := expression.NewBindings(map[string]string{"#n": "number"}, map[string]attribute.Value{":ten": number("10")})
	if err != nil {
		panic(err)
	}
	condition, err := expression.ParseCondition("ConditionExpression", "attribute_exists(customer) AND #n > :ten", bindings)
	if err != nil {
		panic(err)
	}
	fmt.Println(condition.Match(order()), condition.Attributes())
	// Output: true [customer number]
}

// A key condition selects one partition, and a range of sort keys.
func ExampleParseKeyCondition() {
	bindings, err := expression.NewBindings(map[string]string{"#n": "number"}, map[string]attribute.Value{":c": attribute.String("c7"), ":from": number("10"), ":to": number("20")})
	if err != nil {
		panic(err)
	}
	keys, err := expression.ParseKeyCondition("customer = :c AND #n BETWEEN :from AND :to", []string{"customer"}, []string{"number"}, bindings)
	if err != nil {
		panic(err)
	}
	fmt.Println(keys.Hash()[0].Text(), keys.Match(order()))
	// Output: c7 true
}

// A projection keeps parts of an item.
func ExampleParseProjection() {
	bindings, err := expression.NewBindings(map[string]string{"#s": "state"}, nil)
	if err != nil {
		panic(err)
	}
	projection, err := expression.ParseProjection("customer, #s", bindings)
	if err != nil {
		panic(err)
	}
	text, err := attribute.MarshalItem(projection.Of(order()))
	fmt.Printf("%s %v\n", text, err)
	// Output: {"customer":{"S":"c7"},"state":{"S":"new"}} <nil>
}

// An update returns a changed copy of an item.
func ExampleParseUpdate() {
	bindings, err := expression.NewBindings(map[string]string{"#s": "state"}, map[string]attribute.Value{":paid": attribute.String("paid"), ":one": number("1")})
	if err != nil {
		panic(err)
	}
	update, err := expression.ParseUpdate("SET #s = :paid ADD payments :one", bindings)
	if err != nil {
		panic(err)
	}
	changed, err := update.Apply(order())
	if err != nil {
		panic(err)
	}
	text, err := attribute.MarshalItem(changed)
	fmt.Printf("%s %v\n", text, err)
	// Output: {"customer":{"S":"c7"},"number":{"N":"12"},"payments":{"N":"1"},"state":{"S":"paid"}} <nil>
}
