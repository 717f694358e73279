// Package transform maps items to rows, without input or output. It reads no clock and starts no
// goroutine.
//
// A Mapping computes an item's row (Row) and cells (Cells). Fold turns a page of a stream's changes
// into a Batch of idempotent RowMutations. Load does the same with a page of a scan. Each mutation
// has the Version that ranks it in the history of its item. The guard of package sink applies a
// mutation unless the row already holds the mutation's version or a higher version.
//
// Comments cite these invariants by number:
//
//	T1  Two items never map to one address, which is a row, or a cell of a row that items share:
//	    addresses are injective in the full primary key (Mapping.Row, compiler.keys).
//	T2  Every address that any image of an item in a page mapped to, and the newest image does not,
//	    is removed at the newest version (Fold): no row of an old address survives.
//	T3  A page names a row at most once per item: nothing depends on the order in which mutations
//	    are executed.
//	T4  Versions rise strictly along the records of an item (Version).
//	T5  An image that cannot be mapped is parked whole, after everything that the item owned was
//	    removed at its version (Fold, Load): nothing is skipped silently, and nothing stale stays.
//	T6  The part of a row that an item owns follows from its primary key and its rule: families that
//	    no other rule of that row writes, columns by name, or one cell. Items that share a row have
//	    versions of their own (compiler.own, Mapping.mutations).
//
// An application can compile the same rules and compute the same keys and cells. ParseTemplate,
// ParseFamily and expression.ParseWhen read the words of the configuration, and New makes a
// Mapping of them. The methods Row, Map and Addresses of a Mapping return an item's row, its
// cells, and the addresses that it owns. Invert returns the item of a row, if the mapping allows
// it (NotInvertible). A mapping is a pure function of the item and safe for use by many
// goroutines. While replicator runs, an application must write these rows under the guard of
// package sink. It may read them without the guard. The meaning of a Spec does not change within
// a major version, because existing rows depend on it.
//
// Rules (Spec, New) describe in the words of the configuration how items become rows. Check finds
// mistakes in them before anything runs. NewMapping makes a mapping without rules.
package transform
