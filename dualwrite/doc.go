// Package dualwrite writes items to both databases, for applications. It uses the mapping and the
// guard of the same replicator.yaml.
//
// DynamoDB is written first, under a condition, and Bigtable second. What fails in between is no
// loss: the replicator brings every change of DynamoDB to Bigtable. An *Error says which store has
// what, and whether the call may be repeated.
//
// With dual_writes.version_attribute each item carries a number. Put and Delete expect the number
// with which the caller read the item, and raise it by one; an item that is created gets the
// milliseconds since 1970, or one more than what its row says that a removed one had. While the row
// cannot be read the item is created in DynamoDB alone, and the replicator writes the row, whatever
// number that remembers. Rows are written under the replicator's own guard, ranked by the number,
// and so a late write never takes the place of a newer one.
//
// With dual_writes.settle the row gets cells with this process's time, as any application writes
// them, and the replicator asserts it again when the delay has passed. Then Put overwrites what is
// there, without a condition.
//
// docs/how-to/version-attribute.md says what the application must keep to. For other languages
// there are the rules of docs/how-to/dual-writes-recipe.md, the programs of examples/dualwrite that
// keep them, and testdata/vectors.json with the requests that such a program must make.
package dualwrite
