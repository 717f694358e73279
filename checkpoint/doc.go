// Package checkpoint is the ledger: records and leases in a Bigtable table. Its durable rows say
// how far everything is applied, and which worker may move it on.
//
// There is one row for the pipeline, one per source table, one per shard, and one per table for its coordinator; each is changed
// only by compare-and-set on the row's counter, which every write raises. The package enforces, and cites where it does:
//
//	I3  the checkpoint of a shard covers a contiguous applied prefix: Commit takes what the caller has made durable, and
//	    positions never move back except by Reopen, which follows a declared gap
//	I4  every shard is waiting, reading, done or gap; none vanishes before Removable says so
//	I5  no silent loss: what cannot be continued becomes a gap, and a gap raises the generation
//	I6  only the holder of the newest epoch writes a shard's row: every write names the counter it saw
//
// Leases and clocks are efficiency, not correctness: the guard of the target refuses what a late owner may still write.
package checkpoint
