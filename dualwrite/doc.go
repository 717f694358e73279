// Package dualwrite writes items to both databases, for applications. It uses the mapping and the
// guard of the same replicator.yaml.
//
// It writes DynamoDB first, under a condition, and Bigtable second. A failure between the two loses
// nothing, because replicator brings every change of DynamoDB to Bigtable. An *Error says what each
// store has, and whether the call may be repeated.
//
// With dual_writes.version_attribute each item carries a number. Put and Delete expect the number
// with which the caller read the item, and raise it by one. A created item gets the milliseconds
// since 1970, or one more than the number that its row remembers of a removed item. If the row
// cannot be read, the item is created only in DynamoDB, and replicator writes the row, whatever
// number it remembers. Rows are written under replicator's own guard, ranked by the number, so a
// late write never replaces a newer one.
//
// With dual_writes.settle the row gets cells with this process's time, as any application writes
// them. Replicator asserts the row again when the delay has passed. In this mode Put has no
// condition and overwrites the item. A removal leaves the tombstone of the row, because the stream
// has no record of the removal of an absent item.
//
// docs/how-to/version-attribute.md says what the application must do. Other languages follow the
// rules of docs/how-to/dual-writes-recipe.md. The programs in examples/dualwrite follow them, and
// testdata/vectors.json has the requests that such a program must send.
package dualwrite
