package main

// inSurvivors are bugs that were planted by rule first (internal/mutants/mechanical), and that nothing found then.
var inSurvivors = []mutant{
	{
		name: "an old listing counts for a new stream", hazards: "H24", file: "internal/pipeline/keeper.go",
		old: `		if s.Label == state.Label && s.Listed == 0 {
`,
		new: `		if s.Listed == 0 {
`,
		test: "./internal/pipeline TestH24", why: "a keeper must stand still between its listing and the note of it, and another one notice a new stream",
	},
	{
		name: "a root that was read after the load began is covered to its first read", hazards: "H75", file: "internal/pipeline/follow.go",
		old: `(at.IsZero() || started.Before(at))`, new: `at.IsZero()`,
		test: "./internal/pipeline TestH75", why: "a root must be listed late, give empty pages, and nobody be there for a day",
	},
	{
		name: "a root rests on a load of another generation", hazards: "H75", file: "internal/pipeline/follow.go",
		old: `table.Load.Generation == s.Generation && !started.IsZero()`, new: `!started.IsZero()`,
		test: "./internal/pipeline TestH75", why: "what it is judged by moves by minutes",
	},
	{
		name: "a copy that nobody asked for", hazards: "", file: "internal/pipeline/copy.go",
		old: `	if !t.Copy {
`,
		new: `	if t.Mapping == nil {
`,
	},
	{
		name: "a load begins though a gap asks for another", hazards: "", file: "internal/pipeline/copy.go",
		old: `stop.Err() != nil || state.Loaded() || state.NeedsLoad {`, new: `stop.Err() != nil || state.Loaded() {`,
	},
	{
		name: "a load begins in the generation of a gap that was declared meanwhile", hazards: "H71", file: "internal/pipeline/copy.go",
		old: `			if s.Generation != generation {
				return errRaised
			}
`,
		new: `			_ = generation
`,
		test: "./internal/pipeline TestH71", why: "a gap must be declared between two calls, about one seed in 2,000",
	},
	{
		name: "a load begins before the stream is listed", hazards: "H34", file: "internal/pipeline/copy.go",
		old: `		if err != nil || v.state.Loaded() || v.state.NeedsLoad {
`,
		new: `		if err != nil || v.state.Generation > 0 {
`,
	},
	{
		name: "progress of a load without its generation", hazards: "H71", file: "internal/pipeline/copy.go",
		old: `Table: t.source, Generation: generation, Segments`, new: `Table: t.source, Segments`,
	},
	{
		name: "another table is loaded", hazards: "", file: "internal/pipeline/copy.go",
		old: `Table: t.source, Generation: generation, Segments`, new: `Table: "", Generation: generation, Segments`,
	},
	{
		name: "nothing is committed but the end of a shard", hazards: "H01", file: "internal/pipeline/follow.go",
		old: `t.due(before, at, now-committed) {`, new: `t.due(before, at, now-committed) && page.End {`,
	},
	{
		name: "a clean stop keeps the leases", hazards: "H44", file: "internal/pipeline/follow.go",
		old: `if released := lease.Release(ctx); err == nil`, new: `if released := ctx.Err(); err == nil`,
	},
	{
		name: "a clean stop keeps the seat", hazards: "H44", file: "internal/pipeline/keeper.go",
		old: `released := keeper.Release(ctx); err == nil`, new: `released := ctx.Err(); err == nil`,
	},
	{
		name: "what listings show open is not noted", hazards: "H75", file: "internal/pipeline/keeper.go",
		old: `		func(ctx context.Context) error { return k.noteOpen(ctx, state) },
`,
	},
	{
		name: "the end of a stream is declared again and again", hazards: "H24", file: "internal/pipeline/stream.go",
		old: `	gap := checkpoint.Gap{Reason: "the stream is disabled"}
	return k.raise(ctx, state.Generation, gap, func(s *checkpoint.TableState) { s.StreamEnded = true })
`,
		new: `	gap := checkpoint.Gap{Reason: "the stream is disabled"}
	return k.raise(ctx, state.Generation, gap, nil)
`,
	},
	{
		name: "changes from before the start are applied", hazards: "H84", file: "internal/pipeline/keeper.go",
		old: `Generation: state.Generation, Dropping: !state.Cut.IsZero(),`, new: `Generation: state.Generation,`,
	},
	{
		name: "a child without what its parent covers", hazards: "H75", file: "checkpoint/lease.go",
		old: `				s.CoveredTo = later(s.CoveredTo, parent.Covers(listed.Open[parent.ID], table.Owed()))
`,
		new: `				_ = listed
`,
	},
	{
		name: "a gap that does not say what it is", hazards: "H21 H22", file: "checkpoint/lease.go",
		old: `s.Loss, s.Reason, s.DoneAt = loss, reason,`, new: `s.Reason, s.DoneAt = reason,`,
	},
	{
		name: "a shard is done since the beginning of time", hazards: "H16", file: "checkpoint/lease.go",
		old: `		s.DoneAt = task.Now(ctx).UTC()
		return s.advance(p)
`,
		new: `		return s.advance(p)
`,
	},
	{
		name: "a ledger without an id", hazards: "H68", file: "checkpoint/ledger.go",
		old: `pipeline{Ledger: o.ID, `, new: `pipeline{`,
	},
	{
		name: "progress of a load is not saved", hazards: "H01", file: "checkpoint/keeper.go",
		old: `r.Scan, r.Pace = progress, pace`, new: `r.Pace = pace`,
	},
	{
		name: "an operation of no kind", hazards: "", file: "sink/guard.go",
		old: `		Op{Kind: DeleteColumn, Family: GoneFamily, Qualifier: column},
		Op{Kind: SetCell, Family: LiveFamily,`,
		new: `		Op{Family: GoneFamily, Qualifier: column},
		Op{Kind: SetCell, Family: LiveFamily,`,
	},
	{
		name: "a repair believes that the row holds what it should", hazards: "H57", file: "sink/repair.go",
		old: `	return len(Compare(seen, want)) == 0
`,
		new: `	return true
`,
		test: "./sink TestRepair", why: "an item must stay parked while its row holds another image of it",
	},
	{
		name: "a repair leaves the rows where the item was before", hazards: "H57", file: "sink/repair.go",
		old: `			wanted = append(wanted, r)
`,
		new: `			_ = r
`,
		test: "./sink TestRepair", why: "parking has removed them, unless the item moved twice",
	},
	{
		name: "a repair that another write has overtaken counts as made", hazards: "H57", file: "sink/repair.go",
		old: `		return false, ErrOvertaken
	}
	return true, nil`,
		new: `		return false, nil
	}
	return true, nil`,
		test: "./sink TestRepair", why: "the row must change in the milliseconds between look and write",
	},
	{
		name: "a parked change says neither whose it is nor why", hazards: "H38", file: "sink/parking.go",
		old: `Source: record.Source, Key: record.Key, Version: string(record.Version), Reason: record.Reason,`, new: `Key: record.Key, Version: string(record.Version),`,
	},
	{
		name: "a torn read is mended for parents alone", hazards: "H12", file: "checkpoint/shard.go",
		old: `		missing = l.missingParents(shards) // those`, new: `		missing = nil // those`,
		test: "./checkpoint TestH12_Parent", why: "a read must pass the places of a shard, its child and its grandchild, of which the last comes behind it",
	},
	{
		name: "roots that are over are not judged", hazards: "H32", file: "checkpoint/coverage.go",
		old: `		if s.State == Lost {
			continue`,
		new: `		if s.Finished() {
			continue`,
		test: "./checkpoint TestAdmissible", why: "a load must take more than a day, and a root be listed late",
	},
	{
		name: "a further witness counts as ours with the first", hazards: "H68", file: "checkpoint/witness.go",
		old: `held := source + "/" + at.Further`, new: `held := source`,
		test: "./checkpoint TestH68_Further", why: "a target of several tables must be exchanged, which few seeds have",
	},
	{
		name: "writes are refused below the generation of any table", hazards: "H70", file: "internal/pipeline/pipeline.go",
		old: `	return f.generations[source]
`,
		new: `	floor := f.generations[source]
	for _, g := range f.generations {
		floor = max(floor, g)
	}
	return floor
`,
	},
	{
		name: "once: empty pages are counted over changes", hazards: "", file: "internal/pipeline/board.go",
		old: `		r.emptyPages = 0
		return
`,
		new: `		return
`,
		test: "./internal/pipeline TestBoard", why: "a run must drain a backlog, and that of one shard within its last pages",
	},
	{
		name: "of two rules that ask for one row the later one's columns alone are owned", hazards: "H72", file: "transform/place.go",
		old: `into.Columns = union(into.Columns, m.Columns)`, new: `into.Columns = m.Columns`,
		test: "./transform TestH72_Item", why: "no mapping of the runs has an item go between two cells of one row",
	},
	{
		name: "what stands for an absent attribute goes through all functions", hazards: "", file: "transform/rowkey.go",
		old: `calls[n].Text}, calls[n+1:]`, new: `calls[n].Text}, append(slices.Clone(calls[:n]), calls[n+1:]...)`,
	},
}
