package main

// inStrangers are bugs that two strangers planted, who knew neither the checkers nor each other's bugs.
var inStrangers = []mutant{
	{
		name: "a late ancestor may stand as high as its own parent", hazards: "", file: "cdc/lineage.go",
		old: `		if isPlaced && above >= ceiling {
`,
		new: `		if isPlaced && above > ceiling {
`,
		test: "./cdc TestPlace", why: "two generations of a first listing must be missing, and come at once",
	},
	{
		name: "a late ancestor is ranked below the known shards that it is the parent of alone", hazards: "", file: "cdc/lineage.go",
		old: `		below := math.MaxInt
		if f.isFresh[child] {
			below = f.ceiling(child)
		} else {
			below = f.hop[child]
		}
`,
		new: `		below := math.MaxInt
		if !f.isFresh[child] {
			below = f.hop[child]
		}
`,
		test: "./cdc TestPlace", why: "a first listing with a hole of two generations",
	},
	{
		name: "the oldest of what is new counts as the oldest of all", hazards: "", file: "cdc/lineage.go",
		old: `	return f.fresh[0] == id && (f.eldest == "" || id < f.eldest)
`,
		new: `	return f.fresh[0] == id
`,
		test: "./cdc TestPlaceFirstListingThatWasInterrupted", why: "a keeper must die in its first listing, and a younger shard come before the next",
	},
	{
		name: "a new reader judges the horizon wherever it seeks to", hazards: "H23", file: "cdc/reader.go",
		old: `	r.iterator = ""
	if applied.AtHorizon() {
`,
		new: `	r.iterator = ""
	if r.at.AtHorizon() {
`,
		test: "./cdc TestH75HorizonIsRefused", why: "an outage of most of a day, and a shard that is taken over in its middle: one seed in hundreds",
	},
	{
		name: "every value of an item counts as one level of nesting", hazards: "", file: "cdc/dynamodbjson.go",
		old: `	d.depth++
	defer func() { d.depth-- }()
`,
		new: `	d.depth++
`,
		test: "./cdc TestAnItemOfManyValues", why: "items of whole days have few values",
	},
	{
		name: "what the parent covers replaces what the child is known to be covered to", hazards: "H75", file: "checkpoint/lease.go",
		old: `				s.CoveredTo = later(s.CoveredTo, parent.Covers(listed.Open[parent.ID], table.Owed()))
`,
		new: `				s.CoveredTo = parent.Covers(listed.Open[parent.ID], table.Owed())
`,
	},
	{
		name: "what a quiet shard inherited is not handed on to its children", hazards: "H75", file: "checkpoint/shard.go",
		old: `	covers := s.CoveredTo
`,
		new: `	var covers time.Time
`,
	},
	{
		name: "a row that is not there is the one whose key begins so", hazards: "", file: "checkpoint/store.go",
		old: `	if len(rows) > 0 && rows[0].Key == key { // the key itself sorts before everything it is a prefix of
`,
		new: `	if len(rows) > 0 { // the key itself sorts before everything it is a prefix of
`,
	},
	{
		name: "a ledger write that failed counts as refused", hazards: "", file: "checkpoint/store.go",
		old: `	if err != nil && row.Counter == was { // not found reads as counter 0
		return false, fmt.Errorf("a ledger write has not taken place: %w", err)
	}
	return false, nil
`,
		new: `	return false, nil // the row is not as we wanted it: whoever wrote it was faster
`,
	},
	{
		name: "a renewal without an answer is waited for as long as it takes", hazards: "H06", file: "checkpoint/tenure.go",
		old: `		limited, cancel := task.WithTimeout(ctx, until-now)
		err := renew(limited)
		cancel()
`,
		new: `		err := renew(ctx)
`,
		test: "./checkpoint TestLease", why: "what never answers does so for a while in whole days",
	},
	{
		name: "a changed mapping that is accepted begins no generation", hazards: "H60", file: "checkpoint/table.go",
		old: `		if s.MappingHash == "" || s.Generation == 0 {
`,
		new: `		if s.MappingHash == "" || s.Generation == 0 || accept {
`,
		test: "./checkpoint TestH60_MappingHash", why: "the mapping of a run is another one in name alone",
	},
	{
		name: "a beat is mirrored before the next one alone", hazards: "H69", file: "checkpoint/witness.go",
		old: `	return Fine, next, l.mirror(ctx, source, at, next.Beat)
`,
		new: `	return Fine, next, nil // the next beat mirrors this one first
`,
		test: "./checkpoint TestH69_WitnessOfAFurtherTarget", why: "a target must be lost in the first minute",
	},
	{
		name: "a listing counts for the generation in which it was made alone", hazards: "", file: "checkpoint/coverage.go",
		old: `	if table.Listed == 0 {
`,
		new: `	if table.Listed != table.Generation {
`,
	},
	{
		name: "a changed row is decoded over what it was before", hazards: "", file: "checkpoint/memory.go",
		old: `			now[i] = remembered[T]{row.Key, row.Data, new(T)}
`,
		new: `			now[i] = remembered[T]{row.Key, row.Data, new(T)}
			if len(before) > 0 && before[0].key == row.Key {
				*now[i].record = *before[0].record // most of it is as it was
			}
`,
	},
	{
		name: "new images alone do for every mapping", hazards: "H62", file: "internal/pipeline/stream.go",
		old:  `d.ViewType == "NEW_IMAGE" && keyOnly:`,
		new:  `d.ViewType == "NEW_IMAGE":`,
		test: "./internal/pipeline TestH62_ViewTypes", why: "no run has such a stream from the start",
	},
	{
		name: "a shard counts as open although the ledger knows its child", hazards: "H75", file: "internal/pipeline/keeper.go",
		old: `			closed[s.Parent] = true
`,
		new:  ``,
		test: "./internal/pipeline TestH75_ListedOpen", why: "what was read to its end is closed as well, and it is read to its end soon",
	},
	{
		name: "what is trimmed at the horizon is no gap", hazards: "H75", file: "internal/pipeline/follow.go",
		old: `		case cdc.Is(err, cdc.Trimmed):
`,
		new: `		case cdc.Is(err, cdc.Trimmed) && !lease.Shard().Position.IsZero(): // the horizon itself is never trimmed
`,
	},
	{
		name: "a position does not move over what is dropped", hazards: "H84", file: "internal/pipeline/follow.go",
		old: `		changes := keep(&next, cut, page.Changes)
`,
		new: `		page.Changes = keep(&next, cut, page.Changes)
		changes := page.Changes
`,
	},
	{
		name: "once: a table that was set aside counts as drained after it is readmitted", hazards: "", file: "internal/pipeline/join.go",
		old: `	k.board.setAside(false)
	return err
`,
		new: `	return err
`,
		test: "./internal/pipeline TestReadmitted", why: "a table is set aside and found again long before a run drains",
	},
	{
		name: "a stream that cannot be followed is tried again and again", hazards: "H62", file: "internal/pipeline/pipeline.go",
		old: `	var stream *StreamError
	var key *KeyError
	return errors.As(err, &bad) || errors.As(err, &stream) || errors.As(err, &key) || isAny(err,`,
		new: `	var key *KeyError
	return errors.As(err, &bad) || errors.As(err, &key) || isAny(err,`,
		test: "./internal/pipeline TestH62_ViewTypes", why: "what is checked is whether the process ends",
	},
	{
		name: "once: a table that was drained stays so", hazards: "H18", file: "internal/pipeline/drain.go",
		old: `	d.tables[name].done = done
`,
		new: `	d.tables[name].done = d.tables[name].done || done
`,
		test: "./internal/pipeline TestH18_Tables", why: "two tables must drain, one long before the other, and be changed meanwhile",
	},
	{
		name: "who is denied keeps what it holds", hazards: "H63", file: "internal/pipeline/yield.go",
		old:  `cdc.Is(err, cdc.Unavailable) || cdc.Is(err, cdc.Denied) || cdc.Is(err, cdc.Malformed)`,
		new:  `cdc.Is(err, cdc.Unavailable) || cdc.Is(err, cdc.Malformed)`,
		test: "./internal/pipeline TestH63_SilenceIsWithoutABreak", why: "who is cut off in whole days is unreachable, and not denied",
	},
	{
		name: "a condition that only ignores items is no reason to look at images", hazards: "H62", file: "transform/compile.go",
		old:  `		if r.when != nil && slices.ContainsFunc(r.when.Attributes()`,
		new:  `		if r.when != nil && !r.ignore && slices.ContainsFunc(r.when.Attributes()`,
		test: "./transform TestH62_ACondition", why: "no mapping of the simulation ignores items by an attribute alone",
	},
	{
		name: "base64 is made in pieces that are no multiple of three bytes", hazards: "", file: "transform/encode.go",
		old: `	var piece [3 * 256]byte
`,
		new: `	var piece [1024]byte
`,
	},
	{
		name: "a part of the source table's name is not escaped in a row key", hazards: "", file: "transform/compile.go",
		old:  `rowPart{literal: string(appendEscaped(nil, v.text, p.escaped))}`,
		new:  `rowPart{literal: v.text}`,
		test: "./transform TestAPartOfATableNameIsEscaped", why: "a run has one table of a pattern",
	},
	{
		name: "whether columns may meet is said by the last rule of columns alone", hazards: "", file: "transform/compile.go",
		old: `		w.spread = w.spread || r.As == AsColumns || r.As.flattens()
`,
		new: `		w.spread = r.As == AsColumns || r.As.flattens()
`,
		test: "./transform TestTwoValuesOfOneColumn", why: "no mapping of the simulation has such columns before others",
	},
	{
		name: "a family is made in the first target table that needs it", hazards: "", file: "transform/target.go",
		old: `				all[i].Families, used = append(all[i].Families, f), true
`,
		new: `				all[i].Families, used = append(all[i].Families, f), true
				break
`,
		test: "./transform TestSeveralTargets", why: "the families of the simulation are there from the start",
	},
	{
		name: "the version column of an item in a shared row is cut to a handy length", hazards: "H74", file: "sink/guard.go",
		old: `	return column + ":" + owner
`,
		new: `	return column + ":" + owner[:min(len(owner), 64)] // names of columns should be short
`,
	},
	{
		name: "a parked item of a load has its whole image for keys", hazards: "H65", file: "transform/mutation.go",
		old: `Keys: b.mapping.Keys(b.items[i]), New: b.items[i]}`,
		new: `Keys: b.items[i], New: b.items[i]}`,
	},
	{
		name: "a family that keeps the newest cell for ever expires items all the same", hazards: "", file: "transform/family.go",
		old: `	return expiry, found == len(g.Rules) || found > 0 && !g.All
`,
		new: `	return expiry, found > 0
`,
		test: "./transform TestParseFamily", why: "a mapping that is refused is none of a run",
	},
	{
		name: "an age among several limits is no age rule for kept versions", hazards: "H83", file: "transform/family.go",
		old: `	for _, r := range g.Rules {
		if r.HasAge() {
			return true
		}
	}
	return g.Age > 0
`,
		new: `	return g.Age > 0
`,
		test: "./transform TestKeepVersionsNeedsFamiliesWithoutAge", why: "a mapping that is refused is none of a run",
	},
	{
		name: "a whole text is apart from all shorter beginnings", hazards: "", file: "transform/check.go",
		old: `	case aWhole:
		return !strings.HasPrefix(a, b)
`,
		new: `	case aWhole:
		return !strings.HasPrefix(b, a)
`,
		test: "./transform TestCheckFinds", why: "a mapping that is refused is none of a run",
	},
	{
		name: "a load leaves out items whose time to live is over", hazards: "", file: "transform/fold.go",
		old: `	for i, item := range items {
		base := RowMutation{Item: m.ItemKey(item), Change: i,`,
		new: `	for i, item := range items {
		if m.ttl.Attribute != "" && m.ttl.expires(item, readAt) < micros {
			continue // DynamoDB is about to remove it
		}
		base := RowMutation{Item: m.ItemKey(item), Change: i,`,
	},
	{
		name: "of two rules that share a family the later one takes it for its own", hazards: "H74", file: "transform/ownership.go",
		old: `				shared[a.write][family], shared[b.write][family] = true, true
`,
		new: `				shared[a.write][family] = true
`,
	},
	{
		name: "a row that is not sent after another's failure keeps its slot", hazards: "", file: "sink/writer.go",
		old: `		if failed.Load() || w.acquire(ctx, size) != nil {
`,
		new: `		if w.acquire(ctx, size) != nil || failed.Load() {
`,
	},
	{
		name: "a refusal after a look means that the put is stale", hazards: "H26", file: "sink/keep.go",
		old: `		if applied, err := table.Apply(ctx, &request); applied || err != nil {
			return applied, err
		}
`,
		new: `		return table.Apply(ctx, &request)
`,
		test: "./sink TestH26_ARowThatChangesAfterTheLook", why: "two writers of one row within milliseconds",
	},
	{
		name: "a parked change is looked for where its new image goes alone", hazards: "", file: "sink/parking.go",
		old:  `[]cdc.Item{record.Change.Old, record.Change.New}`,
		new:  `[]cdc.Item{record.Change.New}`,
		test: "./sink TestResolveLooksAtTheRowThatWasLeft", why: "a record that stays is no loss, and is told of",
	},
	{
		name: "a single row is whatever begins like it", hazards: "", file: "sink/table.go",
		old: `return Range{row, row + "\x00"}`, new: `return Prefix(row)`,
	},
	{
		name: "a segment without a durable page is not saved as begun", hazards: "", file: "backfill/progress.go",
		old: `	p.Open = slices.Clone(p.Open)
`,
		new: `	// One of which nothing is durable yet has nothing to go on from.
	p.Open = slices.DeleteFunc(slices.Clone(p.Open), func(o Open) bool { return !o.After.Exists() })
`,
	},
	{
		name: "coverage is looked at again after a load as if the load began now", hazards: "H34", file: "internal/pipeline/copy.go",
		old:  `checkpoint.Admissible(v.state, v.shards, state.Load.StartedAt)`,
		new:  `checkpoint.Admissible(v.state, v.shards, task.Now(ctx))`,
		test: "./internal/pipeline TestH34_ALoadThatDoesNot", why: "the reader of the root declares it as well",
	},
	{
		name: "a load that does not join the stream is given up without a gap", hazards: "H34", file: "internal/pipeline/copy.go",
		old: `			return errors.Join(t.raise(ctx, state.Generation, checkpoint.Gap{Reason: hole.Error()}, nil), errRaised)
`,
		new: `			return fmt.Errorf("%w: %w", errRaised, hole)
`,
		test: "./internal/pipeline TestH34_ALoadThatDoesNot", why: "the reader of the root declares it as well",
	},
	{
		name: "what another worker was faster with is not repeated", hazards: "", file: "internal/pipeline/retry.go",
		old:  `checkpoint.ErrTaken, sink.ErrFenced,`,
		new:  `checkpoint.ErrTaken, checkpoint.ErrConflict, checkpoint.ErrRaised, sink.ErrFenced,`,
		test: "./internal/pipeline TestWhatIsRepeated", why: "ten workers must change one record at the same time",
	},
	{
		name: "a source table that is not found holds no item", hazards: "", file: "sink/repair.go",
		old: `	image, present, err := r.Item(ctx, keys)
	if err != nil {
`,
		new: `	image, present, err := r.Item(ctx, keys)
	if cdc.Is(err, cdc.NotFound) {
		err = nil // the item is gone
	}
	if err != nil {
`,
		test: "./sink TestRepairWithoutASource", why: "the table is there while an operator repairs",
	},
	{
		name: "a description of before the stream is believed", hazards: "H24", file: "internal/pipeline/stream.go",
		old: `	case !believed && !k.doubt.lasts(d, asked):
`,
		new: `	case !believed && asked < 0:
`,
		test: "./internal/sim TestH24_OldDescription", why: "an old description must come just after a new stream was heard of",
	},
	{
		name: "an older stream is followed when the newer one is over", hazards: "H24", file: "internal/pipeline/stream.go",
		old: `over && (told != replaced || d.StreamLabel > state.Label)
`,
		new: `over
`,
		test: "./internal/sim TestH24_OldDescription", why: "the end of a stream must be described late, soon after the one before was replaced",
	},
	{
		name: "what the table says is never believed against its stream", hazards: "H24", file: "internal/pipeline/stream.go",
		old: `	return asked-d.since >= lasting
`,
		new: `	return false
`,
		test: "./internal/sim TestH24_DescriptionAgainstStream", why: "a stream says at last that it is over",
	},
	{
		name: "a stream that was called gone is never followed again", hazards: "H24", file: "internal/pipeline/stream.go",
		old: `			s.StreamEnded = s.StreamEnded && s.StreamARN != d.StreamARN
`,
		new: `			s.StreamEnded = s.StreamEnded || s.StreamARN != d.StreamARN
`,
		test: "./internal/sim TestH24_CalledGoneByMistake", why: "the service never says so by mistake",
	},
	{
		name: "a table of another region is taken for a new stream", hazards: "", file: "internal/pipeline/stream.go",
		old: `	return strings.Join(fields[1:5], ":")
`,
		new: `	return strings.Join(fields[1:3], ":")
`,
		test: "./internal/sim TestAnotherAccount", why: "no run has credentials of another account",
	},
	{
		name: "a worker looks at the region as its keeper alone", hazards: "", file: "internal/pipeline/pipeline.go",
		old: `		return t.sameSource(ctx)
`,
		new: `		return ctx.Err()
`,
		test: "./internal/sim TestAnotherAccount", why: "no run has credentials of another account",
	},
	{
		name: "once: what another worker reads is never drained", hazards: "H18", file: "internal/pipeline/board.go",
		old: `	return o.readAt.Sub(o.since) >= t.Idle && now-o.at <= renew+t.Poll+t.Pass+pageTime
`,
		new: `	return false
`,
		test: "./internal/sim TestH18_OnceBesideOthers", why: "the workers of a run never end by themselves",
	},
	{
		name: "once: what another worker read before it stood still is drained", hazards: "H18", file: "internal/pipeline/board.go",
		old: ` && now-o.at <= renew+t.Poll+t.Pass+pageTime
`,
		new: ` || now-o.at > time.Minute
`,
		test: "./internal/pipeline TestH18_ReadElsewhere", why: "the workers of a run never end by themselves",
	},
	{
		name: "shards that wait need no adoption", hazards: "H70", file: "checkpoint/table.go",
		old: `			if s.Finished() || s.Label == state.Label && s.Generation >= state.Generation {
`,
		new: `			if s.Finished() || s.Label == state.Label && (s.State == Waiting || s.Generation >= state.Generation) {
`,
	},
	{
		name: "what was raised meanwhile counts as adopted", hazards: "H70", file: "checkpoint/table.go",
		old: `			if s.Generation == generation {
				s.Adopted = generation
			}
`,
		new: `			if s.Generation >= generation {
				s.Adopted = s.Generation
			}
`,
		test: "./checkpoint TestH70_RaiseInTheMiddle", why: "a generation must rise just while another worker completes the adoption of the one before",
	},
	{
		name: "a search for older parked changes that failed found none", hazards: "H38", file: "sink/parking.go",
		old: `	for _, ref := range older {
		if err == nil {
`,
		new: `	if len(older) == 0 {
		return nil
	}
	for _, ref := range older {
		if err == nil {
`,
		test: "./sink TestSupersedeFailsWithItsLook", why: "a read must fail just when an item that had no address is stored",
	},
	{
		name: "a look does not reach back before a page's former images", hazards: "H57", file: "sink/keep.go",
		old: `range append(m.Past[:len(m.Past):len(m.Past)], m.Cells) {`, new: `range [][]transform.Cell{m.Cells} {`,
		test: "./sink TestLookReachesBack", why: "a look of the model shows all cells of the row",
	},
	{
		name: "rows beyond one second's worth are not paid for", hazards: "", file: "backfill/throttle.go",
		old: `		n -= portion
`,
		new: `		n = 0
`,
		test: "./backfill TestPageBeyondTheBurst", why: "no load of a run is paced",
	},
	{
		name: "once: a trimmed shard that is to be read on is drained", hazards: "H18 H21", file: "internal/pipeline/assign.go",
		old: `		case s.Reopenable(v.state) || s.Undeclared(v.state):
			return false
`,
		new:  ``,
		test: "./internal/pipeline TestH18_WhatIsToGoOn", why: "nothing is trimmed any more when a run is drained",
	},
	{
		name: "once: a copy that was begun is complete", hazards: "H18", file: "internal/pipeline/assign.go",
		old: `t.Copy && !v.state.Loaded() && !v.state.NeedsLoad {`, new: `t.Copy && v.state.Load.Generation != v.state.Generation && !v.state.NeedsLoad {`,
		test: "./internal/pipeline TestH18_WhatIsToGoOn", why: "the table is copied before a run is drained",
	},
	{
		name: "why a copy failed is kept to itself", hazards: "H38", file: "internal/pipeline/keeper.go",
		old: `		loading.Go("copy", func(ctx context.Context) error { return t.copyWhileThere(stop, noting(ctx, notes.slot(0)), keeper) })
`,
		new: `		loading.Go("copy", func(ctx context.Context) error {
			_ = t.copy(stop, noting(ctx, notes.slot(0)), keeper)
			return nil
		})
`,
		test: "./internal/sim TestH38_BadItemEndsACopy", why: "where everybody is to stop at a bad item, the stream brings one as well",
	},
}
