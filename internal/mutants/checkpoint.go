package main

// inLease are bugs in holding a row.
var inLease = []mutant{
	{
		name: "unfenced commit", hazards: "H03", file: "checkpoint/tenure.go",
		old: `	if !done {
		t.lose(ErrLeaseLost)
		return ErrLeaseLost
	}
`,
		new: `	if !done {
		row, _, err := readRow(ctx, t.store, t.key)
		if err != nil {
			return err
		}
		t.counter = row.Counter
		return t.settle(ctx)
	}
`,
	},
	{
		name: "commit by worker without the counter", hazards: "H45 H85", file: "checkpoint/tenure.go",
		old: `	if !done {
		t.lose(ErrLeaseLost)
		return ErrLeaseLost
	}
`,
		new: `	if !done {
		row, _, err := readRow(ctx, t.store, t.key)
		if err != nil {
			return err
		}
		var k keeperRecord
		if decode(row, &k) == nil && k.By == t.ledger.worker {
			t.counter = row.Counter
			return t.settle(ctx)
		}
		t.lose(ErrLeaseLost)
		return ErrLeaseLost
	}
`,
	},
	{
		name: "commit by epoch without the counter", hazards: "H85", file: "internal/sim/services.go",
		old: `		return counter != strconv.FormatUint(was, 10)
`,
		new: `		epoch := func(record string) uint64 {
			_, rest, _ := strings.Cut(record, "\"epoch\":")
			text, _, _ := strings.Cut(rest, ",")
			n, _ := strconv.ParseUint(text, 10, 64)
			return n
		}
		record, _ := row.Value(s.Family, recordColumn)
		if have, next := epoch(record), epoch(string(data)); next > 0 {
			return next != have && next != have+1
		}
		return counter != strconv.FormatUint(was, 10)
`,
	},
	{
		name: "counter not compared by the store", hazards: "H03 H85", file: "checkpoint/bigtable.go",
		old: `bigtable.ChainFilters(append(column, exact)...)`, new: `bigtable.ChainFilters(append(column, exact)[:2]...)`,
		test: "./checkpoint TestConformanceOfBigtable", why: "only the real client makes the filter",
	},
	{
		name: "lease trusted from the reply", hazards: "H44", file: "checkpoint/tenure.go",
		old: `	t.until = p.sent + t.ledger.lease`, new: `	t.until = task.Mono(ctx) + t.ledger.lease`,
		test: "./checkpoint TestLeaseIsTrusted", why: "leases are efficiency: the counter protects what the time does not",
	},
	{
		name: "a dead owner keeps its lease", hazards: "H44", file: "checkpoint/watch.go",
		old: "return now-s.since >= w.lease }", new: "return false }",
	},
	{
		name: "a lease is over though it is renewed", hazards: "H64", file: "checkpoint/watch.go",
		old: `found && before.counter == counter`, new: `found`,
		test: "./checkpoint TestH64_ExpiryByCounterAlone", why: "leases are efficiency: owners only take from each other",
	},
	{
		name: "take without a new epoch", hazards: "H45", file: "checkpoint/lease.go",
		old: `		s.Epoch++
		if parent != nil {
`,
		new: `		if parent != nil {
`,
	},
	{
		name: "take in the generation of the row", hazards: "H70", file: "checkpoint/lease.go",
		old: `		s.Generation = max(s.Generation, table.Generation)
`,
		new: `		_ = table
`,
		test: "./checkpoint TestH70", why: "a shard must be found while the generation rises",
	},
	{
		name: "take from a stream that was replaced", hazards: "H24", file: "checkpoint/lease.go",
		old: `		if s.Label != table.Label {
`,
		new: `		if s.Label == "" {
`,
		test: "./checkpoint TestH70|TestH24|Take", why: "a shard must be taken while the stream is replaced",
	},
	{
		name: "hop of a late take stays", hazards: "H66", file: "checkpoint/lease.go",
		old: `				s.Hop = max(s.Hop, parent.Hop+1)
`,
		test: "./checkpoint TestH66", why: "two keepers that overlap must rank one shard from different listings",
	},
	{
		name: "cell time is not inherited", hazards: "H08", file: "checkpoint/lease.go",
		old: `				s.CellTime = later(s.CellTime, parent.CellTime)
`,
		test: "./checkpoint TestInheritedOnce|TestH75", why: "times of a run go back by a second",
	},
	{
		name: "a position may move back", hazards: "H85", file: "checkpoint/lease.go",
		old: `	if p.Position.After.Compare(s.Position) < 0 {
`,
		new: `	if s.ID == "" {
`,
		test: "./checkpoint TestI6", why: "nobody asks for it",
	},
	{
		name: "somebody's write taken for one's own", hazards: "H44", file: "checkpoint/store.go",
		old: `found && row.Counter == next && sameWrite(row.Data, data)`, new: `found && row.Counter == next`,
	},
	{
		name: "ledger write in doubt taken for done", hazards: "H44", file: "checkpoint/store.go",
		old: `		return false, fmt.Errorf("a ledger write has not taken place: %w", err)
`,
		new: `		return true, nil
`,
	},
	{
		name: "a lease given up in doubt is used on", hazards: "H44", file: "checkpoint/tenure.go",
		old: `			return err // what was in doubt gave the row up: it is anybody's now
`,
		new: `			t.lost = nil
`,
	},
}

