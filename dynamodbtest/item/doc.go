// Package item is the wire form of DynamoDB's items. The values themselves are those of package
// cdc.
//
// The JSON is canonical: attributes and members of sets are sorted, numbers have one text, so that equal items have equal
// bytes. The server relies on that to see that a write changed nothing.
//
// Limits and rules are those of the developer guide, "Service, account, and
// table quotas", "Naming rules and data types" and "Item sizes and formats"
// (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/).
//
// Error messages never contain attribute values or keys; attribute names and
// types only.
package item
