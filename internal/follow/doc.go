// Package follow replicates shards: one loop for each leased shard. The Assigner acquires leases. A
// Follower works under each and is the path of a change, one loop without a queue:
//
//	GetRecords ─► cdc.Reader.Read ─► transform.Fold ─► sink.Writer.Write ─► checkpoint.Lease.Commit
package follow
