package main

// inPassersby are bugs that somebody planted who had read the stream, the ledger and the pipeline, and none of what watches them.
var inPassersby = []mutant{
	{
		name: "a listing that begins anew counts the circles of the one before", hazards: "", file: "cdc/listing.go",
		old:  `*l = Lister{source: l.source, parent: l.parent, shards: map[string]bool{}, cursors: map[string]bool{}}`,
		new:  `*l = Lister{source: l.source, parent: l.parent, repeated: l.repeated, shards: map[string]bool{}, cursors: map[string]bool{}}`,
		test: "./cdc TestListBeginsAnew", why: "no service of a whole day lists in circles",
	},
	{
		name: "a seat that was given up is signed by who held it", hazards: "", file: "checkpoint/keeper.go",
		old: `		next.Sign = k.ledger.sign(ctx, k.noted())
		change(&next)
`,
		new: `		change(&next)
		next.Sign = k.ledger.sign(ctx, k.noted())
`,
		test: "./checkpoint TestSignOfTheSeat", why: "for people",
	},
	{
		name: "a write that is settled late renews the lease from then on", hazards: "H44", file: "checkpoint/tenure.go",
		old: `	if t.pending != nil {
		if err`,
		new: `	if t.pending != nil {
		t.pending.sent = task.Mono(ctx)
		if err`,
		test: "./checkpoint TestH44_SettledLate", why: "the next write must have no answer either",
	},
	{
		name: "a verdict stands although the generation rose while the witness was read", hazards: "H69", file: "checkpoint/witness.go",
		old:  `(now.WitnessBeat != before.WitnessBeat || now.Generation != before.Generation)`,
		new:  `now.WitnessBeat != before.WitnessBeat`,
		test: "./checkpoint TestH69_KeeperStandsStillWhile", why: "a keeper stands still while another one claims the witness and dies before it has told the ledger",
	},
	{
		name: "what is left of a trimmed shard is taken for the beginning of its lineage", hazards: "H84", file: "checkpoint/shard.go",
		old:  `s.Dropping, s.Inherited = false, false`,
		new:  `s.Inherited = false`,
		test: "./checkpoint TestReopen", why: "what was trimmed must have reached over the cut, and what follows it be dated before it",
	},
	{
		name: "a load is needed for what the first gap was", hazards: "", file: "checkpoint/table.go",
		old: `	s.NeedsLoad, s.Reason = true, gap.Reason
	known :=`,
		new: `	if s.NeedsLoad = true; s.Reason == "" {
		s.Reason = gap.Reason
	}
	known :=`,
		test: "./checkpoint TestRaise_KeepsTheLastGaps", why: "for people",
	},
	{
		name: "what others hold of a table that was left counts on", hazards: "", file: "internal/pipeline/assign.go",
		old: `	defer t.shares.forget(t.source)
`,
		new:  ``,
		test: "./internal/pipeline TestSharesOfATable", why: "only makes the shards uneven",
	},
	{
		name: "numbers that were uneven once are uneven", hazards: "", file: "internal/pipeline/balance.go",
		old: `== "":
		s.uneven = 0
`,
		new: `== "":
`,
		test: "./internal/pipeline TestSharesAreTaken", why: "only moves shards that need not move",
	},
	{
		name: "once: what was empty before a change counts for the time", hazards: "H18", file: "internal/pipeline/board.go",
		old: `	if r.emptyPages == 0 {
		r.emptySince = now
	}
`,
		new: `	if r.emptySince == 0 {
		r.emptySince = now
	}
`,
		test: "./internal/pipeline TestBoardForgets", why: "pages are a second apart, so that as many of them take as long",
	},
	{
		name: "the lag is that of any shard", hazards: "", file: "internal/pipeline/board.go",
		old:  `worst, known = max(worst, lag), true`,
		new:  `worst, known = lag, true`,
		test: "./internal/pipeline TestLagIsTheWorst", why: "for people, and alarms",
	},
	{
		name: "once: what was found of a table first counts to the end", hazards: "H18", file: "internal/pipeline/drain.go",
		old: `	d.tables[name].done = done
	d.tables[name].still = still
`,
		new: `	if d.tables[name].done = done; done && d.tables[name].still == nil {
		d.tables[name].still = still
	}
`,
		test: "./internal/pipeline TestH18_WhatWasFoundLast", why: "a table must be drained, not be, and look as it did, while the others are",
	},
	{
		name: "once: a table that is not drained any more is not looked at again", hazards: "H18", file: "internal/pipeline/drain.go",
		old: `			t.done = false // until it is looked at again
`,
		new:  ``,
		test: "./internal/pipeline TestH18_WhatWasFoundLast", why: "what was found of it must hold again, by itself, before the next look",
	},
	{
		name: "a shard that has found nothing once takes no place any more", hazards: "", file: "internal/pipeline/hand.go",
		old:  `h.held, h.behind = false, behind`,
		new:  `h.held, h.behind = false, h.behind && behind`,
		test: "./internal/pipeline TestABusyShard", why: "only memory tells",
	},
	{
		name: "a page is put back although nobody waits for its place", hazards: "", file: "internal/pipeline/hand.go",
		old:  `inVain >= patience && h.places.Awaited()`,
		new:  `inVain >= patience`,
		test: "./internal/pipeline TestAPlaceThatNobody", why: "only reads again",
	},
	{
		name: "the generation rises as high as the witness, not above it", hazards: "H68", file: "internal/pipeline/keeper.go",
		old:  `s.Generation = max(s.Generation, checkpoint.NextGeneration(witness.Generation, now))`,
		new:  `s.Generation = max(s.Generation, witness.Generation, min(s.Generation, checkpoint.NextGeneration(0, now)))`,
		test: "./internal/pipeline TestH68_RaisedAbove", why: "the other ledger must be ahead of the clock",
	},
	{
		name: "what follows a lost parent may be trimmed before it is read", hazards: "H75", file: "internal/pipeline/keeper.go",
		old:  `			s.CoveredTo = task.Now(ctx).UTC() // up to`,
		new:  `			s.CoveredTo = s.FirstRead // up to`,
		test: "./internal/pipeline TestH76_AParentIsListed", why: "what is loaded after the gap covers most of it",
	},
	{
		name: "a parent that could not be looked for is lost", hazards: "H76", file: "internal/pipeline/keeper.go",
		old: `		if err != nil && !cdc.Is(err, cdc.NotFound) {
			return err
		}
		// And`,
		new: `		_ = err
		// And`,
		test: "./internal/pipeline TestH76_TheSecondListingIsStopped", why: "a stop in the second listing",
	},
	{
		name: "a keeper that left its seat seeks it at once", hazards: "H63", file: "internal/pipeline/keeper.go",
		old: `			rest = t.respite()
`,
		new: `			rest = t.Timing.Pass
`,
		test: "./internal/pipeline TestH63_AYielded", why: "who is first is chance",
	},
	{
		name: "who gives up waiting lets nobody through", hazards: "", file: "internal/task/limit.go",
		old: `				l.waiters = append(l.waiters[:i], l.waiters[i+1:]...)
				break
			}
		}
	}
	l.grant()
`,
		new: `				l.waiters = append(l.waiters[:i], l.waiters[i+1:]...)
				break
			}
		}
		return err
	}
	l.grant()
`,
		test: "./internal/task TestLimitGoesOn", why: "the next release does",
	},
	{
		name: "what is granted to one who is gone is gone", hazards: "", file: "internal/task/limit.go",
		old: `		l.used -= n
	} else {`,
		new:  `	} else {`,
		test: "./internal/task TestLimitIsHandedBack", why: "the context must end in the moment of the grant",
	},
	{
		name: "shards in one state are told as one", hazards: "", file: "internal/pipeline/assign.go",
		old: `		states[s.State]++
`,
		new: `		states[s.State] = 1
`,
		test: "./internal/sim TestStatesOfShardsAreTold", why: "what a worker tells of the ledger is for people",
	},
}
