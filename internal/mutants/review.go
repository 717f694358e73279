package main

// inReview are bugs as a malicious reviewer, or a program that changes one operator, statement or argument at a time, would plant them: in places
// that lose nothing at once, and where one word of a comparison, of an index or of a record is wrong.
var inReview = []mutant{
	{
		name: "an expired iterator is used on", hazards: "H19 H20", file: "cdc/reader.go",
		old: `passing := Is(err, Throttled) || Is(err, Unavailable)`, new: `passing := Is(err, Throttled) || Is(err, Unavailable) || Is(err, Expired)`,
	},
	{
		name: "known hops are forgotten when new shards are ranked", hazards: "H66", file: "cdc/lineage.go",
		old: `		f.hop[n.ID] = int(n.Hop)
`,
	},
	{
		name: "an item that comes back to a row is removed from it", hazards: "H72", file: "transform/place.go",
		old: `			if current {
				a.change = change
			}
			return
`,
		new: `			if current && a.change < 0 {
				a.change = change
			}
			return
`,
	},
	{
		name: "another item's change is parked", hazards: "H38", file: "transform/fold.go",
		old: `Item: h.item, Change: h.newest,`, new: `Item: h.item, Change: i,`,
	},
	{
		name: "version of a load a second above its image", hazards: "H31", file: "transform/fold.go",
		old: `	v := NewVersion(generation, LoadHop, cdc.SequenceOf(uint64(max(0, readAt.Unix()))), CountExact)
`,
		new: `	v := NewVersion(generation, LoadHop, cdc.SequenceOf(uint64(max(0, readAt.Unix()+1))), CountExact)
`,
	},
	{
		name: "a value's first byte is not escaped", hazards: "H37", file: "transform/rowkey.go",
		old: `		if c := s[i]; c == marker || c == '%' {
`,
		new: `		if c := s[i]; c == marker || c == '%' && i > 0 {
`,
	},
	{
		name: "an item's key without its sort key", hazards: "H37", file: "transform/mapping.go",
		old: `	for i, k := range m.PrimaryKey {
`,
		new: `	for i, k := range m.PrimaryKey[:1] {
`,
	},
	{
		name: "an empty map as null", hazards: "", file: "transform/encode.go",
		old: `	case cdc.KindM:
		return appendMembers(b, v.Members())
`,
		new: `	case cdc.KindM:
		if len(v.Members()) == 0 {
			return append(b, "null"...), nil
		}
		return appendMembers(b, v.Members())
`,
	},
	{
		name: "outcome of the next row", hazards: "H02", file: "sink/writer.go",
		old: `			outcomes[i] = outcome{sent: true, err: err}
`,
		new: `			outcomes[i].sent = true
			outcomes[(i+1)%len(outcomes)].err = err
`,
	},
	{
		name: "old removes are parked too", hazards: "H81", file: "sink/writer.go",
		old: `		if b.Rows[i].Remove || !b.Rows[i].At.Before(oldest) {
`,
		new: `		if !b.Rows[i].At.Before(oldest) {
`,
	},
	{
		name: "age of a batch's first image", hazards: "H81", file: "sink/writer.go",
		old: `!b.Rows[i].At.Before(oldest) {`, new: `!b.Rows[0].At.Before(oldest) {`,
		test: "./sink TestH81", why: "the model's older writes seldom come after a tombstone was collected",
	},
	{
		name: "denied is for ever", hazards: "H63", file: "sink/error.go",
		old:  ` || e.Reason == Denied`,
		test: "./sink TestH50_H65_Classify", why: "the shard is given up and taken again until somebody mends the permissions",
	},
	{
		name: "parked changes of one moment take each other's place", hazards: "H38", file: "sink/parking.go",
		old: `	return hex.EncodeToString(sum[:16])
`,
		new: `	return hex.EncodeToString(sum[:0])
`,
	},
	{
		name: "items of a load are counted down", hazards: "", file: "backfill/progress.go",
		old: `	p.Items += int64(items)
`,
		new: `	p.Items -= int64(items)
`,
	},
}

