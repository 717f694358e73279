// Package expression evaluates DynamoDB's expressions. They are conditions and filters, key
// conditions, projections and updates. It has one evaluator and two ways to write a condition:
//
//   - as requests to DynamoDB do, with placeholders for values and for unusual names (ParseCondition), and
//   - with the values and names themselves (ParseWhen), as configuration does: begins_with(PK, "VIDEO#") AND SK = "META".
//
// # Semantics
//
// They are DynamoDB's. A comparison with an attribute that is not there is false, but <> is true of it. Values of different types
// are different and have no order. Numbers compare by value with all 38 digits, strings and binaries by their bytes, sets without
// regard to order. size counts the UTF-16 units of a string (an emoji has two), the bytes of a binary, and the members of everything else that has some.
// A malformed condition is refused when it is parsed; evaluation cannot fail, allocates nothing and depends on the item alone.
//
// Source: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Expressions.OperatorsAndFunctions.html
package expression
