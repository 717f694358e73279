package main

// inOutside are bugs that somebody planted who had no part in the checkers. All seeds survived most of them then; what finds them came of that.
var inOutside = []mutant{
	{
		name: "what is too old to be put is looked for in a batch without parked changes alone", hazards: "H81", file: "sink/writer.go",
		old: `	if w.o.MaxImageAge <= 0 {
`,
		new: `	if w.o.MaxImageAge <= 0 || len(b.Parked) > 0 {
`,
	},
	{
		name: "a column that a page had and its last image has not stays", hazards: "H51 H83", file: "sink/keep.go",
		old: `		if !named[at] {`,
		new: `		if !named[at] && k.runs[at] == nil {`,
	},
	{
		name: "members of a set are stamped by their change where cells are to expire", hazards: "H83", file: "transform/encoding.go",
		old: `Cell{Family: t.family, Qualifier: qualifier, Timestamp: c.stamp(t.family)}`,
		new: `Cell{Family: t.family, Qualifier: qualifier, Timestamp: c.micros}`,
	},
	{
		name: "cells of shared rows are stamped by their change where cells are to expire", hazards: "H83", file: "transform/encoding.go",
		old: `Timestamp: c.stamp(a.w.family)}, from, "of the cell")`,
		new: `Timestamp: c.micros}, from, "of the cell")`,
	},
	{
		name: ".5 is five milliseconds", hazards: "", file: "transform/instant.go",
		old: `strconv.Atoi((fraction + "000")[:3])`,
		new: `strconv.Atoi(fraction[:min(3, len(fraction))])`,
	},
	{
		name: "columns that a rule names are those of attributes of the same name as well", hazards: "", file: "transform/encoding.go",
		old: `	for _, name := range c.w.clashes {`,
		new: `	for _, name := range c.w.clashes[:0] {`,
	},
	{
		name: "what is absent differs from nothing", hazards: "", file: "expression/condition.go",
		old: `		return o == isDifferent
`,
		new: `		return o == isDifferent && a.found != b.found && b.found
`,
	},
	{
		name: "at least is more than", hazards: "", file: "expression/condition.go",
		old: `	return order >= 0
`,
		new: `	return order > 0
`,
	},
	{
		name: "a time to live beyond any clock is one", hazards: "H83", file: "transform/encoding.go",
		old: `err != nil || n >= never/1_000_000 || n <`,
		new: `err != nil || n <`,
	},
	{
		name: "the highest hop is forgotten", hazards: "H66", file: "cdc/lineage.go",
		old: `	f.highest = max(f.highest, hop)
	f.placed`,
		new:  `	f.placed`,
		test: "./cdc TestPlace", why: "two shards must be listed without their parents, after another: one seed in some hundreds",
	},
	{
		name: "cells of a shard are no newer than when it was leased", hazards: "H04", file: "internal/pipeline/follow.go",
		old: `NotBefore: at.CellTime})`,
		new: `NotBefore: shard.CellTime})`,
	},
	{
		name: "a shard that was taken by another counts as held", hazards: "", file: "internal/pipeline/assign.go",
		old: `		held.remove(id)
		if fatal(err) {
			return err
		}
		if !errors.Is(err, checkpoint.ErrTaken) {
`,
		new: `		if fatal(err) {
			return err
		}
		if !errors.Is(err, checkpoint.ErrTaken) {
			held.remove(id)
`,
	},
	{
		name: "what is parked counts as healed whatever the generation", hazards: "H38", file: "sink/parking.go",
		old: `		live, gone, _ := row.Versions(at.Owner)
`,
		new: `		live, gone, _ := row.Versions(at.Owner)
		for _, held := range []*transform.Version{&live, &gone} {
			if *held != "" {
				*held = record.Version[:9] + (*held)[9:]
			}
		}
`,
	},
	{
		name: "a change that could not be parked counts as parked", hazards: "H38", file: "sink/writer.go",
		old: `		if err != nil {
			return err
		}
		if len(b.Parked) == 1 {`,
		new: `		if err != nil {
			b.Parked = b.Parked[1:]
			return err
		}
		if len(b.Parked) == 1 {`,
	},
	{
		name: "whatever has no listed parent is a root", hazards: "H14", file: "cdc/lineage.go",
		old:  `	case f.first && f.oldest(id):`,
		new:  `	case f.first:`,
		test: "./cdc TestPlace", why: "a first listing must lack the middle of a lineage: one seed in some hundreds",
	},
	{
		name: "a load is stamped with the generation of now", hazards: "H71", file: "internal/pipeline/copy.go",
		old:  `transform.Load(t.Mapping, items, generation, readAt)`,
		new:  `transform.Load(t.Mapping, items, max(generation, t.Floors.Floor(t.source)), readAt)`,
		test: "./internal/pipeline TestH71_ALoadThatARaiseOvertookIsFenced", why: "the generation must rise between the reading of a page of the load and its writing",
	},
	{
		name: "a page is stamped with the generation of now", hazards: "H70", file: "internal/pipeline/follow.go",
		old: `transform.Stamp{Generation: shard.Generation,`,
		new: `transform.Stamp{Generation: max(shard.Generation, t.Floors.Floor(t.source)),`,
	},
	{
		name: "a lease goes on when its holder has ended", hazards: "", file: "internal/pipeline/follow.go",
		old: `		defer lease.Abandon()
`,
		new:  ``,
		test: "./internal/pipeline TestWhatIsFencedLeavesItsShard", why: "of what ends the reading alone, all but a fence goes with the lease",
	},
	{
		name: "a seat goes on when its keeper has ended", hazards: "", file: "internal/pipeline/keeper.go",
		old: `		defer keeper.Abandon()
`,
		new: ``,
	},
	{
		name: "addresses of one item run into the next one's", hazards: "", file: "transform/fold.go",
		old: `addresses: room[n : n : n+1]`,
		new: `addresses: room[n:n]`,
	},
	{
		name: "a load goes on with the segments of whoever goes on", hazards: "H71", file: "backfill/scan.go",
		old: `total: from.Total, parallel`,
		new: `total: max(s.Segments, 1), parallel`,
	},
	{
		name: "what is begun goes on after the grace", hazards: "", file: "internal/pipeline/pipeline.go",
		old: `			abandon(context.Cause(stop))
`,
		new: ``,
	},
	{
		name: "a second try of a repair has forgotten where the item was", hazards: "", file: "sink/repair.go",
		old:  `known = append(slices.Clone(former), image)`,
		new:  `known = []cdc.Item{image}`,
		test: "./sink TestRepairOfAMovedItem", why: "an item must move while it is repaired",
	},
	{
		name: "a repair looks at the version of another item of the row", hazards: "", file: "sink/repair.go",
		old: `	held := seen.HeldBy(want.Owner)
	if held == "" {`,
		new: `	held := seen.Held()
	if held == "" {`,
		test: "./sink TestRepairOfOneItem", why: "the other item must be newer by a whole load",
	},
	{
		name: "who finds the generation raised keeps its gap to itself", hazards: "H24", file: "checkpoint/table.go",
		old: `		noteGap(s, gap)
		if s.Generation > from {
			return nil
		}
`,
		new: `		if s.Generation > from {
			return nil
		}
		noteGap(s, gap)
`,
		test: "./checkpoint TestRaise_TwoDetectors", why: "a gap that is told twice and noted once looks like one",
	},
	{
		name: "what is parked without an address stays for ever", hazards: "H38", file: "transform/fold.go",
		old:  `h.astray = h.add(m, s, c.Old, i, false) != nil || h.astray`,
		new:  `_ = h.add(m, s, c.Old, i, false)`,
		test: "./sink Superseded", why: "a record that stays is no loss, and what comes late leaves one",
	},
	{
		name: "what is parked goes before its successor is parked", hazards: "H38", file: "sink/writer.go",
		old: `	if err := w.park(ctx, b); err != nil {
		return err
	}
	return w.supersede(ctx, b)`,
		new: `	if err := w.supersede(ctx, b); err != nil {
		return err
	}
	return w.park(ctx, b)`,
		test: "./sink TestNothingIsSuperseded", why: "the successor is read again, and parked then",
	},
	{
		name: "an older page forgets what is parked since", hazards: "H38 H03", file: "sink/parking.go",
		old: `version < string(by)`, new: `version != string(by)`,
		test: "./sink TestOlderPage", why: "an item without an address must be parked anew while somebody stands still with an older page of it",
	},
	{
		name: "a record supersedes the one before it, of whatever item", hazards: "H38", file: "sink/parking.go",
		old: `if older.item() == ref.item() {`, new: `if older != "" {`,
	},
	{
		name: "an unreadable record supersedes", hazards: "H38", file: "sink/parking.go",
		old: `			note(unreadable)
			return nil
`,
		new: `			note(unreadable)
			if older.item() == ref.item() {
				healed, older = append(healed, older), ""
			}
			return nil
`,
		test: "./sink TestUnreadableRecord", why: "no run has a record of another program",
	},
	{
		name: "one row that cannot be read keeps all parked items", hazards: "H38", file: "sink/parking.go",
		old: `		note(failed)
		if older`,
		new: `		if failed != nil {
			return failed
		}
		if older`,
		test: "./sink TestResolveGoesOn", why: "it is tried again, and reads fail for a time only",
	},
	{
		name: "the version columns of long keys have no room in a filter", hazards: "", file: "sink/bigtable.go",
		old: `lookParts(m, maxLookBytes-lookBytes(LiveFamily, version)-lookBytes(GoneFamily, version))`, new: `lookParts(m, maxLookBytes)`,
		test: "./sink TestFilters", why: "only the real client makes the filter",
	},
	{
		name: "parked items of a table are those of tables whose names begin so", hazards: "H38", file: "sink/parking.go",
		old: `		prefix += source + "/"
`,
		new: `		prefix += source
`,
		test: "./sink Parking", why: "both tables must have parked items at once",
	},
	{
		name: "what was dropped before the cut is dropped in the child again", hazards: "H84", file: "checkpoint/lease.go",
		old: `				s.Dropping = parent.Dropping
`,
		new:  ``,
		test: "./checkpoint TestInheritedOnce", why: "a shard must roll within the minutes around the cut",
	},
	{
		name: "the oldest shard of a listing that was interrupted is a root", hazards: "H66", file: "cdc/lineage.go",
		old: `	return f.lowest - 2
`,
		new: `	return RootHop
`,
		test: "./cdc TestPlaceFirstListingThat", why: "the first listing must be interrupted, and lack the parent that both have",
	},
	{
		name: "what a column was before is what it was before the newest change", hazards: "H51", file: "transform/past.go",
		old:  `changes[h.moments[0].change].Old`,
		new:  `changes[h.newest].Old`,
		test: "./sink TestKept", why: "whole days judge the newest cells alone",
	},
	{
		name: "of many gaps the oldest are kept", hazards: "", file: "checkpoint/table.go",
		old: `		s.Gaps = slices.Delete(s.Gaps, 0, extra)
`,
		new: `		s.Gaps = s.Gaps[:keptGaps]
`,
		test: "./checkpoint TestRaise_KeepsTheLastGaps", why: "it takes fifty gaps",
	},
	{
		name: "a table that is followed is set aside when it is not found", hazards: "", file: "internal/pipeline/join.go",
		old: `		if j.joined.has(r.Table) {
			continue // it`,
		new: `		if j.joined.has(r.Table) && j.Once {
			continue // it`,
		test: "./internal/sim TestTableJoins", why: "a run's table may be set aside while it is out of sight",
	},
	{
		name: "a repair goes on without a generation that admits it", hazards: "", file: "sink/repair.go",
		old:  `if generation, err = r.Generation(ctx, readAt); err != nil {`,
		new:  `if generation, err = r.Generation(ctx, readAt); err != nil && generation == 0 {`,
		test: "./sink TestRepairTells", why: "an image must be read before the roots are",
	},
	{
		name: "what was quiet before a pause counts as quiet", hazards: "H18", file: "internal/pipeline/board.go",
		old: ` && now-r.emptyAt <= t.Idle+t.Poll+pageTime`, new: ``,
		test: "./internal/pipeline TestBoard", why: "one shard must be quiet long enough, then unreadable, and all others quiet after that: one seed in some hundreds",
	},
	{
		name: "with --once a run ends with the first table that is drained", hazards: "H18", file: "internal/pipeline/drain.go",
		old: `	if slices.ContainsFunc(names, func(name string) bool { return !d.tables[name].done }) {
`,
		new: `	if !done {
`,
		test: "./internal/pipeline TestH18_Tables", why: "two tables must drain, and one long before the other",
	},
	{
		name: "with --once what was found before an outage ends a run", hazards: "H18", file: "internal/pipeline/drain.go",
		old: `t.still != nil && !t.still() {`, new: `t.still == nil && !t.done {`,
		test: "./internal/pipeline TestH18_WhatWas", why: "the target must fail while one of two tables is drained, and the other be looked at sooner afterwards",
	},
	{
		name: "a repair outranks what another mapping has made of an item", hazards: "H60", file: "sink/repair.go",
		old: `	if generation > current {
`,
		new: `	if generation > current+1 {
`,
		test: "./sink TestH60", why: "no mapping of the simulation follows another one",
	},
	{
		name: "a retry under another mapping is made", hazards: "H60", file: "cmd/replicator/parkedretry.go",
		old: `	if err == nil && state.MappingHash != hash {
`,
		new: `	if err == nil && state.MappingHash == "" {
`,
		test: "./cmd/replicator TestRetryEndsWithTheMapping", why: "no mapping of the simulation follows another one",
	},
	{
		name: "what is too old to be put is removed before it is parked", hazards: "H81", file: "sink/writer.go",
		old: `		if w.o.OnBadItem != Stop {
`,
		new: `		if w.o.OnBadItem == Stop {
`,
		test: "./sink TestH81_PutAside", why: "a worker must go between the two, and the next one's clock be behind",
	},
	{
		name: "an answer against the stream is of when it is looked at", hazards: "H24", file: "internal/pipeline/stream.go",
		old: `	case !believed && !k.doubt.lasts(d, asked):
`,
		new: `	case !believed && !k.doubt.lasts(d, max(asked, task.Mono(ctx))):
`,
		test: "./internal/pipeline TestH24_AnOldAnswer", why: "a process must stand still with a late answer",
	},
	{
		name: "what is known of is not read again after a second listing", hazards: "H76", file: "internal/pipeline/keeper.go",
		old: `		if known, rows, err = k.known(ctx, state.Label); err != nil {
`,
		new: `		if err != nil && !cdc.Is(err, cdc.NotFound) {
`,
		test: "./internal/pipeline TestH76_AParentIsWritten", why: "two keepers must list at the same time, and both listings of one lack a parent",
	},
}
