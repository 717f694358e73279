// Package evidence writes the report of a finished cutover. It is a folder: one page that needs no
// other file, the same as JSON, shards and timeline as tables, and the SHA-256 of every file. It
// renders what was read of the ledger, and reads nothing itself. It holds no data of items: of
// those that are parked or were written too late it has the hashes of their keys.
package evidence
