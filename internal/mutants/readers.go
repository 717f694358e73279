package main

// inReaders are faults that were in the code, and that were found by reading it.
var inReaders = []mutant{
	{
		name: "the end of a stream is raised from the record of before", hazards: "H24", file: "internal/pipeline/keeper.go",
		old:  `k.raise(ctx, now.Generation, gap, func(s *checkpoint.TableState) { s.StreamEnded = true })`,
		new:  `k.raise(ctx, state.Generation, gap, func(s *checkpoint.TableState) { s.StreamEnded = true })`,
		test: "./internal/pipeline TestH24_TheEndOfAStreamIsFoundByAll", why: "a stream must be gone for the listing, and its table say that it is enabled",
	},
	{
		name: "a shard that is shown open after its end vouches on", hazards: "H75", file: "internal/pipeline/keeper.go",
		old: `			if s.State == checkpoint.Done {
				closed[s.ID] = true
			}
`,
		new:  ``,
		test: "./internal/pipeline TestH75_ListedOpen", why: "one seed of five hundred has an outage of a day after listings that were stale for hours",
	},
	{
		name: "a shard that is not read yet is as far as its parent's reader", hazards: "", file: "cmd/replicator/shardstatus.go",
		old:  `return l.passedOn(parent), true, coveredHere`,
		new:  `return parent.DoneAt, true, coveredHere`,
		test: "./cmd/replicator TestLagOfAShardThatIsNotReadYet", why: "for people",
	},
	{
		name: "a shard counts in the lag from its first page on", hazards: "", file: "internal/pipeline/follow.go",
		old: `	t.board.take(shard)
`,
		new:  ``,
		test: "./internal/pipeline TestLagOfAShardWhoseFirstPage", why: "for people",
	},
	{
		name: "a gap that nobody declared is not told", hazards: "", file: "cmd/replicator/migration.go",
		old: `		t.undeclared(in)
`,
		new:  ``,
		test: "./cmd/replicator TestAGapThatNobodyDeclared", why: "for people",
	},
	{
		name: "a changed answer of the stream is taken as it came", hazards: "", file: "cdc/strict.go",
		old: `	resp.Body = Checked(resp.Response)
`,
		new:  ``,
		test: "./cdc TestAnswersAreHeldAgainst", why: "the model has no wire",
	},
	{
		name: "a changed answer of the table is taken as it came", hazards: "", file: "backfill/dynamodb.go",
		old: `	r.Body = cdc.Checked(r.Response)
`,
		new:  ``,
		test: "./backfill TestPagesAreHeldAgainst", why: "the model has no wire",
	},
	{
		name: "once: a dropped table's stream is over at once", hazards: "H18", file: "internal/pipeline/keeper.go",
		old:  `k.board.setOver(k.dropped && began-k.since >= lasting)`,
		new:  `k.board.setOver(k.dropped)`,
		test: "./internal/sim TestNamedTableIsDroppedWhileARunEnds", why: "a table must be dropped just after a roll, while a run is to end by itself",
	},
	{
		name: "an item is measured when all its cells are made", hazards: "H38", file: "transform/encoding.go",
		old:  `c.total += len(cell.Qualifier) + len(cell.Value); c.total > MaxRowBytes {`,
		new:  `c.total += len(cell.Value); c.total > MaxRowBytes {`,
		test: "./transform TestH38_ManyMembers", why: "it takes more memory than a worker has, and is parked all the same",
	},
	{
		name: "a trouble begins with each lease", hazards: "", file: "internal/pipeline/follow.go",
		old: `		t.vain.giveUp(shard.ID, task.Mono(work))
`,
		new:  ``,
		test: "./internal/pipeline TestTroubleOfWhatIsGivenUp", why: "for people",
	},
	{
		name: "a stop waits for the next attempt of a copy", hazards: "", file: "internal/pipeline/copy.go",
		old:  `return t.retryUntil(stop, ctx, "copy", op)`,
		new:  `return t.retry(ctx, "copy", op)`,
		test: "./internal/pipeline TestAStopEndsTheWaits", why: "a stop must come while the source does not answer, and the grace be short",
	},
	{
		name: "a target that was lost while nobody runs is in sync", hazards: "H45", file: "cmd/replicator/statuswitness.go",
		old: `	case verdict == checkpoint.TargetLost:
		return targetFinding{cause: "the target table was created anew or restored: rows are missing, and the next worker declares a gap"}, true
`,
		new:  ``,
		test: "./cmd/replicator TestATargetThatIsLost", why: "for people",
	},
	{
		name: "a dropped table whose last shards nobody listed is in sync", hazards: "", file: "cmd/replicator/shardstatus.go",
		old:  `dropped := named && aside == pipeline.GoneReason`,
		new:  `dropped := false && named && aside == pipeline.GoneReason`,
		test: "./cmd/replicator TestADroppedTableWhoseLastShards", why: "for people",
	},
}
