// Package verify compares items with rows, cell by cell. It finds four kinds of differences: rows
// that are missing, rows that differ, rows whose item was deleted, and cells in managed families
// that replicator did not write.
//
// A quiet table is read once on each side. The reads compute sums over 2^20 buckets of rows (Sums),
// and only rows of buckets that differ are checked. In a busy table, changes would make every
// bucket differ. So each page of the source is mapped and its rows are read. Extra rows are
// searched in the buckets whose sums of addresses differ. Both methods share the second phase and
// the judgement of a row (Judge). A repair judges rows in the same way: sink.Holds and
// sink.Compare.
//
// Comments cite these invariants by number:
//
//   - V1 A row counts as different only after two checks. The second check comes Settle after
//     everything committed before the first check is applied. The second check reads the item
//     consistently, and finds that the row still differs at the same version. A row with a higher
//     version than before is checked again. A row at count 0 is in flight. An item that a TTL
//     deletion may have removed on one side counts as removed on both sides.
//   - V2 A range counts as compared only if it was read to its end. A read that breaks is an error,
//     and Result.Unread names the parts that were not read. A comparison with an unread part is
//     never clean.
//   - V3 A part's findings, sums and waiting rows are stored in the same write as its position. So
//     a resumed run counts no row twice and loses none.
//   - V4 A sum commutes and does not cancel. It is the sum modulo 2^128 of keyed hashes of single
//     cells. So its meaning does not depend on the order of cells, on a cell that occurs twice, or
//     on items that share a row (H96).
//   - V5 Memory is bounded: a part keeps the sums, a page, and candidates within Bounds. Findings
//     beyond Bounds are counted but not kept.
//
// The package does not retry by itself. It calls the retry function that the caller passes. It
// writes nothing to either side.
package verify
