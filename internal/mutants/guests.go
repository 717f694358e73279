package main

// inGuests are bugs that somebody who had not written the code planted in the stream, the ledger and the loops.
var inGuests = []mutant{
	{
		name: "a reader claims from the worker's clock what its first page saw", file: "cdc/reader.go",
		old:  `if r.Covered = page.At; page.At.IsZero() {`,
		new:  `if r.Covered = task.Now(ctx); r.Covered.IsZero() {`,
		test: "./cdc TestAReaderClaimsByTheServicesClock", why: "a clock must be hours ahead when a root is first read, be set right, and a day of throttles follow",
	},
	{
		name: "a reader claims nothing by an empty first page", file: "cdc/reader.go",
		old:  `if !r.Covered.IsZero() {`,
		new:  `if !r.Covered.IsZero() || len(page.Changes) == 0 {`,
		test: "./cdc TestH75AReaderClaimsWhatItsFirstPageSaw", why: "one reader must be kept from reading for a day, right after its first page",
	},
	{
		name: "horizon judged by the answer's clock alone", file: "cdc/reader.go",
		old: `		now := task.Now(ctx)
		if page.At.After(now) {
			now = page.At
		}
		err = r.horizon(now, opGetRecords)`,
		new:  `		err = r.horizon(page.At, opGetRecords)`,
		test: "./cdc TestH75HorizonIsRefused", why: "the service always tells the time in an ordinary run",
	},
	{
		name: "a listing that begins anew goes on where it was", file: "cdc/listing.go",
		old: `parent: l.parent, shards: map`,
		new: `parent: l.parent, after: l.after, shards: map`,
	},
	{
		name: "a stream that is gone is listed for ever", file: "cdc/listing.go",
		old:  `case err != nil && (passing || l.after == ""):`,
		new:  `case err != nil && passing:`,
		test: "./cdc TestListerAfterErrors", why: "the stream is rarely gone for good while it is followed",
	},
	{
		name: "a listing whose next page begins after a shard that is gone fails", file: "cdc/listing.go",
		old:  `(passing || l.after == ""):`,
		new:  `(passing || Is(err, NotFound)):`,
		test: "./cdc TestListerAfterErrors", why: "the listing must begin anew in its midst, which takes a shard that is gone between two pages",
	},
	{
		name: "a listing that leaves a parent out takes it from a known shard", file: "cdc/lineage.go",
		old:  `if f.parent[s.ID] == "" {`,
		new:  `if s.ID != "" {`,
		test: "./cdc TestPlace$", why: "a parent must be listed late while its child is listed without it",
	},
	{
		name: "no room is left below what was known before the first listing", file: "cdc/lineage.go",
		old:  `return f.lowest - 2`,
		new:  `return f.lowest`,
		test: "./cdc TestPlaceFirstListingThatWasInterrupted", why: "the first listing must be interrupted, and the next one show an older shard",
	},
	{
		name: "what hangs on a late shard's fresh children is not placed with it", file: "cdc/lineage.go",
		old: `			f.place(child)
			f.placeBelow(child)`,
		new:  `			f.place(child)`,
		test: "./cdc TestPlace$", why: "what is not placed is placed with the next listing, a minute later",
	},
	{
		name: "an end without records is not understood", file: "cdc/dynamodbstreams.go",
		old:  `out.Records == nil && out.NextShardIterator == nil`,
		new:  `len(out.Records) == 0 && out.NextShardIterator == nil`,
		test: "./cdc TestH17H18EndOfShard", why: "the simulation takes the place of the client's answers",
	},
	{
		name: "the limit of a stream's call is lost in the call", file: "cdc/dynamodbstreams.go",
		old:  `out, err := call(limited, in, ClientOptions)`,
		new:  `out, err := call(ctx, in, ClientOptions)`,
		test: "./cdc TestCallsAreBounded", why: "the simulation takes the place of the client",
	},
	{
		name: "a load waits for undeclared gaps of roots alone", file: "checkpoint/coverage.go",
		old: `for _, s := range shards {
		if s.Undeclared(table) {`,
		new: `for _, s := range Roots(shards, table.Label) {
		if s.Undeclared(table) {`,
		test: "./checkpoint TestAdmissible", why: "a worker must end between a gap and its raise while a load begins or ends",
	},
	{
		name: "a child drops although its parent stopped dropping", file: "checkpoint/lease.go",
		old:  `s.Dropping = parent.Dropping`,
		new:  `s.Dropping = s.Dropping || parent.Dropping`,
		test: "./checkpoint TestAChildKeepsWhatItsParentCameToKeep", why: "what a child has from before the cut is from clocks that run backwards by less than the cut's slack",
	},
	{
		name: "a child that is leased anew inherits again after empty pages", file: "checkpoint/lease.go",
		old:  `if s.FirstRead.IsZero() && s.Position.IsZero() {`,
		new:  `if s.Position.IsZero() {`,
		test: "./checkpoint TestInheritedOnce", why: "what is inherited twice is mostly the same",
	},
	{
		name: "after a failed renewal the next waits for its turn past the end", file: "checkpoint/tenure.go",
		old:  `min(until-task.Mono(ctx), third/4)`,
		new:  `third*4`,
		test: "./checkpoint TestLeaseEndsOnTime", why: "what a late owner still writes the guard refuses",
	},
	{
		name: "a lineage covers up to its last event, without slack", file: "checkpoint/shard.go",
		old: `covers = later(covers, t.Add(-Slack))`,
		new: `covers = later(covers, t)`,
	},
	{
		name: "the beats of further tables are changed where the memory keeps them", file: "checkpoint/witness.go",
		old: `beats := maps.Clone(s.WitnessBeats)`,
		new: `beats := s.WitnessBeats; _ = maps.Clone[map[string]uint64]`,
	},
	{
		name: "a listing is noted before its shards have rows", file: "internal/pipeline/keeper.go",
		old: `		func(ctx context.Context) error { return k.discover(ctx, state, k.listing, state.Listed == 0) },
		func(ctx context.Context) error { return k.noteOpen(ctx, state) },`,
		new: `		func(ctx context.Context) error { return k.noteOpen(ctx, state) },
		func(ctx context.Context) error { return k.discover(ctx, state, k.listing, state.Listed == 0) },`,
		test: "./internal/pipeline TestH13_AListingIsNotedAfterItsShards", why: "a keeper must end between the two, in a run with Once that nobody else keeps",
	},
	{
		name: "a lost lineage is judged by the second listing alone", file: "internal/pipeline/keeper.go",
		old:  `slices.Concat(listing.Shards, again.Shards)`,
		new:  `again.Shards`,
		test: "./internal/pipeline TestH76_TheSecondListingIsOlder", why: "it takes a split between the pages of one listing, and an older listing after it",
	},
	{
		name: "a run with once asks for the last listing where none is needed", file: "internal/pipeline/assign.go",
		old:  `bool { return !s.AwaitsChildren(now) }`,
		new:  `bool { return s.AwaitsChildren(now) }`,
		test: "./internal/pipeline TestH13_WhatFollowsAShard", why: "a run with Once must find a shard that ended a day ago without children",
	},
	{
		name: "what another worker found under an earlier lease counts for once", file: "internal/pipeline/board.go",
		old:  `o == nil || o.epoch != s.Epoch || o.position`,
		new:  `o == nil || o.position`,
		test: "./internal/pipeline TestH18_ReadElsewhere", why: "the lease of the other must change within seconds of the end of a run with Once",
	},
	{
		name: "a load begins by the worker's clock", file: "internal/pipeline/copy.go",
		old: `now := d.At // the`,
		new: `now := task.Now(ctx) // the`,
	},
	{
		name: "a load that waits for a root ends instead", file: "internal/pipeline/copy.go",
		old: `if hole.Yet {
				return hole // repeated until the root that was listed late is read
			}`,
		new: `if hole.Yet {
				return nil
			}`,
		test: "./internal/sim TestH34_RootFirstReadAfterTheCopy", why: "a root must be listed late, at the end of a load",
	},
	{
		name: "a load is complete though its generation ended in between", file: "internal/pipeline/copy.go",
		old: `			if s.Generation != state.Generation {
				return errRaised
			}
			s.Load.Items`,
		new:  `			s.Load.Items`,
		test: "./internal/pipeline TestH71_ALoadDoesNotCompleteTheNext", why: "a gap and the load that follows it must come between two calls of the same step",
	},
	{
		name: "a page's place is kept for what is caught up", file: "internal/pipeline/follow.go",
		old: `hand.drop(err != nil || len(page.Changes) > 0)`,
		new: `if err != nil || len(page.Changes) > 0 {
			hand.drop(true)
		}`,
	},
	{
		name: "progress of a batch counts as none", file: "internal/pipeline/follow.go",
		old:  `if len(batch.Rows) < open {`,
		new:  `if len(batch.Rows) == 0 && open > 0 {`,
		test: "./internal/pipeline TestAPageThatGetsOnKeepsItsPlace", why: "rows must be refused for seconds one by one, while others wait for places",
	},
	{
		name: "a stop does not end the wait for a place", file: "internal/pipeline/hand.go",
		old: `err := h.places.Acquire(waiting, 1)`,
		new: `err := h.places.Acquire(ctx, 1)
	_ = waiting`,
		test: "./internal/pipeline TestPagesInHandAreBounded", why: "a stop that takes longer is no fault of an ordinary run",
	},
	{
		name: "a doubt outlives an answer that agrees", file: "internal/pipeline/stream.go",
		old: `		k.doubt = doubt{}
`,
		new:  ``,
		test: "./internal/sim TestH24_OldDescriptionAgain", why: "the same old description must come twice, ten minutes apart",
	},
	{
		name: "a table that is copied is cut as well", file: "internal/pipeline/stream.go",
		old: `		case k.Copy:
		case k.FromNow:
			s.Cut = started`,
		new: `		case k.FromNow:
			s.Cut = started
		case k.Copy:`,
	},
	{
		name: "throttles between failures begin the silence anew", file: "internal/pipeline/yield.go",
		old:  `case cdc.Is(failure, cdc.Throttled) && s.began:`,
		new:  `case cdc.Is(failure, cdc.Trimmed) && s.began:`,
		test: "./internal/pipeline TestH63_Silence", why: "no worker needs the other's help in an ordinary run: outages of the source end",
	},
	{
		name: "the silence of a source begins with its step", file: "internal/pipeline/yield.go",
		old: `s.began, s.since = false, now`,
		new: `s.began = false`,
	},
	{
		name: "a floor follows the last look, whatever it saw", file: "internal/pipeline/pipeline.go",
		old:  `f.generations[source] = max(f.generations[source], generation)`,
		new:  `f.generations[source] = generation`,
		test: "./internal/pipeline TestFloorsAreOfOneTable", why: "the floor spares requests that the guard refuses anyway",
	},
	{
		name: "what a worker held of a table is added up", file: "internal/pipeline/balance.go",
		old: `s.tables[table] = map[string]int{}
`,
		new: `if s.tables[table] == nil {
		s.tables[table] = map[string]int{}
	}
`,
		test: "./internal/sim TestWorkersShareTheShards", why: "a shard that goes from one to the other is read all the same",
	},
	{
		name: "the cluster is asked for once", file: "internal/pipeline/cluster.go",
		old:  `_ = task.Sleep(stop, t.Timing.List)`,
		new:  `return nil`,
		test: "./internal/pipeline TestH46_Another", why: "the simulation has one cluster",
	},
	{
		name: "what is owed is claimed although the table needs a load", file: "internal/pipeline/follow.go",
		old:  `if at.IsZero() && !table.NeedsLoad {`,
		new:  `if at.IsZero() {`,
		test: "./internal/pipeline TestH75_WhatARoot", why: "a table that is not loaded must have a gap, and a root that is first read a day later",
	},
	{
		name: "once: a shard that was given up counts as idle for a moment still", file: "internal/pipeline/board.go",
		old:  `if s.Owner == "" || !s.CaughtUp || `,
		new:  `if !s.CaughtUp || `,
		test: "./internal/pipeline TestH18_ReadElsewhere", why: "the other must give the shard up within seconds of the end of a run with Once",
	},
	{
		name: "once: a shard that was reopened was read since before its gap", file: "internal/pipeline/board.go",
		old:  ` || s.FirstRead.IsZero() {`,
		new:  ` {`,
		test: "./internal/pipeline TestH18_ReadElsewhere", why: "another worker must take a shard that was reopened within seconds of the end of a run with Once",
	},
	{
		name: "a read that fails keeps its place", file: "internal/pipeline/follow.go",
		old: `err != nil {
			hand.drop(true)
		}
		return err
	})
	if err == nil {
		t.events.PageRead`,
		new: `err != nil && hand == nil {
			hand.drop(true)
		}
		return err
	})
	if err == nil {
		t.events.PageRead`,
		test: "./internal/pipeline TestWhatHasNoPageHoldsNoPlace", why: "as many shards as there are places must fail while others do not",
	},
	{
		name: "a table that was left never joins again", file: "internal/pipeline/pipeline.go",
		old: `				defer joined.remove(t.source) // it may join again
`,
		new:  ``,
		test: "./internal/sim TestDroppedTableIsLeft", why: "no table is dropped in an ordinary run",
	},
	{
		name: "a table is left for what the ledger says of one of its name before", file: "internal/pipeline/join.go",
		old:  `!t.Once && t.board.isAside() && aside`,
		new:  `!t.Once && aside`,
		test: "./internal/pipeline TestLongGone", why: "no table is dropped in an ordinary run",
	},
	{
		name: "a doubt goes on though the table names another stream", file: "internal/pipeline/stream.go",
		old:  `!d.known || d.arn != told.StreamARN || d`,
		new:  `!d.known || d`,
		test: "./internal/pipeline TestH24_DoubtIsOfOneAnswer", why: "descriptions of two other streams must come one after the other",
	},
	{
		name: "members of a set of numbers are sorted as text", file: "cdc/value.go",
		old:  `if kind == KindNS {`,
		new:  `if kind == KindN {`,
		test: "./cdc TestMarshalItemText", why: "the stream and the load sort alike",
	},
	{
		name: "a stored change forgets its time", file: "cdc/dynamodbjson.go",
		old:  `if !c.Time.IsZero() {`,
		new:  `if c.Expired {`,
		test: "./cdc TestChangeRoundTrip", why: "what is parked is written with the time of its row",
	},
}
