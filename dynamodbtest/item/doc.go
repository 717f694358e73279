// Package item holds DynamoDB items as DynamoDB itself sees them: the ten
// attribute types, their validation, their sizes, the canonical text of
// numbers, and a JSON codec for the wire form {"name":{"TYPE":value}}.
//
// An Item is kept sorted by attribute name and every set is kept sorted, so
// that two equal items have equal canonical JSON (AppendJSON). The server relies
// on that to see that a write changed nothing.
//
// Limits and rules are those of the developer guide, "Service, account, and
// table quotas", "Naming rules and data types" and "Item sizes and formats"
// (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/).
//
// Error messages never contain attribute values or keys; attribute names and
// types only.
package item
