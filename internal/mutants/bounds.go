package main

// inBounds are bugs in where a check ends, in what is remembered after its end, and in what counts of several.
var inBounds = []mutant{
	{
		name: "whoever reads on after a change is judged by the horizon", hazards: "H75", file: "cdc/reader.go",
		old: `	if err == nil && r.fresh && applied.AtHorizon() {
`,
		new: `	if err == nil && r.fresh {
`,
		test: "./cdc TestAShardThatWasRead", why: "a shard must be taken over a day after its ancestors ended",
	},
	{
		name: "the horizon is judged with every page", hazards: "H75", file: "cdc/reader.go",
		old: `	if err == nil && r.fresh && applied.AtHorizon() {
`,
		new: `	if err == nil && applied.AtHorizon() {
`,
		test: "./cdc TestAnIdleShard", why: "a shard must have nothing for a day",
	},
	{
		name: "a throttle at the horizon seeks it anew", hazards: "H75", file: "cdc/reader.go",
		old: `if !passing || r.fresh && applied.AtHorizon() {`, new: `if !passing || applied.AtHorizon() {`,
		test: "./cdc TestAnIdleShard", why: "a shard must have nothing for a day",
	},
	{
		name: "a position that cannot be read is none", hazards: "", file: "cdc/sequence.go",
		old: `	*s, err = ParseSequenceNumber(string(b))
	return err
`,
		new: `	*s, err = ParseSequenceNumber(string(b))
	return nil
`,
		test: "./cdc TestASequenceNumber", why: "nobody writes such a number",
	},
	{
		name: "the first fault of a service is its caller's", hazards: "", file: "cdc/reason.go",
		old: `status >= 400 && status < 500:`, new: `status >= 400 && status <= 500:`,
		test: "./cdc TestReasonsOfStatuses", why: "either is repeated",
	},
	{
		name: "a listing may have pages without an end", hazards: "H53", file: "cdc/listing.go",
		old: `l.repeated > maxRepeatedPages || l.pages >= maxListingPages {`, new: `l.repeated > maxRepeatedPages {`,
		test: "./cdc TestAListingWithoutAnEnd", why: "the model's listings end",
	},
	{
		name: "a page supersedes for its first item alone", hazards: "H38", file: "sink/writer.go",
		old: `		b.Astray = b.Astray[1:]
`,
		new: `		b.Astray = nil
`,
		test: "./sink TestAPageSupersedes", why: "two items of a page must get their first address",
	},
	{
		name: "parked items that cannot be counted are none", hazards: "H38", file: "sink/parking.go",
		old: `	if errors.Is(err, errEnough) {
		err = nil
	}
	return n, err
`,
		new: `	_ = err
	return n, nil
`,
		test: "./sink TestWhatCannotBeCounted", why: "a limit is judged again with the next item",
	},
	{
		name: "of several tombstones the last one counts", hazards: "", file: "sink/table.go",
		old: `			if v := transform.Version(c.Value); v > r.Gone {
				r.Gone`,
		new: `			if v := transform.Version(c.Value); v != "" {
				r.Gone`,
		test: "./sink TestTheHighestVersion", why: "a row has one tombstone",
	},
	{
		name: "the context of a call that has ended is kept", hazards: "", file: "internal/pipeline/reads.go",
		old: `		cancel(context.Canceled)
		r.mu.Lock()
`,
		new: `		r.mu.Lock()
`,
		test: "./internal/pipeline TestCallsThatEnded", why: "it costs memory alone",
	},
	{
		name: "a wait for a place is remembered for ever", hazards: "", file: "internal/pipeline/hand.go",
		old: `	waiting, end := h.calls.begin(ctx)
	defer end()
`,
		new: `	waiting, _ := h.calls.begin(ctx)
`,
		test: "./internal/pipeline TestCallsThatEnded", why: "it costs memory alone",
	},
	{
		name: "once: a shard that was given up is idle", hazards: "H18", file: "internal/pipeline/board.go",
		old: `r != nil && !r.left && r.emptyPages`, new: `r != nil && r.emptyPages`,
		test: "./internal/pipeline TestWhatWasGivenUpIsNot", why: "a source must fall silent in the last seconds of a run",
	},
	{
		name: "a table whose stream carries keys alone ends the process", hazards: "H62", file: "internal/pipeline/join.go",
		old: `	case errors.As(err, &stream):
		return "the stream's view type "`,
		new: `	case errors.As(err, &stream) && stream.Table == "":
		return "the stream's view type "`,
		test: "./internal/pipeline TestWhyATable", why: "no run changes the view type of a table of a pattern",
	},
	{
		name: "what is found out while tables are looked for is forgotten", hazards: "H68", file: "internal/pipeline/join.go",
		old: `			return j.end(err)
		}
		if j.Once {`,
		new: `			return nil
		}
		if j.Once {`,
		test: "./internal/pipeline TestALookForTables", why: "who follows a table finds it as well",
	},
}
