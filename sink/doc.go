// Package sink writes rows to Bigtable, and parks items that it cannot write. A Writer sends each
// row as one conditional request, with bounded concurrency.
//
// Every write is one CheckAndMutateRow, which the guard builds (Guard). The request does nothing if
// the row already holds the same or a higher version, live or as a tombstone. Otherwise the request
// replaces the item's cells and the version, atomically. So after every execution, the row holds
// the content with the higher version: its own or the request's. This maximum is associative,
// commutative and idempotent, so repeats, late attempts, paused writers, replays and reordering do
// no harm.
//
// Comments cite these invariants by number:
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
