// Package sink writes rows to Bigtable under the guard; parks what it cannot. A Writer sends each
// row as one conditional request, with bounded concurrency.
//
// The guard (Guard) is the heart. Every write of ours is one CheckAndMutateRow that does nothing if the row already holds a
// version as high, live or as a tombstone, and otherwise replaces what the item owns and the version, atomically. So every
// execution sets a row to the maximum of what it held and what the request carries. Maximum is associative, commutative and
// idempotent: repeats, late attempts, paused writers, replays and reordering add nothing.
//
// Invariants, cited where they are kept:
//
//	S1  A row's version never falls. No filter on the latest cell stands between the versions and the predicate.
//	S2  Every request of ours sets _cdc:v or _cdc_gone:v, so that it is rejected as a whole once those families are gone.
//	S3  Write returns nil only when every row is durable (applied or refused as stale) and every parked record is stored.
//	S4  An unknown outcome is answered by the identical request, never by assuming; where older cells are kept, by another look,
//	    which finds what was executed (KeepOlder).
//	S5  No item data in errors and events: keys and values never leave this package but to the target.
package sink
