// Package attribute holds DynamoDB items: values of ten types and their JSON. It depends on nothing
// of ours and on no client, so that a mapping, an expression or an embedded service can share one
// meaning of a value.
package attribute
