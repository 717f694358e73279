package sim

// Effects are the faults that must have taken effect over a number of seeds; otherwise the simulation proves less than it says.
func Effects() []string {
	return []string{
		"all workers down", "call throttled", "change trimmed before it was applied", "child listed before its parent", "clean stop",
		"closed shard shown open", "drained to the end", "dry run", "empty pages", "ended stream not found",
		"horizon after a trim, without an error", "item moved to another row", "item parked", "item read slowly", "item removed by its time to live", "iterator expired", "iterator too old",
		"ledger exchanged", "ledger lost", "ledger restored", "mapping changed", "new stream", "no answer for minutes", "no answer of the control plane", "nothing read for 18 hours",
		"one call fails at the source", "one call fails at the target", "page of a scan without items", "page with changes that were read before", "parked item given up", "parked item healed",
		"parked item retried", "parked item superseded", "poison item", "process killed", "process paused", "read broken off", "reply lost", "request dropped",
		"request executed after a newer one", "request executed after its caller gave up", "request executed late", "request executed twice",
		"rival write of a table's record", "row rejected", "row repaired", "rows read at several moments", "sequence numbers grew longer",
		"sequence numbers restarted", "server clock wrong", "service denied", "service unavailable", "shard gone", "shard listed late",
		"shard missing from listings", "shard rolled", "shard split", "shards rolled behind stale listings", "slow message", "stream disabled", "stream disabled while nobody runs",
		"stream enabled again long after", "stream without images",
		"table described late", "table out of sight", "table set aside", "target exchanged", "target lost", "target restored", "time ran back", "tombstone collected",
		"trimmed shards stay listed", "worker clock jumped", "worker clock stood still", "worker clock wrong from its start", "worker cut off",
		"worker ended by a limit of parked items", "worker ended by an item", "worker ended by another cluster", "worker gone after a ledger write",
		"worker stood still at a ledger write", "write throttled",
	}
}
