// Package follow replicates the shards that a worker leases. The Assigner acquires leases; a Follower
// works under each and is the path of a change, one loop without a queue:
//
//	GetRecords ─► cdc.Reader.Read ─► transform.Fold ─► sink.Writer.Write ─► checkpoint.Lease.Commit
package follow
