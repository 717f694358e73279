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
		name: "removes are counted as modifies", hazards: "", file: "internal/pipeline/board.go",
		old: `			t.Removes++
`,
		new: `			t.Modifies++
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
	{
		name: "the failure of the endpoints is dropped", hazards: "", file: "internal/admin/server.go",
		old: `	case err := <-ended:
		return err
`,
		new: `	case <-ended:
		return nil
`,
		test: "./internal/admin TestAFailureOfTheEndpoints", why: "the model has no endpoints",
	},
	{
		name: "the failure of the endpoints is dropped as the process ends", hazards: "", file: "internal/admin/server.go",
		old: `	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
`,
		new: `	<-ended
	return nil
`,
		test: "./internal/admin TestAFailureOfTheEndpoints", why: "the model has no endpoints",
	},
	{
		name: "a run whose endpoints failed ends well", hazards: "", file: "cmd/replicator/run.go",
		old: `err == nil && sideErr != nil {`, new: `err != nil && sideErr != nil {`,
		test: "./cmd/replicator TestARunTells", why: "the model has no endpoints",
	},
	{
		name: "a survey looks after what is parked where nothing is", hazards: "H38", file: "cmd/replicator/survey.go",
		old: `if err == nil && m.anyParked() {`, new: `if err == nil && !m.anyParked() {`,
		test: "./cmd/replicator TestASurveyForgets", why: "in the model the operator looks",
	},
	{
		name: "a survey looks once after what is parked", hazards: "H38", file: "cmd/replicator/survey.go",
		old: `				defer func() { <-running }()
`,
		new:  ``,
		test: "./cmd/replicator TestBesideAgain", why: "in the model the operator looks",
	},
	{
		name: "what runs beside a survey is not waited for", hazards: "", file: "cmd/replicator/survey.go",
		old: `return run, func() { running <- struct{}{} }`, new: `return run, func() {}`,
		test: "./cmd/replicator TestBesideAgain", why: "the model has no surveys",
	},
	{
		name: "one parked item of a table is nothing to look after", hazards: "H38", file: "cmd/replicator/survey.go",
		old: `		if t.Parked > 0 {
`,
		new: `		if t.Parked > 1 {
`,
		test: "./cmd/replicator TestAnyParked", why: "in the model the operator looks",
	},
	{
		name: "a shard whose table cannot be read is taken away", hazards: "H50", file: "checkpoint/lease.go",
		old: `		table, _, err := l.Table(ctx, s.Source)
		if err != nil {
			return nil, err
		}
`,
		new: `		table, _, err := l.Table(ctx, s.Source)
		if err != nil {
			return nil, nil
		}
`,
		test: "./checkpoint TestNoCallOfTheLedger|TestATakeThatFails", why: "the look of the same pass fails before it",
	},
	{
		name: "listings that cannot be read have shown nothing", hazards: "H75", file: "checkpoint/lease.go",
		old: `				if err != nil {
					return nil, err
				}
				s.CoveredTo`,
		new: `				if err != nil {
					listed = Listings{}
				}
				s.CoveredTo`,
		test: "./checkpoint TestNoCallOfTheLedger|TestATakeThatFails", why: "a child is covered to less than it could be",
	},
	{
		name: "a child is not noted as one when it is leased", hazards: "H34", file: "checkpoint/lease.go",
		old: `				s.Inherited = true
`,
		new:  ``,
		test: "./checkpoint TestWhoHasAParent", why: "a load must take more than three days, which no whole day does",
	},
	{
		name: "a shard that found nothing once has found nothing since", hazards: "H18", file: "checkpoint/lease.go",
		old: `later(s.ReadAt, p.ReadAt), p.CaughtUp, p.Dropping`, new: `later(s.ReadAt, p.ReadAt), s.CaughtUp || p.CaughtUp, p.Dropping`,
		test: "./checkpoint TestACommitIsAll", why: "for people, and for --once beside others",
	},
	{
		name: "a shard that was given up counts as done", hazards: "H44", file: "checkpoint/lease.go",
		old: ` && s.Owner == "" && s.State == state {`, new: ` && s.Owner == "" {`,
		test: "./checkpoint TestWhatWasReleased", why: "nobody goes on after a release",
	},
	{
		name: "a listing that cannot be noted is noted", hazards: "H75", file: "checkpoint/listing.go",
		old: `		if err != nil || done {
			return err
		}
`,
		new: `		if err != nil || done {
			return nil
		}
`,
		test: "./checkpoint TestNoCallOfTheLedger", why: "the next round notes it",
	},
	{
		name: "a seat that cannot be read is nobody's", hazards: "H50", file: "checkpoint/keeper.go",
		old: `	row, found, err := readRow(ctx, l.store, l.keeperKey(source))
	if err != nil {
		return Seat{}, err
	}
`,
		new: `	row, found, err := readRow(ctx, l.store, l.keeperKey(source))
`,
		test: "./checkpoint TestNoCallOfTheLedger", why: "a seat that is somebody's is not taken from what is not there",
	},
	{
		name: "a seat that could not be given up is given up", hazards: "H44", file: "checkpoint/keeper.go",
		old: `	if errors.Is(err, ErrLeaseLost) && k.current().Owner == "" {
		return nil
	}
	return err
`,
		new: `	_ = err
	return nil
`,
		test: "./checkpoint TestNoCallOfTheLedger", why: "the next keeper waits for a lease",
	},
	{
		name: "parents that cannot be asked for are none", hazards: "H12", file: "checkpoint/shard.go",
		old: `	again, err := l.store.Read(ctx, l.shardPrefix(source))
	if err != nil {
		return nil, err
	}
`,
		new: `	again, err := l.store.Read(ctx, l.shardPrefix(source))
	if err != nil {
		return shards, nil
	}
`,
		test: "./checkpoint TestNoCallOfTheLedger", why: "a read must be torn, and the next one fail",
	},
	{
		name: "a gap of a stream that was replaced is to be declared", hazards: "H24", file: "checkpoint/shard.go",
		old: `	return s.State == Lost && s.Generation >= table.Generation && s.Label == table.Label
`,
		new: `	return s.State == Lost && s.Generation >= table.Generation
`,
		test: "./checkpoint TestWhatAGapIs", why: "rows of a stream that was replaced are of generations before",
	},
	{
		name: "what is gone is read on like what was trimmed", hazards: "H22", file: "checkpoint/shard.go",
		old: `	return s.State == Lost && s.Loss == Trimmed && s.Generation < table.Generation`, new: `	return s.State == Lost && s.Generation < table.Generation`,
		test: "./checkpoint TestWhatAGapIs", why: "it is not found again, which is declared again",
	},
}
