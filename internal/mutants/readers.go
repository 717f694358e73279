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
}
