package main

// inKeepers are bugs that somebody planted beside what keeps the ledger, the seats and the shards: what is rarely told, and what is done once.
var inKeepers = []mutant{
	{
		name: "a shard that is done keeps its rate", hazards: "", file: "checkpoint/lease.go",
		old: `	if s.Owner != "" { // of a shard that nobody reads there is no rate
		s.Rate = p.Rate
	}
`,
		new: `	s.Rate = p.Rate
`,
		test: "./checkpoint TestRateOfAShardThatNobodyReads", why: "for people",
	},
	{
		name: "a shard whose lease a raise took keeps its rate", hazards: "", file: "checkpoint/table.go",
		old: `			s.Sign, s.Rate = l.unowned(ctx), 0
`,
		new: `			s.Sign = l.unowned(ctx)
`,
		test: "./checkpoint TestRateOfAShardThatNobodyReads", why: "for people",
	},
	{
		name: "what is read on after a gap is still called trimmed", hazards: "", file: "checkpoint/shard.go",
		old:  `s.State, s.Loss, s.Reason, s.Owner = Waiting, "", "", ""`,
		new:  `s.State, s.Owner = Waiting, ""`,
		test: "./checkpoint TestReopen", why: "its row is never removed, which takes days to be seen",
	},
	{
		name: "a witness counts as ours before it is written", hazards: "H68", file: "checkpoint/witness.go",
		old: `	next := Witness{Ledger`,
		new: `	l.mu.Lock()
	l.claimed[held] = true
	l.mu.Unlock()
	next := Witness{Ledger`,
		test: "./checkpoint TestH68_AWitnessThatWasNotWritten", why: "another pipeline must take the witness between two calls of the first beat",
	},
	{
		name: "a record of a table does not tell when it was written", hazards: "", file: "checkpoint/table.go",
		old: `		state.Changed = task.Now(ctx).UTC()
`,
		new:  ``,
		test: "./checkpoint TestUpdateTable", why: "for people",
	},
	{
		name: "a seat is not signed until it is renewed", hazards: "", file: "checkpoint/keeper.go",
		old:  `record.Owner, record.Sign = l.worker, l.sign(ctx, Trouble{})`,
		new:  `record.Owner = l.worker`,
		test: "./checkpoint TestSignOfTheSeat", why: "for people",
	},
}
