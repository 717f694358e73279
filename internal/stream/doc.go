// Package stream keeps the ledger in step with a table's stream. It lists and ranks shards, and
// finds gaps. Its Reconciler runs under the coordinator lease.
package stream
