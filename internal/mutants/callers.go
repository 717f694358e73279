package main

// inCallers are bugs of a stranger beside the stream: what one episode leaves to the next, and what runs only after something rare.
var inCallers = []mutant{
	{
		name: "a change that brings what a repair read ahead of it is not set", hazards: "", file: "sink/keep.go",
		old: `		from = seen[n].Timestamp
		n = slices.IndexFunc(seen, func(c transform.Cell) bool { return c.Timestamp < from })
`,
		new: `		from = seen[n].Timestamp
`,
		test: "./sink TestAChangeThatBringsWhatARepairReadStays", why: "a repair must read ahead of the stream, the value that the next change brings, in a mapping that keeps older cells",
	},
	{
		name: "an old image that is missing is forgotten with the item's next change", hazards: "", file: "transform/fold.go",
		old: `	h.reason, h.rule = nil, nil
`,
		new: `	h.reason, h.rule, h.unknown = nil, nil, ""
`,
		test: "./transform TestAMissingOldImageIsMissedForTheWholePage", why: "streams with old images leave none out, so that this is a fault on the way",
	},
	{
		name: "an insert does not supersede what a load parked", hazards: "", file: "transform/fold.go",
		old: `			h.astray = h.reason != nil
`,
		new: `			h.astray = h.reason != nil && c.Event != cdc.Insert
`,
		test: "./transform TestAnInsertSupersedesWhatALoadParked", why: "an item without any row, parked by a load and again by the stream",
	},
	{
		name: "the limit of former cells is one for all rows of an item", hazards: "", file: "transform/past.go",
		old: `	for i := range rows {
		row := &rows[i]
		if row.Remove {
			continue
		}
		total := 0
`,
		new: `	total := 0
	for i := range rows {
		row := &rows[i]
		if row.Remove {
			continue
		}
`,
		test: "./transform TestThePastOfEveryRowIsBoundedForItself", why: "items of thousands of columns that are written to several rows",
	},
	{
		name: "a page's images are older by all the attempts before", hazards: "", file: "backfill/scan.go",
		old: `	err = s.retry(ctx, func(ctx context.Context) (err error) {
		sent, began := task.Now(ctx), task.Mono(ctx)
`,
		new: `	began := task.Mono(ctx)
	err = s.retry(ctx, func(ctx context.Context) (err error) {
		sent := task.Now(ctx)
`,
		test: "./backfill TestImagesAreAsOldAsTheAttemptThatReadThem", why: "too old is safe, and is refused in the end",
	},
	{
		name: "what a client missed is the feed's own list", hazards: "", file: "internal/admin/feed.go",
		old: `	missed = slices.Clone(f.kept)
`,
		new: `	missed = f.kept
`,
		test: "./internal/admin TestWhatWasMissedStays", why: "the feed must be full, and go on between two lines",
	},
	{
		name: "the meter of a copy goes on from the one before", hazards: "", file: "cmd/replicator/observe.go",
		old: `		*c = copyProgress{running: true, items: done, estimate: estimate, start: o.mono(), resumed: done > 0, lag: c.lag, headroom: c.headroom}
`,
		new: `		c.running, c.items, c.estimate, c.start = true, done, estimate, o.mono()
`,
		test: "./cmd/replicator TestASecondCopyIsMeasuredForItself", why: "one process that copies a table twice",
	},
	{
		name: "a copy begins without the lag of its table", hazards: "", file: "cmd/replicator/observe.go",
		old: `start: o.mono(), resumed: done > 0, lag: c.lag, headroom: c.headroom}
`,
		new: `start: o.mono(), resumed: done > 0}
`,
		test: "./cmd/replicator TestASecondCopyIsMeasuredForItself", why: "what is drawn on a terminal",
	},
	{
		name: "a table that joins again is drawn twice", hazards: "", file: "cmd/replicator/observe.go",
		old: `	if o.copies[table] == nil {
		o.copies[table]`,
		new: `	if c := o.copies[table]; c == nil || !c.running {
		o.copies[table]`,
		test: "./cmd/replicator TestASecondCopyIsMeasuredForItself", why: "a table that is dropped and made again",
	},
	{
		name: "a copy between two readings is never told as done", hazards: "", file: "cmd/replicator/happenings.go",
		old: `	case c.State == copyDone && was.Copy.State != copyDone:
`,
		new: `	case c.State == copyDone && was.Copy.State == copyRunning:
`,
		test: "./cmd/replicator TestWhatHappenedBetweenTwoReadings", why: "a copy of less than five seconds",
	},
	{
		name: "a table that is set aside for another reason is not told again", hazards: "", file: "cmd/replicator/happenings.go",
		old: `	if t.aside != "" && t.aside != was.aside {
`,
		new: `	if t.aside != "" && was.aside == "" {
`,
		test: "./cmd/replicator TestWhatHappenedBetweenTwoReadings", why: "a table that is set aside, and dropped then",
	},
	{
		name: "what happened while the ledger could not be read is never told", hazards: "", file: "cmd/replicator/survey.go",
		old: `	if fresh {
		o.last = m
	}
`,
		new: `	o.last = m
`,
		test: "./cmd/replicator TestWhatHappenedWhileBlindIsTold", why: "the ledger must be out of reach while a worker falls silent",
	},
	{
		name: "the last shard alone decides whether the rate is known", hazards: "", file: "cmd/replicator/shardstatus.go",
		old: `			owned = true
			if shard.ChangesPerSecond == nil {
				told = false
			} else {
`,
		new: `			owned = true
			if told = shard.ChangesPerSecond != nil; told {
`,
		test: "./cmd/replicator TestFiguresOfSeveralShards", why: "figures of a status are no matter of rows",
	},
	{
		name: "a keeper's trouble outlives its lease", hazards: "", file: "cmd/replicator/migration.go",
		old:  `m.At.Sub(in.seat.sign.WrittenAt) <= m.lease {`,
		new:  `m.At.Sub(in.seat.sign.WrittenAt) <= 2*m.lease {`,
		test: "./cmd/replicator TestTroublesEndWithTheLease", why: "figures of a status are no matter of rows",
	},
	{
		name: "a worker was last heard of when it wrote the row that is looked at last", hazards: "", file: "cmd/replicator/migration.go",
		old:  `at != nil && (w.HeartbeatAt == nil || at.After(*w.HeartbeatAt)) {`,
		new:  `at != nil {`,
		test: "./cmd/replicator TestFiguresOfSeveralShards", why: "a worker of several shards, one of whose rows is not written",
	},
	{
		name: "a run ends well though a table was dropped days ago", hazards: "", file: "cmd/replicator/migration.go",
		old: `		if t.aside != "" {
			found`,
		new: `		if t.aside != "" && !t.longGone {
			found`,
		test: "./cmd/replicator TestVerdictOnATableThatIsLongGone", why: "a table of a pattern that was dropped more than a day ago, and run --once",
	},
	{
		name: "a repair removes what has expired and is to stay", hazards: "", file: "sink/repair.go",
		old: `live > gone && live >= lacking`, new: `live < gone && live >= lacking`,
		test: "./sink TestRepairOfAnItemThatIsGone", why: "an item must be mended by a change, expire and be retried before its record is resolved",
	},
	{
		name: "a repair leaves what has expired, whatever it lacks", hazards: "", file: "sink/repair.go",
		old: `live > gone && live >= lacking`, new: `live > gone`,
		test: "./sink TestRepairOfAnItemThatIsGone", why: "nobody can tell an older image of an expired item from one that was never parked",
	},
	{
		name: "a repair counts as newest what was parked last", hazards: "", file: "sink/repair.go",
		old: `max(newest, p.Version), append`, new: `p.Version, append`,
		test: "./sink TestRepairOfAnItemThatIsGone", why: "records of one item come by version",
	},
}
