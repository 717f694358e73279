package main

// inBystanders are bugs of a stranger in what stands beside the stream: mappings, parked items, loads, and what is told to an operator. The tests of
// their packages had found none of them.
var inBystanders = []mutant{
	{
		name: "what an earlier load left below a doubtful cell stays as history", hazards: "H51", file: "sink/keep.go",
		old: `		whole = whole || k.loaded
`,
		new:  ``,
		test: "./sink TestAllThatLoadsAhead", why: "two loads of one generation must read ahead of the stream, and one before it",
	},
	{
		name: "records of one item that heal together are counted again", hazards: "", file: "sink/parking.go",
		old: `		if older = ref; ok {
			healed, older = append(healed, ref), ""
		}`,
		new: `		if older = ref; ok {
			healed = append(healed, ref)
		}`,
		test: "./sink TestRecordsOfOneItem", why: "what is resolved is told in the log alone",
	},
	{
		name: "a record that could not be removed counts as resolved", hazards: "H38", file: "sink/parking.go",
		old: `			note(failed)
			continue
`,
		new: `			note(failed)
`,
		test: "./sink TestRecordThatCannot", why: "a later look removes it",
	},
	{
		name: "half a search for older parked changes counts as a whole one", hazards: "H38", file: "sink/parking.go",
		old: `	for _, ref := range older {
		if err == nil {
			err = p.Remove(ctx, ref)
		}
	}
	return err
`,
		new: `	for _, ref := range older {
		if err = p.Remove(ctx, ref); err != nil {
			break
		}
	}
	return err
`,
		test: "./sink TestSupersedeFailsWithHalf", why: "a read must break off behind a record of an item that had no address",
	},
	{
		name: "a parking lot that is slow for once ends the migration", hazards: "H38", file: "sink/writer.go",
		old: `	if cause := context.Cause(ctx); err != nil`, new: `	if cause := context.Cause(timed); err != nil`,
		test: "./sink TestSlowParking", why: "no run has a parking lot that does not answer in time",
	},
	{
		name: "no parked item at all stands for any number", hazards: "H38", file: "sink/writer.go",
		old: `	if w.o.MaxParked == 0 {
		return nil`,
		new: `	if w.o.MaxParked <= 0 {
		return nil`,
		test: "./sink TestNoParkedItem", why: "no run stops above a number of parked items",
	},
	{
		name: "progress goes on while it is saved", hazards: "", file: "backfill/scan.go",
		old: `	snapshot := l.progress.clone()
`,
		new: `	snapshot := l.progress
`,
		test: "./backfill TestProgressStandsStill", why: "a segment must end while what is saved is on its way, and the worker go after that",
	},
	{
		name: "a load whose progress cannot be saved goes on", hazards: "", file: "backfill/scan.go",
		old: `		if err := l.saveIfDue(ctx); err != nil {
			return err
		}
`,
		new: `		_ = l.saveIfDue(ctx)
`,
		test: "./backfill TestLoadEndsWithASave", why: "another that took its seat loads the same",
	},
	{
		name: "a list of tables that breaks off is a list", hazards: "", file: "backfill/dynamodb.go",
		old: `	for {
		out, err := ask(ctx, t.api.ListTables, in)
		if err != nil {
			return nil, failure(ctx, op, err, false)
		}`,
		new: `	for {
		out, err := ask(ctx, t.api.ListTables, in)
		if err != nil && len(names) > 0 {
			return names, nil
		}
		if err != nil {
			return nil, failure(ctx, op, err, false)
		}`,
		test: "./backfill TestListThatBreaksOff", why: "the list of the model is never throttled behind a page",
	},
	{
		name: "the first write of a rule that cannot place an item keeps the others from it", hazards: "H38", file: "transform/place.go",
		old: `			if failed == nil {
				failed = err
			}
			continue
`,
		new: `			return err
`,
		test: "./transform TestAnItemThatOneOfTwo", why: "such an item must be met by a load first, with rows from before it",
	},
	{
		name: "the last pair of rules decides whether rows hold versions of items", hazards: "H73", file: "transform/ownership.go",
		old: `			versions = versions || !a.folded && !b.folded && !sameItem`, new: `			versions = !a.folded && !b.folded && !sameItem`,
		test: "./transform TestItemsOfOneRow", why: "it takes four rules, of which two share a row and the last two have one address",
	},
	{
		name: "of two rules that share a family the earlier one takes it for its own", hazards: "H74", file: "transform/ownership.go",
		old: `				shared[a.write][family], shared[b.write][family] = true, true`, new: `				shared[b.write][family] = true`,
		test: "./transform TestItemsOfOneRow", why: "it takes two items of one row, by rules of named columns in one family",
	},
	{
		name: "a part of a table name that stands twice stands for another as well", hazards: "H37", file: "transform/varying.go",
		old: `		case !seen[p.name]:
			seen[p.name] = true
			left--`,
		new: `		default:
			seen[p.name] = true
			left--`,
		test: "./transform TestTablesOfAPattern", why: "mappings are checked before a day begins",
	},
	{
		name: "the size of an attribute is taken for its value", hazards: "H37", file: "expression/implies.go",
		old: `	if len(value.path) != 1 || value.size {`, new: `	if len(value.path) != 1 {`,
		test: "./expression TestImplies", why: "mappings are checked before a day begins",
	},
	{
		name: "a part of an attribute is taken for the attribute", hazards: "H37", file: "expression/implied.go",
		old: `len(pair[1].path) == 1 && !pair[1].size {
				names`,
		new: `len(pair[1].path) > 0 && !pair[1].size {
				names`,
		test: "./expression TestImplied", why: "mappings are checked before a day begins",
	},
	{
		name: "the row key of a folded item is no matter of the hash", hazards: "H60", file: "internal/config/hash.go",
		old: `	if w.RowKey != nil {
		text`,
		new: `	if w.RowKey != nil && w.Cell == nil {
		text`,
		test: "./internal/config TestHashIs", why: "the hashes of mappings are made up in a day",
	},
	{
		name: "each shard that is taken is progress of the others", hazards: "", file: "internal/admin/health.go",
		old: `		if t.Shards == 0 {
			t.Since = now
`,
		new: `		t.Since = now
		if t.Shards == 0 {
`,
		test: "./internal/admin TestReportsBecome", why: "readiness is not simulated",
	},
	{
		name: "a shard that is given up and taken back is a new beginning", hazards: "H63", file: "internal/admin/health.go",
		old: `		t.Vain, t.GivenUp = t.progress(), now
`,
		test: "./internal/admin TestReadyWhileShardsAreGivenUp", why: "readiness is not simulated",
	},
	{
		name: "requests under way are cut when the process ends", hazards: "", file: "internal/admin/server.go",
		old: `context.WithTimeout(context.WithoutCancel(ctx), closeWithin)`, new: `context.WithTimeout(ctx, closeWithin)`,
		test: "./internal/admin TestRequestsUnderWay", why: "endpoints are not simulated",
	},
	{
		name: "items of all tables are retried as those of the first", hazards: "H38", file: "cmd/replicator/parkedretry.go",
		old: `			source := records[0].Source
`,
		new: `			source := items[0][0].Source
`,
		test: "./cmd/replicator TestScripts/parked_two_tables", why: "commands are not simulated",
	},
	{
		name: "a retry does not wait for the generation to be adopted", hazards: "H31", file: "cmd/replicator/parkedretry.go",
		old: `			return state.Generation, checkpoint.Admissible(state, shards, at)`,
		new: `			_ = shards
			return state.Generation, nil`,
		test: "./cmd/replicator TestARetryWaits", why: "commands are not simulated",
	},
	{
		name: "the headroom stands still while the ledger is not read", hazards: "", file: "cmd/replicator/survey.go",
		old: `	if r.ledger == nil {`, new: `	if r.ledger == nil || err != nil {`,
		test: "./cmd/replicator TestHeadroomShrinks", why: "metrics are not simulated",
	},
	{
		name: "the latest of the shards without children is told", hazards: "H13", file: "cmd/replicator/migration.go",
		old: `t.childless.IsZero() || ended.Before(t.childless) {`, new: `t.childless.IsZero() || ended.After(t.childless) {`,
		test: "./cmd/replicator TestTroublesOf", why: "what status tells is not simulated",
	},
	{
		name: "the last table decides whether a migration is in sync", hazards: "", file: "cmd/replicator/migration.go",
		old: `		if t.Phase != phaseInSync {
			m.Phase = phaseCopy
		}`,
		new: `		if m.Phase = phaseInSync; t.Phase != phaseInSync {
			m.Phase = phaseCopy
		}`,
		test: "./cmd/replicator TestPhaseOfSeveral", why: "the phase of a migration is told by status alone, which is not simulated",
	},
}
