package main

// inRounds are errors that a step of the keeper swallows.
var inRounds = []mutant{
	{
		name: "that what is open cannot be noted is forgotten", hazards: "H75", file: "internal/pipeline/keeper.go",
		old: `		func(ctx context.Context) error { return k.noteOpen(ctx, state) },
`,
		new: `		func(ctx context.Context) error { _ = k.noteOpen(ctx, state); return nil },
`,
		test: "./internal/pipeline TestARoundEnds", why: "the next round notes it",
	},
	{
		name: "a claim of a target that fails counts as made", hazards: "H69", file: "internal/pipeline/keeper.go",
		old: `	return t.Ledger.Claim(ctx, t.source, at)
`,
		new: `	_ = t.Ledger.Claim(ctx, t.source, at)
	return nil
`,
		test: "./internal/pipeline TestARoundEnds", why: "the next beat declares another gap",
	},
	{
		name: "a gap that cannot be declared is declared", hazards: "H76", file: "internal/pipeline/keeper.go",
		old: `		if err := k.raise(ctx, state.Generation, gapOf(o), nil); err != nil {
			return err
`,
		new: `		if err := k.raise(ctx, state.Generation, gapOf(o), nil); err != nil {
			return nil
`,
		test: "./internal/pipeline TestARoundEnds", why: "the next round declares it",
	},
	{
		name: "shards that cannot be read are not known", hazards: "H66", file: "internal/pipeline/keeper.go",
		old: `	return known, rows, err
`,
		new: `	_ = err
	return known, rows, nil
`,
		test: "./internal/pipeline TestARoundEnds", why: "the next look fails as well",
	},
	{
		name: "an adoption that fails ends a round well", hazards: "H70", file: "internal/pipeline/keeper.go",
		old: `		if v.state, err = k.Ledger.Adopt(ctx, k.source); err != nil {
			return err
`,
		new: `		if v.state, err = k.Ledger.Adopt(ctx, k.source); err != nil {
			return nil
`,
		test: "./internal/pipeline TestARoundEnds", why: "the next round adopts",
	},
	{
		name: "children that cannot be written down are", hazards: "H13", file: "internal/pipeline/keeper.go",
		old: `		if err := k.discover(ctx, state, listing, false); err != nil {
			return err
`,
		new: `		if err := k.discover(ctx, state, listing, false); err != nil {
			return nil
`,
		test: "./internal/pipeline TestARoundEnds", why: "the next pass asks for them",
	},
	{
		name: "that a table was dropped cannot be noted, which is forgotten", hazards: "", file: "internal/pipeline/stream.go",
		old: `	return setAside(ctx, k.Ledger, k.events, k.source, GoneReason)
`,
		new: `	_ = setAside(ctx, k.Ledger, k.events, k.source, GoneReason)
	return nil
`,
		test: "./internal/pipeline TestARoundEnds", why: "the next round notes it",
	},
	{
		name: "a witness that cannot be read is fine", hazards: "H68 H69", file: "internal/pipeline/keeper.go",
		old: `	if err != nil || verdict == checkpoint.Fine {
		return err
`,
		new: `	if err != nil || verdict == checkpoint.Fine {
		return nil
`,
		test: "./internal/pipeline TestARoundEnds", why: "the next beat reads it",
	},
}
