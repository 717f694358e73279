// Package transform maps items to rows, without input or output. It has no clock and no
// concurrency.
//
// A Mapping gives an item its row (Row) and its cells (Cells). Fold turns a page of a stream's changes, and Load a page of a
// scan, into a Batch of idempotent RowMutations, each with the Version that ranks it in the history of its item. The
// guard of package sink applies a mutation unless the row already holds a version as high.
//
// Invariants, cited where they are kept:
//
//	T1  Two items never map to one address, which is a row, or a cell of one that items share: addresses are injective in the
//	    full primary key (Mapping.Row, compiler.keys).
//	T2  Every address that any image of an item in a page mapped to, and the newest image does not, is removed at the newest
//	    version (Fold): no row of an old address survives.
//	T3  A page names a row at most once per item: nothing depends on the order in which mutations are executed.
//	T4  Versions rise strictly along the records of an item (Version).
//	T5  What cannot be mapped is parked whole, after everything the item owned was removed at its version (Fold, Load):
//	    nothing is skipped silently, and nothing stale stays behind.
//	T6  What an item owns of a row follows from its primary key and its rule: families that no other rule of that row writes,
//	    columns by name, or one cell. Items that share a row have versions of their own (compiler.own, Mapping.mutations).
//
// An application that computes the same keys and cells compiles the same rules: ParseTemplate, ParseFamily and expression.ParseWhen read
// the words of the configuration, New makes a Mapping of them, and its Row, Map and Addresses tell where an item lives, what it is there, and what
// it owns. A mapping is a pure function of the item and safe for use by many goroutines. What is written by it must be written under the guard of package
// sink while the replicator runs; reading needs nothing of it. The meaning of a Spec does not change within a major version: the cells of the
// rows that exist depend on it.
//
// Rules (Spec, New) say in the words of the configuration what items become; Check finds what is wrong with them before anything
// runs. NewMapping is the mapping without rules.
package transform
