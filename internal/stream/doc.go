// Package stream keeps the ledger in step with a stream: lists, ranks, gaps. Its Reconciler runs
// under the lease of the coordinator.
package stream
