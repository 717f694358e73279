package sim

// Effects are the faults that must have taken effect over a number of seeds; otherwise the simulation proves less than it says.
func Effects() []string {
	return []string{
		"all workers down", "call throttled", "change trimmed before it was applied", "child listed before its parent", "clean stop",
		"closed shard shown open", "empty pages", "ended stream not found", "horizon after a trim, without an error", "item moved to another row",
		"item parked", "iterator expired", "iterator too old", "ledger exchanged", "ledger lost", "ledger restored", "mapping changed", "new stream",
		"nothing read for 18 hours", "page of a scan without items", "parked item healed", "poison item", "process killed", "process paused", "reply lost", "request dropped",
		"request executed after a newer one", "request executed after its caller gave up", "request executed late", "request executed twice", "rival write of a table's record",
		"row rejected", "sequence numbers grew longer", "sequence numbers restarted", "server clock wrong", "service denied", "service unavailable",
		"shard gone", "shard listed late", "shard missing from listings", "shard rolled", "shard split", "slow message", "stream disabled",
		"target exchanged", "target lost", "target restored", "time ran back", "tombstone collected", "trimmed shards stay listed", "worker clock jumped",
		"worker clock stood still", "worker clock wrong from its start", "worker cut off", "worker gone after a ledger write",
		"write throttled",
	}
}
