// Package attribute holds DynamoDB items: values of ten types and their JSON. It imports no other
// package of this module and no client, so mappings, expressions and the embedded service can share
// one meaning of a value.
package attribute
