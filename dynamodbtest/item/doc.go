// Package item is the wire form of DynamoDB's items. The values themselves come from package
// attribute.
//
// The JSON is canonical: attributes and members of sets are sorted, and a number has only one text.
// So equal items have equal bytes. The server relies on this to detect a write that changes
// nothing.
//
// Limits and rules come from the developer guide, "Service, account, and table quotas", "Naming
// rules and data types" and "Item sizes and formats"
// (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/).
//
// Error messages never contain attribute values or keys, only attribute names and types.
package item
