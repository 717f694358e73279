// Package sink writes rows to Bigtable; parks items that it cannot write. A Writer sends each row
// as one conditional request, with bounded concurrency.
//
// The guard (Guard) is the core. Every write is one CheckAndMutateRow. It does nothing if the row
// already holds the same or a higher version, live or as a tombstone. Otherwise it replaces the
// item's cells and the version, atomically. So every execution sets a row to the maximum of its
// content and the request's. Maximum is associative, commutative and idempotent, so repeats, late
// attempts, paused writers, replays and reordering do no harm.
//
// Invariants, cited where the code keeps them:
//
//	S1  A row's version never falls. The predicate sees all version cells, not only the latest.
//	S2  Every request sets _cdc:v or _cdc_gone:v, so it is rejected as a whole once those families
//	    are dropped.
//	S3  Write returns nil only when every row is durable (applied or refused as stale) and every
//	    parked record is stored.
//	S4  After an unknown outcome the identical request is sent again; nothing is assumed. Where older
//	    cells are kept, the row is read again, which shows whether the request was executed
//	    (KeepOlder).
//	S5  Errors and events hold no item data: keys and values leave this package only for the target.
package sink
