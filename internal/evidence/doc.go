// Package evidence writes what a cutover leaves behind for those who ask later: a folder with one page
// that needs nothing else, the same as JSON, the shards and the timeline as tables, and the SHA-256 of
// every file. It renders what was read of the ledger, and reads nothing itself. It holds no data of
// items: of those that are parked or were written too late it has the hashes of their keys.
package evidence
