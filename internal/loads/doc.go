// Package loads runs the backfill commands. Commands such as start and pause change the table's
// record in the ledger. Every worker reads the record within seconds.
package loads
