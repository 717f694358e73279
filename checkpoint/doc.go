// Package checkpoint keeps the ledger: records and leases in a Bigtable table. Its durable rows say
// how far changes are applied, and which worker may advance each checkpoint.
//
// The pipeline has one row. Each source table has one row, and its coordinator has another. Each
// shard has one row. A row is changed only by compare-and-set on its counter, which every write
// raises. The package enforces these invariants, and its comments cite them by number:
//
//	I3  the checkpoint of a shard covers a contiguous applied prefix: Commit takes progress that the
//	    caller has made durable, and positions never move back except by Reopen, which follows a
//	    declared gap
//	I4  every shard is waiting, reading, done or gap; no row is deleted before Removable returns it
//	I5  no silent loss: a shard that cannot be continued becomes a gap, and a gap raises the
//	    generation
//	I6  only the holder of the newest epoch writes a shard's row: every write names the counter that
//	    it saw
//
// Leases and clocks serve efficiency, not correctness: the target's guard refuses late writes of a
// former owner.
package checkpoint
