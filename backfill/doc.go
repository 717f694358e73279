// Package backfill copies the items of a table: scans, exports, limits.
//
// A load is a plan of parts, such as the segments of a parallel Scan. Each part is read page by
// page. Every page is written under the guard, and the part's progress is saved, so any worker can
// resume it after a stop or a crash. The source may change during the load, and the load needs no
// order relative to the stream. Loaded images have the lowest versions of their generation. So any
// change of the stream outranks them, regardless of which is written first. If an item is removed
// after it was read, the tombstone in its row rejects the loaded image.
//
// Comments cite these invariants by number:
//
//   - B1 A page counts as loaded only when all its rows are durable. The saved progress never
//     includes a page that is not loaded.
//   - B2 Every item that exists from before the load until its end is written at least once. This
//     holds even if the load stops and resumes many times. Repeated writes are harmless under the
//     guard.
//   - B3 An image never claims to be younger than it is. Its time is not later than the request for
//     its page.
//   - B4 Reads are strongly consistent. An eventually consistent read may show an item in a state
//     that the stream no longer corrects. Nothing would then ever correct the row.
//
// The package does not retry by itself. It calls the retry function that the caller passes. Only
// the functions of dynamodb.go call the AWS client. Their errors are *cdc.Error.
package backfill
