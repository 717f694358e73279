package main

// inTellings are bugs in what a worker tells, in its defaults, and in what it asks for again: nothing of the rows depends on them, and operators do.
var inTellings = []mutant{
	{
		name: "the trouble of a shard outlives its pages", hazards: "", file: "internal/pipeline/follow.go",
		old: `		t.vain.answered(shard.ID)
		next := at
`,
		new: `		next := at
`,
		test: "./internal/pipeline TestAShardsTrouble", why: "for people",
	},
	{
		name: "a load's pace is a number before it can be told", hazards: "", file: "internal/pipeline/trouble.go",
		old:  `math.Round(max(0, t.meter.Rate())*10) / 10`,
		new:  `math.Round(t.meter.Rate()*10) / 10`,
		test: "./internal/pipeline TestWaitsAndPaces", why: "for people",
	},
	{
		name: "a load's pace is that of its beginning", hazards: "", file: "internal/pipeline/trouble.go",
		old: `	t.meter.Add(task.Mono(ctx), items)
`,
		new:  ``,
		test: "./internal/pipeline TestWaitsAndPaces", why: "for people",
	},
	{
		name: "what has waited for a limit is about to wait", hazards: "", file: "internal/pipeline/trouble.go",
		old: `	t.waits.add(reason, now.Add(-wait), wait, now)
`,
		new: `	t.waits.add(reason, now, wait, now)
`,
		test: "./internal/pipeline TestWaitsAndPaces", why: "for people",
	},
	{
		name: "what is about to wait for a limit has waited", hazards: "", file: "internal/pipeline/trouble.go",
		old: `	t.waits.add(reason, now, wait, now)
`,
		new: `	t.waits.add(reason, now.Add(-wait), wait, now)
`,
		test: "./internal/pipeline TestWaitsAndPaces", why: "for people",
	},
	{
		name: "a table is gone for a scan that did not find it", hazards: "", file: "internal/pipeline/join.go",
		old: `	case cdc.Is(err, cdc.NotFound) && gone(t.Database.Describe(ctx, t.source)):
`,
		new: `	case cdc.Is(err, cdc.NotFound):
`,
		test: "./internal/pipeline TestWhatIsGone", why: "the model finds a table that is there",
	},
	{
		name: "a table that is about to be dropped is there", hazards: "", file: "internal/pipeline/join.go",
		old: ` || err == nil && d.Status == "DELETING"
`,
		new: `
`,
		test: "./internal/pipeline TestWhatIsGone", why: "it is dropped within the next round",
	},
	{
		name: "a load is estimated by bytes", hazards: "", file: "internal/pipeline/copy.go",
		old:  `Estimate: d.Items}`,
		new:  `Estimate: d.Bytes}`,
		test: "./internal/pipeline TestALoadStopsBetween", why: "for people",
	},
	{
		name: "a pass is as long as a short lease", hazards: "H44", file: "internal/pipeline/pipeline.go",
		old:  `min(2*time.Second, lease/3)`,
		new:  `2*time.Second`,
		test: "./internal/pipeline TestDefaultsOfTiming", why: "runs have a lease of fifteen seconds",
	},
	{
		name: "what a source does not answer is given up after a lease", hazards: "H63", file: "internal/pipeline/pipeline.go",
		old: `	or(&t.Yield, 4*lease)
`,
		new: `	or(&t.Yield, lease)
`,
		test: "./internal/pipeline TestDefaultsOfTiming", why: "who takes it back reads on",
	},
	{
		name: "once: a second without changes is the end", hazards: "H18", file: "internal/pipeline/pipeline.go",
		old: `	or(&t.Idle, 10*time.Second)
`,
		new: `	or(&t.Idle, time.Second)
`,
		test: "./internal/pipeline TestDefaultsOfTiming", why: "pages of the model are empty for as long as nothing comes",
	},
	{
		name: "a ledger of a newer version is read again and again", hazards: "", file: "internal/pipeline/pipeline.go",
		old:  `, checkpoint.ErrClusterChanged, checkpoint.ErrFormat)`,
		new:  `, checkpoint.ErrClusterChanged)`,
		test: "./internal/pipeline TestEndTells", why: "no run has a ledger of a newer version",
	},
	{
		name: "a lease that could not be taken once is never taken", hazards: "H44", file: "internal/pipeline/assign.go",
		old: `		held.remove(id)
		if fatal(err) {
`,
		new: `		if fatal(err) {
`,
		test: "./internal/pipeline TestALeaseThatFailed", why: "another worker takes it, or the next process",
	},
	{
		name: "a generation of another mapping is not told", hazards: "", file: "internal/pipeline/pipeline.go",
		old: `			t.events.Raised(t.source, state.Generation, checkpoint.ChangedMapping)
`,
		new:  ``,
		test: "./internal/pipeline TestAnAcceptedMapping", why: "for people",
	},
	{
		name: "the headroom is a day whatever the lag", hazards: "", file: "internal/pipeline/assign.go",
		old:  `t.events.Lag(t.source, lag, cdc.Retention-lag)`,
		new:  `t.events.Lag(t.source, lag, cdc.Retention)`,
		test: "./internal/pipeline TestWhatAWorkerTells", why: "for people",
	},
	{
		name: "a stop waits for the end of a load", hazards: "", file: "internal/pipeline/copy.go",
		old: `	if s.stop.Err() != nil {
		return backfill.ScanPage{}, errStopped
	}
`,
		new:  ``,
		test: "./internal/pipeline TestALoadStopsBetween", why: "the grace ends it, and it goes on where it was saved",
	},
	{
		name: "shards are counted by state up to one", hazards: "", file: "internal/pipeline/assign.go",
		old: `		states[s.State]++
`,
		new: `		states[s.State] = 1
`,
		test: "./internal/pipeline TestWhatAWorkerTells", why: "for people",
	},
	{
		name: "the keeper of a dropped table asks for it in every pass", hazards: "", file: "internal/pipeline/keeper.go",
		old: `			rest, err = t.Timing.List, nil
`,
		new: `			err = nil
`,
		test: "./internal/pipeline TestTheSeatOfADropped", why: "it costs requests alone",
	},
	{
		name: "shards that were given up are remembered for ever", hazards: "", file: "internal/pipeline/yield.go",
		old: `	maps.DeleteFunc(v.tries, func(_ string, a attempts) bool { return a.left && now-a.given > vainFor }) // others may have it for good
`,
		new:  ``,
		test: "./internal/pipeline TestWhatWasGivenUpLong", why: "no run has so many",
	},
	{
		name: "what a service throttles is not told", hazards: "", file: "internal/pipeline/retry.go",
		old: `			t.throttled(ctx, limit, wait)
`,
		new: `			_ = limit
`,
		test: "./internal/pipeline TestWhatAWorkerTells", why: "for people",
	},
	{
		name: "a shard that is done is not told", hazards: "", file: "internal/pipeline/follow.go",
		old: `		t.events.ShardDone(t.source, lease.Shard().ID)
`,
		new:  ``,
		test: "./internal/pipeline TestWhatAWorkerTells", why: "for people",
	},
	{
		name: "a gap is not told", hazards: "", file: "internal/pipeline/keeper.go",
		old: `		t.events.Gap(t.source, gap.Shard, gap.Reason)
`,
		new:  ``,
		test: "./internal/pipeline TestWhatAWorkerTells", why: "for people",
	},
	{
		name: "a dry run passes over shards that ended", hazards: "", file: "internal/pipeline/dryrun.go",
		old: `		g.Go("read "+shard.ID, func(ctx context.Context) error {
`,
		new: `		g.Go("read "+shard.ID, func(ctx context.Context) error {
			if shard.Closed {
				return nil
			}
`,
		test: "./internal/pipeline TestADryRunTells", why: "it writes nothing",
	},
	{
		name: "a dry run lists one shard", hazards: "", file: "internal/pipeline/dryrun.go",
		old: `	r.found.Shards = len(listing.Shards)
`,
		new: `	r.found.Shards++
`,
		test: "./internal/pipeline TestADryRunTells", why: "for people",
	},
	{
		name: "a dry run goes through although the stream cannot be followed", hazards: "H62", file: "internal/pipeline/dryrun.go",
		old: `	return d, CheckStream(d, r.Mapping.DependsOnKeyOnly())
`,
		new: `	return d, nil
`,
		test: "./internal/pipeline TestADryRunTells", why: "it writes nothing",
	},
	{
		name: "a dry run ends with a shard that is gone", hazards: "", file: "internal/pipeline/dryrun.go",
		old: `	if cdc.Is(err, cdc.Trimmed) || cdc.Is(err, cdc.NotFound) {
`,
		new: `	if cdc.Is(err, cdc.Trimmed) {
`,
		test: "./internal/pipeline TestADryRunTells", why: "it writes nothing",
	},
	{
		name: "who looks at a witness takes what is there for missing", hazards: "H69", file: "checkpoint/witness.go",
		old: `verdict := Judge(w, found, l.id, table)
	if verdict == Fine {`,
		new: `verdict := Judge(w, !found, l.id, table)
	if verdict == Fine {`,
		test: "./checkpoint TestALook", why: "for people",
	},
}