// inStatements are bugs in what the ledger says, which decides late or only tells people.
var inStatements = []mutant{
	{
		name: "no shard is a root", hazards: "H32", file: "checkpoint/coverage.go",
		old: `		if s.Label == label && !known[s.Parent] && !s.Inherited {
`,
		new: `		if s.Owner == label && !known[s.Parent] && !s.Inherited {
`,
	},
	{
		name: "adopted without a new epoch", hazards: "H70", file: "checkpoint/table.go",
		old: `			s.Epoch++
			s.Owner = ""
`,
		new: `			s.Owner = ""
`,
	},
	{
		name: "a refused write of a table's record counts as done", hazards: "H70", file: "checkpoint/table.go",
		old: `		state.Changed = task.Now(ctx).UTC()
`,
		new: `		state.Changed = task.Now(ctx).UTC()
		if found {
			_, err := l.swap(ctx, l.store, l.tableKey(source), counter, l.stamp(&state.header, &state))
			return state, err
		}
`,
	},
	{
		name: "a gap without its reason", hazards: "", file: "checkpoint/table.go",
		old: `	s.NeedsLoad, s.Reason = true, gap.Reason
`,
		new: `	s.NeedsLoad = true
`,
	},
	{
		name: "gaps of several generations are one", hazards: "", file: "checkpoint/table.go",
		old: `g.Reason == gap.Reason && g.Generation == gap.Generation`, new: `g.Reason == gap.Reason`,
	},
	{
		name: "covered to when the child itself was listed", hazards: "H75", file: "checkpoint/lease.go",
		old: `parent.Covers(listed.Open[parent.ID], table.Owed())`, new: `parent.Covers(listed.Open[s.ID], table.Owed())`,
	},
	{
		name: "coverage is forgotten by a commit", hazards: "H75", file: "checkpoint/lease.go",
		old: `		next = l.Shard()
`,
		new: `		next = l.Shard()
		next.CoveredTo = time.Time{}
`,
	},
	{
		name: "covered to the last read", hazards: "H75", file: "checkpoint/lease.go",
		old: `	s.Position = p.Position.After
`,
		new: `	s.Position = p.Position.After
	s.CoveredTo = later(s.CoveredTo, s.ReadAt)
`,
	},
	{
		name: "what a commit says of dropped changes is not kept", hazards: "H84", file: "checkpoint/lease.go",
		old: `	s.ReadAt, s.CaughtUp, s.Dropping = later(s.ReadAt, p.ReadAt), p.CaughtUp, p.Dropping
`,
		new: `	s.ReadAt, s.CaughtUp = later(s.ReadAt, p.ReadAt), p.CaughtUp
`,
	},
	{
		name: "the keeper's epoch stays", hazards: "H45", file: "checkpoint/keeper.go",
		old: `		record.Epoch++
`,
	},
	{
		name: "the keeper forgets what it saved", hazards: "H01", file: "checkpoint/keeper.go",
		old: `	}, func() bool { k.record = next; return next.Owner == "" })
`,
		new: `	}, func() bool { k.record.Owner = next.Owner; return next.Owner == "" })
`,
	},
	{
		name: "position of a page's first change", hazards: "H01", file: "internal/pipeline/follow.go",
		old: `		at.Position.After = c.Sequence
`,
		new: `		at.Position.After = page.Changes[0].Sequence
`,
	},
	{
		name: "event time of a page's last change", hazards: "H07 H75", file: "internal/pipeline/follow.go",
		old: `		if c.Time.After(at.EventTime) {
`,
		new: `		if !c.Time.IsZero() {
`,
	},
	{
		name: "an empty page counts as a change", hazards: "", file: "internal/pipeline/follow.go",
		old: `	at.Applied += uint64(len(page.Changes))
`,
		new: `	at.Applied += uint64(max(1, len(page.Changes)))
`,
	},
	{
		name: "a stop commits a page that was only read", hazards: "H02", file: "internal/pipeline/follow.go",
		old: `	return t.retry(ctx, "commit", func(ctx context.Context) error { return lease.Commit(ctx, at) })`,
		new: `	if page, sent, err := t.read(ctx, ctx, reader, at.Position, hand); err == nil && !page.End {
		at = advance(at, page, at.CellTime, sent)
	}
	return t.retry(ctx, "commit", func(ctx context.Context) error { return lease.Commit(ctx, at) })`,
	},
	{
		name: "seen open by the worker's clock", hazards: "H64 H75", file: "internal/pipeline/listing.go",
		old: `	if listing.At.IsZero() {
		listing.At = began`,
		new: `	if !began.IsZero() {
		listing.At = began`,
	},
	{
		name: "the cut by the worker's clock", hazards: "H64 H84", file: "internal/pipeline/stream.go",
		old: `	case !d.At.IsZero():
		return d.At
`,
		new: ``,
	},
	{
		name: "a young table is followed from when it is found", hazards: "H75", file: "internal/pipeline/stream.go",
		old:  `	case k.Young && !d.CreatedAt.IsZero():`,
		new:  `	case false:`,
		test: "./internal/sim TestH75_YoungTable", why: "no whole day begins with a table that is younger than its pipeline",
	},
	{
		name: "beginning of a load by the worker's clock", hazards: "H64", file: "internal/pipeline/copy.go",
		old: `	if now.IsZero() {
		now = task.Now(ctx)
	}
	generation :=`,
		new: `	now = task.Now(ctx)
	generation :=`,
	},
	{
		name: "the witness counts from the ledger alone", hazards: "H68 H69", file: "checkpoint/witness.go",
		old: `max(w.Beat, table.WitnessBeat) + 1`, new: `table.WitnessBeat + 1`,
	},
	{
		name: "a lost target is claimed before the gap is declared", hazards: "H69", file: "internal/pipeline/keeper.go",
		old: `	now := task.Now(ctx)
	err = t.raise(ctx, state.Generation, gap,`,
		new: `	if err := t.Ledger.Claim(ctx, t.source, at); err != nil && verdict == checkpoint.TargetLost {
		return err
	}
	now := task.Now(ctx)
	err = t.raise(ctx, state.Generation, gap,`,
		test: "./internal/sim TestH69_WorkerGone", why: "a worker must go with a claim: about one seed in 300",
	},
	{
		name: "once: done with pages under way", hazards: "H18", file: "internal/pipeline/assign.go",
		old: `		case s.Owner == t.Ledger.Worker() && t.board.idle(s.ID, t.Timing, mono):
`,
		new: `		case s.Owner == t.Ledger.Worker():
`,
		test: "./internal/sim TestH18_Once", why: "the workers of a run never end by themselves",
	},
}
