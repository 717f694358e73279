// Package reverse compares rows with their items.
//
// While DynamoDB follows Bigtable, the row decides: an item that differs from its row is wrong. The
// comparison reads all rows and looks up their items, and it scans all items and looks up their
// rows. It writes no item, because only the leader of the way back may do that. A repair writes the
// keys of differing rows to the ledger, and waits until the leader has looked at them.
//
//	V1  A difference counts only if it is found again after changes that were in flight had time
//	    to arrive, unless no process writes to either side.
//	V2  The same decision as the leader's says whether an item equals its row (fallback.Compare).
//	V3  No number of rows or differences makes the comparison need more memory.
package reverse
