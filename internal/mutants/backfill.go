package main

// inScan are bugs in reading the table.
var inScan = []mutant{
	{
		name: "last page of a load dropped", hazards: "H15", file: "backfill/scan.go",
		old: `		if len(page.Items) > 0 {
`,
		new: `		if len(page.Items) > 0 && page.Next.Exists() {
`,
	},
	{
		name: "last segment not loaded", hazards: "H15", file: "backfill/scan.go",
		old: `segment < from.Total && g.Context().Err() == nil`, new: `segment < from.Total-1 && g.Context().Err() == nil`,
	},
	{
		name: "a copy goes on with other segments than it began with", hazards: "H01", file: "backfill/scan.go",
		old: `total: from.Total,`, new: `total: max(s.Segments, 1),`,
	},
	{
		name: "segments that go on are counted while they end", hazards: "H01", file: "backfill/scan.go",
		old: `progress: from.clone(),`, new: `progress: from,`,
		test: "./backfill TestResumedByFewer", why: "a segment must end while others are still being begun",
	},
	{
		name: "progress is saved as it changes", hazards: "H01", file: "backfill/scan.go",
		old: `l.progress.clone()`, new: `l.progress`,
	},
	{
		name: "empty page ends a segment", hazards: "H18", file: "backfill/scan.go",
		old: `		if !o.After.Exists() {
			l.events`,
		new: `		if !o.After.Exists() || len(page.Items) == 0 {
			l.events`,
		test: "./backfill TestEmptyPages", why: "segments that were left make the load fail and go on where it stood: it only takes longer",
	},
	{
		name: "page counts as durable before it is written", hazards: "H01", file: "backfill/scan.go",
		old: `		if len(page.Items) > 0 {
			if err := s.Write(`,
		new: `		if page.Next.Exists() {
			early := o
			early.After = page.Next
			l.durable(early, len(page.Items))
			if err := s.save(ctx, l.progress.clone()); err != nil {
				return err
			}
		}
		if len(page.Items) > 0 {
			if err := s.Write(`,
		test: "./backfill TestCrash|TestKilled", why: "a load of a run is short",
	},
	{
		name: "open segments are not resumed", hazards: "H01", file: "backfill/scan.go",
		old: `	for _, o := range from.Open {
`,
		new: `	for _, o := range from.Open[:0] {
`,
		test: "./backfill TestCrash|TestKilled", why: "a load of a run is short",
	},
	{
		name: "load done with segments open", hazards: "H01", file: "backfill/scan.go",
		old: `	if err == nil && !l.progress.Done() {
`,
		new: `	if err == nil && l.progress.Total == 0 {
`,
		test: "./backfill TestEndedBeforeItBegan", why: "it takes an ended context, under which the ledger cannot be told so either",
	},
	{
		name: "progress of an older generation is resumed", hazards: "H71", file: "backfill/scan.go",
		old: `from.Total == 0 || from.Generation != s.Generation`, new: `from.Total == 0`,
		test: "./backfill TestAnOlderGeneration", why: "no load follows a gap by now",
	},
	{
		name: "images of a load dated when they were answered", hazards: "H31", file: "backfill/scan.go",
		old: `answered.Add(-took); asked.Before(sent) {`, new: `answered; !asked.IsZero() {`,
		test: "./backfill TestH31", why: "one load a generation: nothing has a version to lose against",
	},
	{
		name: "images of a load dated by a fast clock", hazards: "H31 H43", file: "backfill/scan.go",
		old: `	if asked := answered.Add(-took); asked.Before(sent) {
		return asked
	}
`,
		test: "./backfill TestH31", why: "one load a generation: nothing has a version to lose against",
	},
	{
		name: "eventually consistent reads", hazards: "H32", file: "backfill/dynamodb.go",
		old: `		TableName: &table, ConsistentRead: aws.Bool(true),
`,
		new: `		TableName: &table, ConsistentRead: aws.Bool(false),
`,
		test: "./backfill TestH32", why: "the model has one replica",
	},
	{
		name: "an empty answer is the end of a segment", hazards: "", file: "backfill/dynamodb.go",
		old: `out.Items == nil || int(out.Count) != len(out.Items)`, new: `int(out.Count) != len(out.Items)`,
		test: "./backfill TestAnEmptyAnswer", why: "the model gives no broken answers",
	},
}
