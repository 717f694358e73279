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
	{
		name: "what a keeper found out is forgotten when its seat is released", hazards: "H62", file: "internal/pipeline/keeper.go",
		old: `		if released := keeper.Release(ctx); err == nil {
			err = released
		}
		return err
`,
		new: `		return keeper.Release(ctx)
`,
		test: "./internal/pipeline TestH62_AKeeperEnds", why: "no named table of a whole day comes to have a stream that cannot be followed",
	},
	{
		name: "whoever was overtaken in a raise counts it as made", hazards: "H24", file: "internal/pipeline/keeper.go",
		old: `	return cmp.Or(err, overtaken)`,
		new: `	_ = overtaken
	return cmp.Or(err)`,
		test: "./internal/pipeline TestH24_AnOvertakenRaise", why: "two must raise in one moment, and the keeper looks again in its next round",
	},
	{
		name: "a shard that is lost for one reason is lost for every other", hazards: "H76", file: "internal/pipeline/keeper.go",
		old:  `if g.Shard == gap.Shard && g.Reason == gap.Reason {`,
		new:  `if g.Shard == gap.Shard {`,
		test: "./internal/pipeline TestH76_EachGapIsNoted", why: "a shard must lose its place in two ways",
	},
	{
		name: "of shards that are lost for one reason the first one is declared alone", hazards: "H76", file: "internal/pipeline/keeper.go",
		old:  `g.Shard == gap.Shard && g.Reason == gap.Reason {`,
		new:  `g.Reason == gap.Reason {`,
		test: "./internal/pipeline TestH76_EachGapIsNoted", why: "two lineages must be lost in one stream, one after the other",
	},
	{
		name: "after its first commit a shard is committed with every page", hazards: "", file: "internal/pipeline/follow.go",
		old: `			committed = now
`,
		new:  ``,
		test: "./internal/pipeline TestAQuietShardIsSeldom", why: "only costs writes of the ledger",
	},
	{
		name: "a read is of when it was answered", hazards: "H75", file: "internal/pipeline/follow.go",
		old: `		sent = task.Now(ctx)
		if page, err = reader.Read(ctx, from); err != nil {
			hand.drop(true)
		}
`,
		new: `		if page, err = reader.Read(ctx, from); err != nil {
			hand.drop(true)
		}
		sent = task.Now(ctx)
`,
		test: "./internal/pipeline TestH75_AReadIsOf", why: "the service tells the time with its answers",
	},
	{
		name: "of each table a shard is taken over in a pass", hazards: "", file: "internal/pipeline/balance.go",
		old: `	t.shares.tried(now)
`,
		new:  ``,
		test: "./internal/pipeline TestOneTryInAPass", why: "only moves more shards at once",
	},
	{
		name: "a stop waits for the next attempt", hazards: "", file: "internal/pipeline/retry.go",
		old:  `		if task.Sleep(stop, wait) != nil {`,
		new:  `		if task.Sleep(ctx, wait) != nil {`,
		test: "./internal/pipeline TestAStopEndsAWait", why: "whoever is left waits for a lease",
	},
	{
		name: "a table is set aside anew in every round", hazards: "", file: "internal/pipeline/join.go",
		old: `		if !told {
			s.Aside = checkpoint.Aside{Since: now, Reason: reason}
		}
`,
		new: `		s.Aside = checkpoint.Aside{Since: now, Reason: reason}
`,
		test: "./internal/pipeline TestSetAsideOnce", why: "a table that was dropped must be forgotten after two days",
	},
	{
		name: "a table that is aside stays so for the first reason", hazards: "", file: "internal/pipeline/join.go",
		old: `		told = s.Aside.Reason == reason
		if !told {`,
		new:  `		if told = s.Aside.Reason != ""; !told {`,
		test: "./internal/pipeline TestSetAsideOnce", why: "for people, and a table that was dropped after two days",
	},
	{
		name: "a dry run counts the empty pages of a shard over its changes", hazards: "", file: "internal/pipeline/dryrun.go",
		old: `			empty = 0
			continue
`,
		new: `			continue
`,
		test: "./internal/pipeline TestDryRunReadsOver", why: "dry runs of whole days promise nothing",
	},
	{
		name: "a dry run counts no reason any more once there are many", hazards: "", file: "internal/pipeline/dryrun.go",
		old:  `!known && len(r.found.Unmappable) >= rehearsalReasons`,
		new:  `(known || !known) && len(r.found.Unmappable) >= rehearsalReasons`,
		test: "./internal/pipeline TestDryRunBounds", why: "for people",
	},
	{
		name: "a stop hides that the ledger was exchanged", hazards: "H68", file: "internal/pipeline/pipeline.go",
		old:  `	if ctx.Err() != nil && !fatal(err) {`,
		new:  `	if ctx.Err() != nil {`,
		test: "./internal/pipeline TestAStopDoesNotHide", why: "for people: nothing more is written in any case",
	},
	{
		name: "who begins after a named table was dropped does not follow it", hazards: "H24", file: "internal/pipeline/stream.go",
		old: `	if cdc.Is(err, cdc.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return CheckSource`,
		new: `	if err != nil {
		return err
	}
	return CheckSource`,
		test: "./internal/pipeline TestADroppedTable", why: "a worker must begin within the day in which the stream can still be read",
	},
	{
		name: "that a stream is gone is asked again when children are listed", hazards: "H24", file: "cdc/listing.go",
		old:  `	case err != nil && (passing || l.after == ""):`,
		new:  `	case err != nil && (passing || l.pages == 0 && l.parent == ""):`,
		test: "./cdc TestListChildrenOfAStreamThatIsGone", why: "complete listings come every minute beside it",
	},
	{
		name: "the beats of a further target that was lost begin anew", hazards: "H69", file: "checkpoint/witness.go",
		old:  `beats[at.Further] = max(beats[at.Further], beat)`,
		new:  `beats[at.Further] = beat`,
		test: "./checkpoint TestH69_BeatsNeverGoBack", why: "a worker must end between two writes of a claim",
	},
	{
		name: "the first target counts as a further one", hazards: "H69", file: "internal/pipeline/keeper.go",
		old: `			at.Further = ""
`,
		new: `			at.Further = name
`,
		test: "./internal/pipeline TestWhatTheWitnessTold", why: "a ledger that was begun before must be gone on with",
	},
	{
		name: "a stop waits for a listing", hazards: "", file: "internal/pipeline/reads.go",
		old: `	ctx, end := s.reads.begin(ctx)
	defer end()
	return s.Source.ListPage`,
		new: `	_, end := s.reads.begin(ctx)
	defer end()
	return s.Source.ListPage`,
		test: "./internal/pipeline TestAStopEndsEveryCall", why: "whoever is left waits for a lease",
	},
	{
		name: "a stop waits for an iterator", hazards: "", file: "internal/pipeline/reads.go",
		old: `	ctx, end := s.reads.begin(ctx)
	defer end()
	return s.Source.Seek`,
		new: `	_, end := s.reads.begin(ctx)
	defer end()
	return s.Source.Seek`,
		test: "./internal/pipeline TestAStopEndsEveryCall", why: "whoever is left waits for a lease",
	},
	{
		name: "a stop waits for a description", hazards: "", file: "internal/pipeline/reads.go",
		old: `	ctx, end := d.reads.begin(ctx)
	defer end()
	return d.Database.Describe`,
		new: `	_, end := d.reads.begin(ctx)
	defer end()
	return d.Database.Describe`,
		test: "./internal/pipeline TestAStopEndsEveryCall", why: "whoever is left waits for a lease",
	},
	{
		name: "a stop waits for a page of a scan", hazards: "", file: "internal/pipeline/reads.go",
		old: `	ctx, end := d.reads.begin(ctx)
	defer end()
	return d.Database.Scan`,
		new: `	_, end := d.reads.begin(ctx)
	defer end()
	return d.Database.Scan`,
		test: "./internal/pipeline TestAStopEndsEveryCall", why: "whoever is left waits for a lease",
	},
	{
		name: "a table of another account is taken for a new stream", hazards: "H24", file: "internal/pipeline/stream.go",
		old:  `strings.Join(fields[1:5], ":")`,
		new:  `strings.Join(fields[1:4], ":")`,
		test: "./internal/pipeline TestTheTableOfThatNameElsewhere", why: "whole days have one account",
	},
	{
		name: "a stream that does not answer is over", hazards: "H24", file: "internal/pipeline/stream.go",
		old: `	if cdc.Is(err, cdc.NotFound) {
		return true, nil
	}
	return page.Ended, err`,
		new:  `	return page.Ended || err != nil, nil`,
		test: "./internal/pipeline TestH24_WhoDoesNotAnswer", why: "the table must give an old answer in the same moment",
	},
	{
		name: "of changes that are applied no rows are told", hazards: "", file: "internal/pipeline/follow.go",
		old: `t.events.Applied(t.source, Count(changes), rows)`,
		new: `_ = rows
		t.events.Applied(t.source, Count(changes), len(batch.Rows))`,
		test: "./internal/pipeline TestWhatWasAppliedIsTold", why: "for people",
	},
	{
		name: "the rate of a shard is of the rows that are left to write", hazards: "", file: "internal/pipeline/follow.go",
		old: `		at.Rate = rate.add(len(changes), task.Mono(ctx))
`,
		new: `		at.Rate = rate.add(len(batch.Rows), task.Mono(ctx))
`,
		test: "./internal/pipeline TestWhatWasAppliedIsTold", why: "for people",
	},
	{
		name: "a table is readmitted before it is looked for", hazards: "", file: "internal/pipeline/keeper.go",
		old: `		k.attend,
		k.readmit,
`,
		new: `		k.readmit,
		k.attend,
`,
		test: "./internal/pipeline TestADroppedTableStaysAside", why: "a table that was dropped must be forgotten after two days",
	},
	{
		name: "a table that joined joins again", hazards: "", file: "internal/pipeline/pipeline.go",
		old: `				defer joined.remove(t.source) // it may join again
`,
		new: `				joined.remove(t.source) // it may join again
`,
		test: "./internal/pipeline TestATableJoinsOnce", why: "two readers of one process fence each other as those of two do",
	},
}
