// Package loads runs the backfill commands. Commands such as start and pause change
// the table's record, which every worker reads within seconds.
package loads