// inLedger are bugs in the records of a table: generations, gaps, the witness.
var inLedger = []mutant{
	{
		name: "raise without fencing", hazards: "H70", file: "checkpoint/table.go",
		old: "			if s.Finished() || s.Label == state.Label && s.Generation >= state.Generation {\n", new: "			if s.Finished() || s.Label == state.Label {\n",
	},
	{
		name: "adopted though a shard was not", hazards: "H70", file: "checkpoint/table.go",
		old: `			settled = false // look again afterwards: a row may have been created or taken meanwhile
`,
		test: "./checkpoint TestH70|TestFleet", why: "a shard must be written while the generation rises",
	},
	{
		name: "shards of a stream that came meanwhile are called replaced", hazards: "H24", file: "checkpoint/table.go",
		old: `			if now.Label != state.Label {
				continue
			}
`,
		new: `			_ = now
`,
		test: "./checkpoint TestH24", why: "two workers must find gaps within milliseconds, and one wait between two reads: one seed in ten thousand",
	},
	{
		name: "shards of a replaced stream go on", hazards: "H24", file: "checkpoint/table.go",
		old: `			if s.Finished() || s.Label == state.Label && s.Generation >= state.Generation {
`,
		new: `			if s.Finished() || s.Generation >= state.Generation || s.Label != state.Label {
`,
		test: "./checkpoint TestH24", why: "about a hundred seeds of the swarm find it",
	},
	{
		name: "a gap needs no load", hazards: "H21", file: "checkpoint/table.go",
		old: "	s.NeedsLoad, s.Reason = true, gap.Reason\n", new: "	s.Reason = gap.Reason\n",
	},
	{
		name: "a raise that was begun by another is raised again", hazards: "H70", file: "checkpoint/table.go",
		old: `		if s.Generation > from {
`,
		new: `		if s.Generation > MaxGeneration {
`,
		test: "./checkpoint TestRaise_TwoDetectors", why: "a generation more harms nothing",
	},
	{
		name: "no witness", hazards: "H68 H69", file: "internal/pipeline/keeper.go",
		old: "	if err != nil || verdict == checkpoint.Fine {\n", new: "	if err != nil || verdict <= checkpoint.LedgerBehind {\n",
	},
	{
		name: "restored target not noticed", hazards: "H69", file: "checkpoint/witness.go",
		old: `	case w.Beat < table.WitnessBeat:
`,
		new: `	case w.Beat > table.WitnessBeat+1:
`,
	},
	{
		name: "another ledger's witness is fine", hazards: "H68", file: "checkpoint/witness.go",
		old: `	case w.Ledger != ledger || w.Generation`, new: `	case w.Generation`,
		test: "./checkpoint TestH68_H69_Verdicts", why: "its beats and generations tell it as well",
	},
	{
		name: "restored ledger not noticed", hazards: "H68", file: "checkpoint/witness.go",
		old: ` || w.Beat > table.WitnessBeat+1:`, new: `:`,
		test: "./checkpoint TestH68", why: "within a day everything is read again, which harms nothing",
	},
	{
		name: "a beat whose mirror is late looks restored", hazards: "H68", file: "checkpoint/witness.go",
		old: `w.Beat > table.WitnessBeat+1:`, new: `w.Beat > table.WitnessBeat:`,
	},
	{
		name: "mirror after the witness alone", hazards: "H68", file: "checkpoint/witness.go",
		old: `	if err := l.mirror(ctx, source, at, w.Beat); err != nil {
		return Fine, w, err
	}
`,
		test: "./checkpoint TestH68_MirrorIsNotWritten", why: "seed 1683 of the two-workers run showed it",
	},
	{
		name: "witnesses of all ledgers count alike", hazards: "H68", file: "checkpoint/witness.go",
		old: `	return binary.BigEndian.Uint64(sum[:])>>1 + w.Beat
`,
		new: `	return binary.BigEndian.Uint64(sum[:])*0 + w.Beat
`,
		test: "./checkpoint TestH68_LateBeat", why: "seed 50000904 showed it; another pipeline's target counts from elsewhere now",
	},
	{
		name: "the first target's beats stand for a further one's", hazards: "H69", file: "checkpoint/witness.go",
		old: `	if at.Further != "" {
		table.WitnessBeat =`,
		new: `	if at.Further == "" {
		table.WitnessBeat =`,
		test: "./checkpoint TestH69_WitnessOfAFurtherTarget", why: "few runs have two target tables",
	},
	{
		name: "verdict from two moments", hazards: "H69", file: "checkpoint/witness.go",
		old: `return verdict, w, l.unchanged(ctx, table, at)`, new: `return verdict, w, nil`,
		test: "./checkpoint TestH69_KeeperStandsStill", why: "seed 1570 of the swarm showed it",
	},
	{
		name: "a failed read is an empty ledger", hazards: "H50", file: "checkpoint/store.go",
		old: `	if err != nil {
		return Row{}, false, err
	}
	if len(rows) > 0`,
		new: `	if err == nil && len(rows) > 0`,
	},
	{
		name: "a gap of the present generation is not declared", hazards: "H70", file: "checkpoint/shard.go",
		old: `	return s.State == Lost && s.Generation >= table.Generation`, new: `	return s.State == Lost && s.Generation > table.Generation`,
		test: "./checkpoint TestH70|TestFleet|TestReopen|TestRaise", why: "a worker must go between a gap and its raise",
	},
	{
		name: "a parent that a torn read has missed is not asked for", hazards: "H12", file: "checkpoint/shard.go",
		old: `	if len(missing) == 0 {
		return shards, nil`,
		new: `	if true {
		return shards, nil`,
		test: "./checkpoint TestH12_ParentBehindTheRead", why: "a read must begin before the parent is listed, and end after its child is",
	},
	{
		name: "a raise that another has overtaken counts as made", hazards: "H24", file: "checkpoint/table.go",
		old: `if s.Generation > from && change != nil && changes(*s, change) {`, new: `if false {`,
		test: "./checkpoint TestRaise_Overtaken_H24", why: "two gaps must be found within milliseconds",
	},
}

