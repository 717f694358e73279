// Package attribute is what DynamoDB stores: items, their attribute values of ten types, numbers in
// their canonical text, and the JSON that DynamoDB writes them in. It depends on nothing of ours and on
// no client, so that a mapping, an expression or an embedded service can share one meaning of a value.
package attribute
