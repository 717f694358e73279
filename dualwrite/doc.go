// Package dualwrite writes items to both databases, for applications. It uses the mapping of the
// same replicator.yaml as replicator, and the same guard.
//
// It writes DynamoDB first, under a condition, and Bigtable second. A failure between the two
// writes loses nothing, because replicator brings every change of DynamoDB to Bigtable. An *Error
// says what each store has, and whether the caller may repeat the call.
//
// With dual_writes.version_attribute each item carries a number. Put and Delete expect the number
// that the item had when the caller read it, and raise the number by one. A created item gets the
// milliseconds since 1970 as its number, and usually costs one request to each store. If its row
// refuses it, the row may remember a higher number of a removed item. Then the item is written
// again in both stores, with one more than that number. If that fails, or Bigtable does not answer,
// replicator writes the row, regardless of the number that it remembers. Rows are written under
// replicator's own guard and ranked by the number. So a late write never replaces a newer one.
//
// With dual_writes.settle instead, the row gets cells with this process's time, as any application
// writes them. Replicator writes the row a second time when the time of dual_writes.settle has
// passed. In this mode, Put has no condition and overwrites the item. A removal leaves the row's
// tombstone unchanged, because the stream has no record of the removal of an absent item.
//
// docs/how-to/version-attribute.md says what the application must do. Other languages follow the
// rules of docs/how-to/dual-writes-recipe.md. The programs in examples/dualwrite follow these
// rules. testdata/vectors.json has the requests that such a program must send.
package dualwrite
