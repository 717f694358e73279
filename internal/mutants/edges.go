package main

// inEdges are bugs at places that no bug had been planted at: what is carried over from before, one of two errors, and what is at the edge of a comparison.
var inEdges = []mutant{
	{
		name: "what the service itself writes is an expiry", hazards: "", file: "cdc/dynamodbstreams.go",
		old: `c.Expired = c.Event == Remove && aws`, new: `c.Expired = aws`,
		test: "./cdc TestOnlyARemoveIsAnExpiry", why: "the model has no wire",
	},
	{
		name: "a new stream was listed when the one before was", hazards: "H13 H24", file: "checkpoint/listing.go",
		old: `seen = openShards{Label: label}`, new: `seen = openShards{Label: label, At: seen.At}`,
		test: "./checkpoint TestNoteOpen", why: "the clock of the service must go back, or a keeper stand still, while a stream is replaced",
	},
	{
		name: "of a load that fails the last save's error is dropped", hazards: "", file: "backfill/scan.go",
		old: `err = errors.Join(err, saveErr)`, new: `if err == nil {
				err = saveErr
			}`,
		test: "./backfill TestALoadThatFails", why: "the next step under the seat fails as well",
	},
	{
		name: "a tally is of its first change", hazards: "", file: "internal/pipeline/board.go",
		old: `		t.Last = c.Time
`,
		new: `		if t.Last.IsZero() {
			t.Last = c.Time
		}
`,
		test: "./internal/pipeline TestATally", why: "for people",
	},
	{
		name: "a page that is put back has ended the dropping", hazards: "H84", file: "internal/pipeline/follow.go",
		old: `		if errors.Is(err, errPutBack) {
			continue
		}
`,
		new: `		if errors.Is(err, errPutBack) {
			at.Dropping = next.Dropping
			continue
		}
`,
		test: "./internal/pipeline TestAPageThatIsPutBackIsCut", why: "the model has places enough",
	},
	{
		name: "what is being written has half the grace", hazards: "", file: "internal/pipeline/pipeline.go",
		old: `if limited, cancel := task.WithTimeout(work, o.Timing.Grace)`, new: `if limited, cancel := task.WithTimeout(work, o.Timing.Grace/2)`,
		test: "./internal/pipeline TestAPageInHand", why: "what is left is read again",
	},
	{
		name: "what is being written has twice the grace", hazards: "", file: "internal/pipeline/pipeline.go",
		old: `task.WithTimeout(work, o.Timing.Grace)`, new: `task.WithTimeout(work, 2*o.Timing.Grace)`,
		test: "./internal/pipeline TestAPageInHand", why: "stops of a run are not timed",
	},
	{
		name: "a stop waits for a page that does not come", hazards: "", file: "internal/pipeline/pipeline.go",
		old: `		calls.cancel(context.Cause(stop))
`,
		new:  ``,
		test: "./internal/pipeline TestAReadThatHangs", why: "the model's reads are short",
	},
	{
		name: "a look for tables that fails hides why none can be set aside", hazards: "", file: "internal/pipeline/join.go",
		old: `return errors.Join(err, failed)`, new: `return failed`,
		test: "./internal/pipeline TestAFailedLook", why: "a look must fail in part while the ledger is exchanged",
	},
	{
		name: "the trouble of a seat begins with each term", hazards: "", file: "internal/pipeline/keeper.go",
		old: `			t.vain.giveUp("", task.Mono(ctx))
`,
		new:  ``,
		test: "./internal/pipeline TestTroubleOfWhatIsGivenUp", why: "for people",
	},
	{
		name: "the trouble of a seat outlives a round", hazards: "", file: "internal/pipeline/keeper.go",
		old: `	k.vain.answered("")
`,
		new:  ``,
		test: "./internal/pipeline TestTheSeatsTrouble", why: "for people",
	},
	{
		name: "a load that was told to stop repeating goes on without the page", hazards: "", file: "backfill/scan.go",
		old: `	return s.Retry(ctx, op)
`,
		new: `	_ = s.Retry(ctx, op)
	return nil
`,
		test: "./backfill TestALoadEndsWith", why: "a read that is not repeated any more ends the process, or the load",
	},
	{
		name: "why a page of a load could not be written is forgotten", hazards: "", file: "backfill/scan.go",
		old: `			if err := s.Write(ctx, page.Items, readAt); err != nil {
				return err
			}
`,
		new: `			if err := s.Write(ctx, page.Items, readAt); err != nil {
				return nil
			}
`,
		test: "./backfill TestALoadEndsWith", why: "segments that were left are found, and the load begins again for ever",
	},
	{
		name: "why a segment that goes on was left is forgotten", hazards: "", file: "backfill/scan.go",
		old: `func(ctx context.Context) error { return l.segment(ctx, o) })`, new: `func(ctx context.Context) error { _ = l.segment(ctx, o); return nil })`,
		test: "./backfill TestALoadEndsWith", why: "as before",
	},
	{
		name: "an open segment begins anew when a load goes on", hazards: "", file: "backfill/progress.go",
		old: `	p.Open[at].After = o.After
`,
		new:  ``,
		test: "./backfill TestAnOpenSegment", why: "it costs time alone",
	},
	{
		name: "the segments of a load are read one after the other", hazards: "", file: "backfill/progress.go",
		old: `		wanted = p.Total
`,
		new: `		wanted = 1
`,
		test: "./backfill TestSegmentsSideBySide", why: "it costs time alone",
	},
	{
		name: "a stored key that cannot be read is none", hazards: "", file: "backfill/progress.go",
		old: `	o.After, err = cdc.UnmarshalItem(stored.After)
	return err
`,
		new: `	o.After, err = cdc.UnmarshalItem(stored.After)
	_ = err
	return nil
`,
		test: "./backfill TestProgressIsRefused", why: "nobody writes such a key",
	},
}
