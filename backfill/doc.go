// Package backfill copies the items of a table: scans, exports, limits.
//
// A load is a plan of parts, such as the segments of a parallel Scan. Each part is read page by
// page. Every page is written under the guard, and the part's progress is saved, so any worker can
// resume it after a stop or a crash. The source may change meanwhile, and the load needs no order
// relative to the stream. Loaded images have the lowest versions of their generation, so any change
// of the stream outranks them, in any order of the writes. A tombstone rejects an item that was
// removed after it was read.
//
// Invariants, cited where they are enforced:
//
//   - B1 A page counts as loaded only when all its rows are durable; the saved progress never runs ahead of that.
//   - B2 Every item that exists from before the load until its end is written at least once, however
//     often the load stops and resumes. Repeated writes are harmless under the guard.
//   - B3 An image never claims to be younger than it is: its time is not later than the request for //     its page.
//   - B4 Reads are strongly consistent. An eventually consistent one may show an item as it was before
//     the point from which the stream is known to be complete, and nothing would ever correct it.
//
// The package does not retry by itself; it calls the retry function that the pipeline passes. Only
// the functions of dynamodb.go call the AWS client; their errors are *cdc.Error.
package backfill
