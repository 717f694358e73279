// Package attribute holds DynamoDB items: values of ten types and their JSON. It imports no client
// and no other package of this module. So mappings, expressions and the embedded service share one
// meaning of a value.
package attribute
