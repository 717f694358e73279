package main

// inFollow are bugs in the loop that reads, folds, writes and commits, and in who runs it.
var inFollow = []mutant{
	{
		name: "a dry run goes on as long as items change", hazards: "", file: "internal/pipeline/dryrun.go",
		old: `at.EventTime.After(at.FirstRead)`, new: `at.EventTime.IsZero() && at.FirstRead.IsZero()`,
	},
	{
		name: "holds on to what it cannot read", hazards: "H63", file: "internal/pipeline/follow.go",
		old: "ctx = yielding(noting(ctx, t.vain.telling(ctx, shard.ID, lease.Note)), t.Timing.Yield)", new: "ctx = noting(ctx, t.vain.telling(ctx, shard.ID, lease.Note))",
		test: "./internal/sim TestH63", why: "takes a worker that is cut off for hours while another is well: hundreds of seeds",
	},
	{
		name: "keeps the seat without the source", hazards: "H63", file: "internal/pipeline/keeper.go",
		old: `yielding(noting(loading.Context(), t.vain.telling(ctx, "", notes.slot(1))), t.Timing.Yield)`, new: `noting(loading.Context(), t.vain.telling(ctx, "", notes.slot(1)))`,
		test: "./internal/sim TestH63", why: "as before, and a shard that ends meanwhile",
	},
	{
		name: "takes back at once what it gave up", hazards: "H63", file: "internal/pipeline/yield.go",
		old: "return 3 * t.Timing.Pass", new: "return 0 * t.Timing.Pass",
		test: "./internal/sim TestH63", why: "as before",
	},
	{
		name: "an answer does not end the silence", hazards: "H63", file: "internal/pipeline/yield.go",
		old: "		s.began, s.since = false, now\n", new: "",
		test: "./internal/pipeline TestH63", why: "leaves to another what this worker could read, which the other then does",
	},
	{
		name: "last page dropped", hazards: "H17", file: "internal/pipeline/follow.go",
		old: "		changes := keep(&next, cut, page.Changes)\n",
		new: "		if page.End {\n			return t.finish(ctx, lease, at)\n		}\n		changes := keep(&next, cut, page.Changes)\n",
	},
	{
		name: "commit before apply", hazards: "H02", file: "internal/pipeline/follow.go",
		old: "		err = t.write(ctx, &batch, changes, hand)\n",
		new: `		if err := lease.Commit(ctx, advance(at, page, batch.Latest, sent)); err != nil {
			return err
		}
		err = t.write(ctx, &batch, changes, hand)
`,
	},
	{
		name: "a write that failed is passed over", hazards: "H02", file: "internal/pipeline/follow.go",
		old: `		err = t.write(ctx, &batch, changes, hand)
`,
		new: `		_ = t.write(ctx, &batch, changes, hand)
`,
	},
	{
		name: "finished at the position before the last page", hazards: "H17", file: "internal/pipeline/follow.go",
		old: `			return t.finish(ctx, lease, at)
`,
		new: `			return t.finish(ctx, lease, before)
`,
	},
	{
		name: "first change of a page skipped after a restart", hazards: "H01", file: "internal/pipeline/follow.go",
		old: `		changes := keep(&next, cut, page.Changes)
`,
		new: `		changes := keep(&next, cut, page.Changes)
		if len(changes) > 1 && at.Position == shard.Progress().Position && !at.Position.AtHorizon() {
			changes = changes[1:]
		}
`,
	},
	{
		name: "pages without a bound", hazards: "", file: "internal/pipeline/hand.go",
		old: `h.places == nil || !h.behind || h.held`, new: `h.places == nil || h.behind || h.held`,
		test: "./internal/pipeline TestPagesInHandAreBounded", why: "the model has memory enough",
	},
	{
		name: "a page that cannot be written keeps its place", hazards: "", file: "internal/pipeline/hand.go",
		old: `inVain >= patience && h.places.Awaited()`, new: `false`,
		test: "./internal/pipeline TestAMissingTargetLeavesRoom", why: "the model has places enough",
	},
	{
		name: "a page that gave its place up counts as applied", hazards: "H02", file: "internal/pipeline/follow.go",
		old: `		if errors.Is(err, errPutBack) {
			continue
		}
`,
		new: `		if errors.Is(err, errPutBack) {
			err = nil
		}
`,
		test: "./internal/pipeline TestAMissingTargetLeavesRoom", why: "few seeds have an outage with so many shards behind",
	},
	{
		name: "stamped with the hop that the shard had when it was found", hazards: "H66", file: "internal/pipeline/follow.go",
		old: `Hop: shard.Hop, NotBefore`, new: `Hop: min(shard.Hop, cdc.RootHop+2), NotBefore`,
	},
	{
		name: "event time taken from the clock", hazards: "H75", file: "internal/pipeline/follow.go",
		old: `	at.ReadAt, at.CaughtUp = sent, len(page.Changes) == 0
`,
		new: `	at.ReadAt, at.CaughtUp = sent, len(page.Changes) == 0
	if at.EventTime = sent; cellTime.IsZero() {
		return at
	}
`,
		test: "./internal/pipeline TestH64_H75", why: "it takes outages of a day, timed to minutes",
	},
	{
		name: "first read dated by the worker's clock", hazards: "H64", file: "internal/pipeline/follow.go",
		old: `at.FirstRead = page.At; at.FirstRead.IsZero()`, new: `at.FirstRead = sent; at.FirstRead.IsZero()`,
		test: "./internal/pipeline TestH64_H75", why: "it takes outages of a day, timed to minutes",
	},
	{
		name: "changes dated before the cut are dropped for ever", hazards: "H84", file: "internal/pipeline/follow.go",
		old: `	if !at.Dropping {
		return changes
	}
`,
		new: `	if cut.IsZero() {
		return changes
	}
`,
		test: "./internal/pipeline TestH84", why: "times of a run lie within seconds of the truth",
	},
	{
		name: "start now drops what comes later too", hazards: "H84", file: "internal/pipeline/follow.go",
		old: `			at.Dropping = false
			return changes[i:]
`,
		new: `			return changes[i+1:]
`,
	},
	{
		name: "skip on trim", hazards: "H21", file: "internal/pipeline/follow.go",
		old: "			return t.declare(ctx, work, lease, checkpoint.Trimmed, err)\n", new: "			s := lease.Shard()\n			return t.finish(ctx, lease, s.Progress())\n",
		test: "./internal/sim TestH21", why: "about a hundred seeds of the swarm find it",
	},
	{
		name: "not-found = done", hazards: "H22", file: "internal/pipeline/follow.go",
		old: "			return t.declare(ctx, work, lease, checkpoint.NotFound, err)\n", new: "			s := lease.Shard()\n			return t.finish(ctx, lease, s.Progress())\n",
		test: "./internal/sim TestH22", why: "about a hundred seeds of the swarm find it",
	},
	{
		name: "trimmed is repeated for ever", hazards: "H21", file: "internal/pipeline/retry.go",
		old: "		return read.Reason != cdc.Trimmed && read.Reason != cdc.NotFound\n", new: "		return true\n",
	},
	{
		name: "coverage of a shard from its own first read", hazards: "H75", file: "internal/pipeline/follow.go",
		old: `	if !s.CoveredTo.IsZero() {
		return s.CoveredTo
	}
	at := s.FirstRead
`,
		new: `	at := s.FirstRead
`,
	},
	{
		name: "an empty page is the end", hazards: "H18", file: "internal/pipeline/follow.go",
		old: "		if page.End {\n", new: "		if page.End || at.CaughtUp {\n",
	},
	{
		name: "a changed mapping is not noticed while running", hazards: "H60", file: "checkpoint/table.go",
		old: `	if checked && s.MappingHash != hash {
`,
		new: `	if checked && hash == "" {
`,
		test: "./checkpoint TestH60", why: "each look at the ledger notices it as well",
	},
	{
		name: "an exchanged ledger is written on", hazards: "H68", file: "checkpoint/ledger.go",
		old: `	if p.Ledger != l.id {
`,
		new: `	if p.Ledger == "" && l.id == "" {
`,
		test: "./internal/sim TestH68_LedgerLostWhileRunning", why: "a run exchanges the ledger only when everybody is gone",
	},
	{
		name: "gives up after a few attempts", hazards: "H63", file: "internal/pipeline/retry.go",
		old: `		if policy == nil {
			policy = newPolicy(ctx)
		}
`,
		new: `		if policy == nil {
			policy = newPolicy(ctx)
		}
		if policy.GetElapsedTime() > 30*time.Minute {
			return err
		}
`,
	},
	{
		name: "a refused write is not repeated", hazards: "H50", file: "internal/pipeline/retry.go",
		old: `		return write.Reason != sink.Rejected
`,
		new: `		return write.Reason == sink.Unknown
`,
	},
	{
		name: "one worker's hold is never given up", hazards: "H45", file: "internal/pipeline/assign.go",
		old: `		defer held.remove(id)
`,
	},
}