// inCoverage are bugs in what may be read, removed, loaded, and counted as applied.
var inCoverage = []mutant{
	{
		name: "covered_to is not inherited", hazards: "H23 H75", file: "checkpoint/lease.go",
		old: "				s.CoveredTo = later(s.CoveredTo, parent.Covers(listed.Open[parent.ID], table.Owed()))\n", new: "				_ = listed\n",
	},
	{
		name: "a child is covered up to when its parent was done", hazards: "H75", file: "checkpoint/shard.go",
		old: `	covers := s.CoveredTo
`,
		new: `	if s.State == Done {
		return s.DoneAt
	}
	covers := s.CoveredTo
`,
		test: "./checkpoint TestH75_CoveredTo", why: "it takes two outages in a row, timed to minutes",
	},
	{
		name: "a gap covers nothing", hazards: "H75", file: "checkpoint/shard.go",
		old: `	if s.State == Lost {
		return s.DoneAt
	}
`,
		test: "./checkpoint TestH75_CoveredTo", why: "it takes outages of a day, timed to minutes",
	},
	{
		name: "covered to when it was first seen open", hazards: "H23", file: "checkpoint/listing.go",
		old: `			next[id] = later(next[id], at.UTC())
`,
		new: `			if next[id].IsZero() {
				next[id] = at.UTC()
			}
`,
		test: "./checkpoint TestNoteOpen", why: "it takes outages of a day, timed to minutes",
	},
	{
		name: "a root's first read covers what nothing loads", hazards: "H75 H84", file: "checkpoint/shard.go",
		old: `	if !owed.IsZero() && owed.Before(s.FirstRead) {
`,
		new: `	if !owed.IsZero() && owed.After(s.FirstRead) {
`,
		test: "./internal/sim TestH75_NotLoadedAndTheRoot", why: "it takes two outages in a row, timed to hours",
	},
	{
		name: "closed shards noted as open", hazards: "H75", file: "internal/pipeline/keeper.go",
		old: `		if !s.Closed && !closed[s.ID] {
`,
		new: `		if s.ID != "" {
`,
		test: "./internal/sim TestH75|TestH13", why: "it takes outages of a day, timed to minutes",
	},
	{
		name: "child before its parent", hazards: "H12", file: "checkpoint/watch.go",
		old: "		if parent != nil && !parent.settled(table) {\n", new: "		if parent != nil && parent.ID == \"\" {\n",
	},
	{
		name: "what follows a gap is read before it is declared", hazards: "H22", file: "checkpoint/shard.go",
		old: " && s.Loss != Trimmed && !s.Undeclared(table)", new: " && s.Loss != Trimmed",
		test: "./checkpoint TestH12_H14_Free", why: "takes a shard that is gone, and a worker that goes between noting that and declaring it (seed 90000002292, dense)",
	},
	{
		name: "a load beside a gap that is not declared", hazards: "H22", file: "checkpoint/coverage.go",
		old: "		if s.Undeclared(table) {\n", new: "		if s.Undeclared(table) && s.ID == \"\" {\n",
		test: "./checkpoint TestAdmissible", why: "the gap is declared within a pass, and the load counts for nothing then",
	},
	{
		name: "child before its trimmed parent", hazards: "H12 H21", file: "checkpoint/shard.go",
		old: "s.State == Done || s.State == Lost && s.Loss != Trimmed && ", new: "s.State == Done || s.State == Lost && ",
		test: "./checkpoint TestH12_H14", why: "harmless for the rows; the child's coverage rests on it",
	},
	{
		name: "parent row cleaned too early", hazards: "H16 H76", file: "checkpoint/shard.go",
		old: `now.Sub(s.DoneAt) >= kept`, new: `now.Sub(s.DoneAt) >= 0`,
	},
	{
		name: "rows removed before their children are known", hazards: "H76", file: "checkpoint/shard.go",
		old: ` && (n[0] > 0 || ended))`, new: `)`,
		test: "./checkpoint TestH16_H76", why: "a child must be listed two days late",
	},
	{
		name: "rows removed while they are listed", hazards: "H16", file: "checkpoint/shard.go",
		old: `!isListed[s.ID] && (n[0] > 0 || ended)`, new: `n[0] > 0 || ended`,
	},
	{
		name: "rows removed before their children are finished", hazards: "H16", file: "checkpoint/shard.go",
		old: ` && n[0] == n[1] &&`, new: ` &&`,
		test: "./checkpoint TestH16_H76_Removable", why: "a child must wait for two days",
	},
	{
		name: "done without a time", hazards: "H16", file: "checkpoint/lease.go",
		old: `		s.DoneAt = task.Now(ctx).UTC()
		return s.advance(p)
`,
		new: `		return s.advance(p)
`,
	},
	{
		name: "a trimmed shard is reopened where it was", hazards: "H21", file: "checkpoint/shard.go",
		old: "	s.Position, s.FirstRead, s.CoveredTo = cdc.SequenceNumber{}, time.Time{}, s.DoneAt\n", new: "	s.FirstRead, s.CoveredTo = time.Time{}, s.DoneAt\n",
		test: "./checkpoint TestReopen", why: "about a hundred seeds of the swarm find it",
	},
	{
		name: "whose parent's row is gone is a root", hazards: "H34", file: "checkpoint/coverage.go",
		old: `!known[s.Parent] && !s.Inherited {`, new: `!known[s.Parent] {`,
		test: "./checkpoint TestAdmissible", why: "a load must take more than three days, which no whole day does",
	},
	{
		name: "reopened as if it had been read", hazards: "H21 H32", file: "checkpoint/shard.go",
		old: `s.Position, s.FirstRead, s.CoveredTo = cdc.SequenceNumber{}, time.Time{}, s.DoneAt`, new: `s.Position, s.CoveredTo = cdc.SequenceNumber{}, s.DoneAt`,
	},
	{
		name: "reopened without coverage", hazards: "H21 H75", file: "checkpoint/shard.go",
		old: `	s.Position, s.FirstRead, s.CoveredTo = cdc.SequenceNumber{}, time.Time{}, s.DoneAt
`,
		new: `	s.Position, s.FirstRead, s.CoveredTo = cdc.SequenceNumber{}, time.Time{}, time.Time{}
`,
		test: "./checkpoint TestReopen", why: "it takes another outage of a day after the trim",
	},
	{
		name: "load before the roots were read", hazards: "H32", file: "checkpoint/coverage.go",
		old: "		if s.FirstRead.IsZero() {\n", new: "		if s.FirstRead.IsZero() && s.ID == \"\" {\n",
	},
	{
		name: "load before the generation is adopted", hazards: "H70", file: "checkpoint/coverage.go",
		old: `	if table.Adopted != table.Generation {
`,
		new: `	if table.Adopted > table.Generation {
`,
		test: "./checkpoint TestAdmissible", why: "no load follows a gap by now, and the first generation is adopted at once",
	},
	{
		name: "load of any length", hazards: "H34", file: "checkpoint/coverage.go",
		old: `		if start.Before(s.FirstRead.Add(Slack - cdc.Retention)) {
`,
		new: `		if start.IsZero() {
`,
		test: "./checkpoint TestAdmissible", why: "no load of a run takes a day",
	},
}
