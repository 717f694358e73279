// Package evidence writes the report of a finished cutover. The report is a folder: one
// self-contained page, the same content as JSON, tables of shards and timeline, and the SHA-256 of
// every file. The package renders data of the ledger, but the caller must read the ledger. The
// report contains no item data: parked items and late writes appear as hashes of their keys.
package evidence