// inKeeper are bugs in looking after a table as a whole.
var inKeeper = []mutant{
	{
		name: "no generation on a new ARN", hazards: "H24", file: "internal/pipeline/stream.go",
		old: `		return k.raise(ctx, state.Generation, gap, func(s *checkpoint.TableState) {
			s.StreamARN, s.Label, s.Listed, s.StreamEnded = d.StreamARN, d.StreamLabel, 0, false
		})
`,
		new: `		_ = gap
		_, err = k.Ledger.UpdateTable(ctx, k.source, func(s *checkpoint.TableState) error {
			s.StreamARN, s.Label, s.Listed, s.StreamEnded = d.StreamARN, d.StreamLabel, 0, false
			return nil
		})
		return err
`,
		test: "./internal/sim TestH24", why: "about a hundred seeds of the swarm find it",
	},
	{
		name: "a disabled stream is nothing to tell", hazards: "H24", file: "internal/pipeline/stream.go",
		old: `	case !d.StreamEnabled && !state.StreamEnded:
		return disabled
`,
		new: `	case !d.StreamEnabled && d.StreamARN == "":
		return disabled
`,
	},
	{
		name: "a stream without images is followed", hazards: "H62", file: "internal/pipeline/stream.go",
		old: `	if d.StreamEnabled && unusable != nil {
`,
		new: `	if d.StreamEnabled && unusable != nil && d.StreamARN == state.StreamARN {
`,
		test: "./internal/sim TestH62", why: "no run changes the view type",
	},
	{
		name: "every listing is the first", hazards: "H76", file: "internal/pipeline/keeper.go",
		old: `k.discover(ctx, state, k.listing, state.Listed == 0)`, new: `k.discover(ctx, state, k.listing, true)`,
		test: "./internal/sim TestH76|TestH66", why: "it takes holes of a lineage in a later listing",
	},
	{
		name: "no listing is the first", hazards: "H14", file: "internal/pipeline/keeper.go",
		old: `k.discover(ctx, state, k.listing, state.Listed == 0)`, new: `k.discover(ctx, state, k.listing, false)`,
	},
	{
		name: "a shard listed too late is read", hazards: "H66", file: "internal/pipeline/keeper.go",
		old: `		if late[n.ID] {
`,
		new: `		if late[""] {
`,
		test: "./internal/sim TestH66", why: "two holes of a lineage must be listed late",
	},
	{
		name: "a parent that was listed between two pages is a gap", hazards: "H76", file: "internal/pipeline/keeper.go",
		old: `	if slices.ContainsFunc(orphans, func(o cdc.Orphan) bool { return o.Reason == cdc.UnknownParent && !noted(state, gapOf(o)) }) {
`,
		new: `	if len(orphans) < 0 {
`,
		test: "./internal/pipeline TestH76_AParentIsListedBetweenThePages", why: "a shard and its child must both be listed late, from between two pages on",
	},
	{
		name: "an orphan's gap is not declared", hazards: "H76", file: "internal/pipeline/keeper.go",
		old: `		if noted(state, gapOf(o)) {
`,
		new: `		if noted(state, gapOf(o)) || o.ID != "" {
`,
		test: "./internal/sim TestH76", why: "an orphan whose parent is listed after all loses nothing",
	},
	{
		name: "trimmed shards are never read on", hazards: "H21", file: "internal/pipeline/keeper.go",
		old: `		case s.Reopenable(v.state):
			err`,
		new: `		case s.Reopenable(v.state) && s.ID == "":
			err`,
		test: "./internal/sim TestH21", why: "about a hundred seeds of the swarm find it",
	},
	{
		name: "rows removed without a listing", hazards: "H16", file: "internal/pipeline/keeper.go",
		old: `v.state.Label, k.listing.Shards, v.state.StreamEnded`, new: `v.state.Label, nil, v.state.StreamEnded`,
	},
	{
		name: "gaps that were not declared are passed over", hazards: "H22", file: "internal/pipeline/keeper.go",
		old: `		case s.Undeclared(v.state):
			err`,
		new: `		case s.Undeclared(v.state) && s.ID == "":
			err`,
		test: "./internal/sim TestH22_WorkerGone", why: "a worker must go between a gap and its raise: about one seed in 250",
	},
	{
		name: "the keeper dies of an error", hazards: "H53", file: "internal/pipeline/keeper.go",
		old: `		err := t.retryUntil(stop, ctx, "keep the table", func(ctx context.Context) error {
			if k.due(ctx) {
				return k.complete(ctx)
			}
			return k.small(ctx)
		})
`,
		new: `		err := k.small(ctx)
		if k.due(ctx) {
			err = k.complete(ctx)
		}
`,
		test: "./internal/sim TestH53", why: "the seat is free after a lease, and the next keeper begins with a complete round: only others wait",
	},
	{
		name: "one complete listing a term", hazards: "H76", file: "internal/pipeline/keeper.go",
		old: `	return !k.began || task.Mono(ctx)-k.last >= k.Timing.List
`,
		new: `	return !k.began
`,
	},
}

