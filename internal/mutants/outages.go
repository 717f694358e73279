package main

// inOutages are bugs in what stands when something beside both tables is away: the control plane, the source table itself.
var inOutages = []mutant{
	{
		name: "a control plane that does not answer is waited for", hazards: "H46", file: "internal/pipeline/cluster.go",
		old: `	limited, cancel := task.WithTimeout(ctx, clusterTime)
`,
		new: `	limited, cancel := context.WithCancel(ctx)
`,
		test: "./internal/pipeline TestAControlPlaneThatIsSilent", why: "nothing hangs on the answer but that it is asked for again",
	},
	{
		name: "where nothing is cut nothing is owed", hazards: "H75", file: "checkpoint/table.go",
		old: `{ return later(s.Cut, s.Since) }`, new: `{ return s.Cut }`,
		test: "./internal/sim TestH75_NotLoaded", why: "few runs load nothing from the horizon on, and what is owed is trimmed a day later",
	},
	{
		name: "a named table that was dropped is not kept", hazards: "", file: "internal/pipeline/stream.go",
		old: `	if k.Joined {
		return errGone
	}
	state,`,
		new: `	if k.Joined || !k.Joined {
		return errGone
	}
	state,`,
		test: "./internal/sim TestNamedTableIsDropped$", why: "no named table is dropped in an ordinary run",
	},
	{
		name: "a copy of a table that was dropped takes its keeper with it", hazards: "", file: "internal/pipeline/copy.go",
		old: `		if t.Joined || !cdc.Is(err, cdc.NotFound) ||`, new: `		if err != nil ||`,
		test: "./internal/sim TestNamedTableIsDroppedAmidItsCopy", why: "no named table is dropped in an ordinary run",
	},
	{
		name: "a table that was dropped is readmitted at once", hazards: "", file: "internal/pipeline/join.go",
		old: `	if k.dropped {
		return nil
	}
`,
		test: "./internal/sim TestNamedTableIsDropped", why: "no named table is dropped in an ordinary run",
	},
}
