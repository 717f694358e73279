// Package expression parses and evaluates DynamoDB's expressions: update,
// condition and filter, key condition, and projection expressions, with their
// placeholders for names (#name) and values (:value).
//
// The grammar and the rules are those of the developer guide, "Using expressions in
// DynamoDB". Errors are *item.ValidationError in the service's own words. They
// contain names and the text of expressions, which hold no item data, and never
// values.
package expression
