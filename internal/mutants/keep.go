package main

// whyKept: the simulation of whole days maps without keep_versions; sim.TestSwarmOfKeptVersionsKillsMutants has bugs of its own.
const whyKept = "the days that are simulated keep no versions; tests and a swarm of their own do"

// inKeeping are bugs in puts that keep older cells.
var inKeeping = []mutant{
	{
		name: "kept row may have changed since the look", hazards: "H26", file: "sink/keep.go",
		old: `	request.Refuse.AtLeast = held + "\x00" // the least of what is above it
`,
		test: "./sink TestH26_ARowThatChangesAfterTheLook", why: whyKept,
	},
	{
		name: "kept put that was put aside counts as applied", hazards: "H38", file: "sink/keep.go",
		old: `gone == m.Version {`, new: `gone == m.Version && gone == "" {`,
		test: "./sink TestH38_RejectedKeptPut", why: whyKept,
	},
	{
		name: "kept history goes on across a generation", hazards: "H70", file: "sink/keep.go",
		old: `if live > gone && live.Generation() == m.Version.Generation() {`, new: `if live > gone {`,
		test: "./sink TestH51_PutsKeepOlderCells", why: whyKept,
	},
	{
		name: "delete from a time on spares that time", hazards: "H51", file: "sink/keep.go",
		old: `Qualifier: at.Qualifier, Timestamp: from})`, new: `Qualifier: at.Qualifier, Timestamp: from + 1000})`,
		test: "./sink TestH51_PutsKeepOlderCells|TestKeptPages", why: whyKept,
	},
	{
		name: "delete from a time on has an end", hazards: "H51", file: "sink/bigtable.go",
		old:  `bigtable.Timestamp(op.Timestamp), 0) //`,
		new:  `bigtable.Timestamp(op.Timestamp), bigtable.Timestamp(op.Timestamp)+1000) //`,
		test: "./sink TestH51_PutsKeepOlderCells", why: "only the real client makes the request",
	},
	{
		name: "look that shows the newest cells alone", hazards: "H51", file: "sink/bigtable.go",
		old: `		if before > 0 { // an end`, new: `		if before < 0 { // an end`,
		test: "./sink TestH51_PutsKeepOlderCells", why: "only the real client makes the filter",
	},
	{
		name: "kept column goes on across an absence", hazards: "H29", file: "sink/keep.go",
		old: `if r == nil || r.last < i-1 {`, new: `if r == nil {`,
		test: "./sink TestPutsKeepTheImages|TestKeptPages", why: whyKept,
	},
	{
		name: "kept load ahead of the stream is history", hazards: "H31", file: "sink/keep.go",
		old: `if n >= 0 && k.contradicted(at, n) {`, new: `if n >= 0 && k.before == nil && k.contradicted(at, n) {`,
		test: "./sink TestLoadsAheadOfTheStream", why: whyKept,
	},
	{
		name: "kept images of a page are the newest alone", hazards: "H72", file: "transform/fold.go",
		old: `if m.keep && puts != nil {`, new: `if m.keep && puts != nil && len(changes) == 0 {`,
		test: "./sink TestKeptPages", why: whyKept,
	},
}
