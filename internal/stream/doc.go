// Package stream keeps the ledger in step with a stream. It lists shards, ranks them and finds
// gaps. Its Reconciler runs under the coordinator lease.
package stream
