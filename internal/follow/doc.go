// Package follow replicates shards: one loop for each leased shard. The Assigner acquires leases.
// Under each lease, a follower replicates the changes of its shard, in one loop without queues:
//
//	GetRecords ─► cdc.Reader.Read ─► transform.Fold ─► sink.Writer.Write ─► checkpoint.Lease.Commit
package follow
