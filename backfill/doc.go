// Package backfill copies the items that a table holds: scans, exports, limits.
//
// A load is a plan of parts, such as the segments of a parallel Scan. Each is read page by page, every page is handed on to be
// written under the guard, and the part's progress is kept, from which anybody goes on after a stop or a crash. It needs no quiet source and no order against the stream: loaded
// images carry the lowest versions of their generation, so that any change of the stream beats them whichever is written
// first, and a tombstone refuses an item that was removed after it was read.
//
// Invariants, cited where they are enforced:
//
//   - B1 A page counts as loaded only when all its rows are durable; the saved progress never runs ahead of that.
//   - B2 Every item that exists from before the load until its end is written at least once, however often the load stops and
//     goes on. More than once is harmless under the guard.
//   - B3 An image never claims to be younger than it is: its time is not later than when its page was asked for.
//   - B4 Reads are strongly consistent. An eventually consistent one may show an item as it was before the point from which
//     the stream is known to be complete, and nothing would ever correct it.
//
// The package does not back off or retry; it calls what the pipeline gave it for that. The AWS client is used in one file,
// dynamodb.go, whose errors are *cdc.Error.
package backfill
