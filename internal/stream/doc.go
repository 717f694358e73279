// Package stream makes the ledger agree with the stream of a table: it lists and ranks shards,
// notices new streams, and declares gaps. Its Reconciler runs under the lease of the coordinator.
package stream
