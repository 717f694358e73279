// Package expression evaluates DynamoDB's expressions. DynamoDB's expressions are conditions and
// filters, key conditions, projections and updates. The package has one evaluator, and two syntaxes
// for conditions:
//
//   - the syntax of requests to DynamoDB, with placeholders for values and unusual names
//     (ParseCondition), and
//   - the syntax of the configuration, with the values and names themselves (ParseWhen):
//     begins_with(PK, "VIDEO#") AND SK = "META".
//
// # Semantics
//
// The semantics are DynamoDB's. A comparison with a missing attribute is false, except <>, which is
// true. Values of different types are different and have no order. Numbers compare by value with
// all 38 digits, strings and binaries by their bytes, sets without regard to order. size counts the
// UTF-16 units of a string (an emoji has two), the bytes of a binary, and the members of sets,
// lists and maps. The parser rejects a malformed condition. Evaluation cannot fail, allocates
// nothing and depends only on the item.
//
// Source: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Expressions.OperatorsAndFunctions.html
package expression