// inBalance are bugs in how workers come to hold about as many shards each.
var inBalance = []mutant{
	{
		name: "nothing is taken over", hazards: "", file: "internal/pipeline/balance.go",
		old: `	case now-s.uneven >= lease && now-s.taken >= pass:
`,
		new: `	case now < s.taken:
`,
	},
	{
		name: "taken over for a difference of one", hazards: "", file: "checkpoint/balance.go",
		old: `held[me]+2`, new: `held[me]+1`,
		test: "./checkpoint TestBusiest$", why: "it costs efficiency alone",
	},
	{
		name: "taken over by who cannot read", hazards: "", file: "internal/pipeline/balance.go",
		old: `		t.events.Retry(t.source, "take a shard over", t.Timing.Pass, err)
		return nil
`,
		new: `		t.events.Retry(t.source, "take a shard over", t.Timing.Pass, err)
`,
		test: "./internal/sim TestWhoCannotRead", why: "who is cut off reads again soon",
	},
}

// inCopy are bugs in the load of what the table already holds.
var inCopy = []mutant{
	{
		name: "a copy that was stopped counts as complete", hazards: "H01", file: "internal/pipeline/copy.go",
		old: `		return nil // between two pages, with the progress saved
`,
		new: `		return t.loaded(stop, ctx, state, progress)
`,
		test: "./internal/sim TestH01_CopyStopped", why: "a clean stop must come in the minutes of a copy, and the items it left must not change",
	},
	{
		name: "a copy that goes on begins anew", hazards: "H34", file: "internal/pipeline/copy.go",
		old: `			if s.Load.Generation != s.Generation {
`,
		new: `			if s.Load.DoneAt.IsZero() {
`,
	},
	{
		name: "a copy that goes on forgets its progress", hazards: "H01", file: "internal/pipeline/copy.go",
		old: `		if err := json.Unmarshal(saved, &progress); err != nil {
			return err
		}
`,
		new: `		if err := json.Unmarshal(saved, &progress); err != nil {
			return err
		}
		progress.Next, progress.Open = progress.Total, nil
`,
	},
	{
		name: "coverage is not looked at again after a load", hazards: "H34", file: "internal/pipeline/copy.go",
		old: `state.Load.StartedAt); errors.As(err, &hole) {`, new: `state.Load.StartedAt); errors.As(err, &hole) && v.state.Listed == 0 {`,
		test: "./internal/sim TestH34_RootFirstReadAfterTheCopy", why: "a root must be listed, and not yet read, while a short load is at its end",
	},
	{
		name: "a copy is complete without a last look at the witness", hazards: "H69", file: "internal/pipeline/copy.go",
		old: `		if err := t.beat(ctx); err != nil {
			return err
		}
`,
		test: "./internal/sim TestH69_TargetLostDuringTheCopy", why: "the target must be lost in the last minutes of a copy",
	},
	{
		name: "a copy begins while a gap is declared", hazards: "H70", file: "internal/pipeline/copy.go",
		old: `		if checkpoint.Admissible(v.state, v.shards, task.Now(ctx)) == nil {
`,
		new: `		if v.state.Generation > 0 {
`,
	},
	{
		name: "a new stream counts as listed", hazards: "H24", file: "internal/pipeline/stream.go",
		old: `d.StreamARN, d.StreamLabel, 0, false`, new: `d.StreamARN, d.StreamLabel, s.Listed, false`,
	},
	{
		name: "a further target has no witness", hazards: "H69", file: "internal/pipeline/keeper.go",
		old: `range t.Mapping.Tables() {`, new: `range t.Mapping.Tables()[:1] {`,
		test: "./internal/sim TestH69_OneOfTwoTargetsIsLost", why: "few runs have two target tables",
	},
}
