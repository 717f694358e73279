// Package verify compares items with rows, cell by cell. It finds rows that are missing, rows that
// differ, rows whose item is gone, and cells in managed families that replicator did not write.
//
// A quiet table is read once on each side into sums over 2^20 buckets of rows (Sums); only rows of
// buckets that differ are looked at. Where changes would make every bucket differ, each page of the
// source is mapped and its rows are looked up, and rows that should not be there are looked for in
// buckets whose addresses differ. The two ways share their second half (Forward, Backward), and the
// judgement of a row (Judge), which is that of a repair: sink.Holds and sink.Compare.
//
// Invariants, cited where they are enforced:
//
//   - V1 A row counts as different only after two looks: the second, Settle after everything that
//     was committed before the first is applied, reads the item consistently and finds the row
//     different still, at the version that it had. A version that rose has moved on, a row at count
//     0 is in flight, and what the time to live may have removed on one side is on both.
//   - V2 A range counts as compared only when it was read to its end: a read that breaks is an error,
//     and what was not read is named (Result.Unread). Nothing unread is clean.
//   - V3 What a part found is kept in one write with its position: a run that is resumed counts no
//     row twice and forgets none.
//   - V4 A sum commutes and does not cancel: it is the sum modulo 2^128 of keyed hashes of single
//     cells, so neither order, nor a cell that is there twice, nor rows that several items share
//     change its meaning (H96).
//   - V5 Memory is bounded: the sums, a page, and Bounds of candidates; what was left out is counted.
//
// The package neither backs off nor retries, it calls what the pipeline gave it for that, and it
// writes nothing to either side.
package verify
