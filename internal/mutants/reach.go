package main

// inReach are bugs in what ordinary runs did not come to for long: tables of patterns, the last run of a migration, operators beside workers, limits.
var inReach = []mutant{
	{
		name: "a table that was set aside is never readmitted", file: "internal/pipeline/join.go",
		old: `		s.Aside = checkpoint.Aside{}
		return nil
`,
		new: `		return nil
`,
	},
	{
		name: "the seat of one who is gone is never taken", hazards: "H03", file: "internal/pipeline/keeper.go",
		old: `		if watch.SeatFree(seat, task.Mono(ctx)) {
`,
		new: `		if watch.SeatFree(seat, task.Mono(ctx)); seat.Owner() == "" {
`,
	},
	{
		name: "a cluster is not compared with the one before", hazards: "H46", file: "internal/pipeline/cluster.go",
		old: `	return t.Ledger.CheckCluster(ctx, cluster)
`,
		new: `	_ = cluster
	return nil
`,
	},
	{
		name: "another cluster takes the place of the one before", hazards: "H46", file: "checkpoint/ledger.go",
		old: `		if p.Cluster != "" {
			return ErrClusterChanged
		}
`,
	},
	{
		name: "once: a shard whose children are not known is drained", hazards: "H13 H18", file: "internal/pipeline/assign.go",
		old: `	if !v.over && len(checkpoint.Unfollowed(v.state, v.shards, v.listed)) > 0 {
		return false
	}
`,
	},
	{
		name: "any listing after a shard's end shows that nothing follows it", hazards: "H13 H76", file: "checkpoint/shard.go",
		old: `listed.Before(s.DoneAt.Add(cdc.Retention))`, new: `listed.Before(s.DoneAt)`,
		test: "./checkpoint TestH13_H76_Unfollowed", why: "no run of the simulation ends with --once a day after the last listing",
	},
	{
		name: "once: it is not asked when the stream was last listed", hazards: "H13 H18", file: "internal/pipeline/assign.go",
		old: `	if err == nil && t.Once {
		v.listed, err = t.listed(ctx, v)
	}
`,
		test: "./internal/pipeline TestH13_WhatFollowsAShard", why: "it takes a shard whose children nobody could ever list",
	},
	{
		name: "children that nobody will ever list are waited for", hazards: "H13 H76", file: "checkpoint/shard.go",
		old: `s.State == Done && now.Sub(s.DoneAt) < cdc.Retention`, new: `s.State == Done`,
		test: "./checkpoint TestH13_H76_AwaitsChildren", why: "a shard must go before it was ever listed, and the run end with --once: about one seed in three thousand",
	},
	{
		name: "a shard's row goes before its parent's", hazards: "H16 H76", file: "checkpoint/shard.go",
		old: `known && !remove(parent) {`, new: `known && !remove(parent) && parent.ID == s.ID {`,
	},
	{
		name: "on bad item stop: what the target rejects is parked", hazards: "H38", file: "sink/writer.go",
		old: `	if w.o.OnBadItem == Stop {
		return &BadItem{b.Source, reason}
	}
`,
	},
	{
		name: "on bad item stop: what cannot be mapped is parked", hazards: "H38", file: "sink/writer.go",
		old: `	if w.o.OnBadItem == Stop && len(b.Parked) > 0 {
		return &BadItem{b.Source, b.Parked[0].Reason}
	}
`,
	},
	{
		name: "any number of items may be parked", hazards: "H38", file: "sink/writer.go",
		old: `n > w.o.MaxParked {`, new: `n > w.o.MaxParked+1 {`,
		test: "./sink TestParkedLimit", why: "one item more than may be must be parked, and no more until the end: one seed of some hundreds",
	},
	{
		name: "the limit of parked items counts changes", hazards: "H38", file: "sink/parking.go",
		old: `		if item == last {
`,
		new: `		if item == last && last == "" {
`,
	},
	{
		name: "an item is read before the row that it repairs", hazards: "H57", file: "sink/repair.go",
		old: `	var order []address
	for _, m := range Removals(r.Mapping, keys, known) {
`,
		new: `	var order []address
	early, there, failed := r.Item(ctx, keys)
	original := r.Item
	defer func() { r.Item = original }()
	r.Item = func(context.Context, cdc.Item) (cdc.Item, bool, error) { return early, there, failed }
	for _, m := range Removals(r.Mapping, keys, known) {
`,
		test: "./sink Repair", why: "one seed in some hundreds shows it",
	},
	{
		name: "a repair leaves room for another", hazards: "H57", file: "sink/repair.go",
		old: `held.Sequence(), count+1)`, new: `held.Sequence(), count+2)`,
	},
	{
		name: "a repair outranks what comes next", hazards: "H57", file: "sink/repair.go",
		old: `transform.NewVersion(held.Generation(), held.Hop(), held.Sequence(), count+1)`,
		new: `transform.NewVersion(held.Generation(), held.Hop()+1, held.Sequence(), count)`,
	},
	{
		name: "a repair of a row without a version counts as one of the stream", hazards: "H57", file: "sink/repair.go",
		old: `transform.NewVersion(generation, transform.LoadHop, cdc.SequenceOf(uint64(max(0, readAt.Unix()))), transform.CountExact)`,
		new: `transform.NewVersion(generation, transform.LoadHop+1, cdc.SequenceOf(uint64(max(0, readAt.Unix()))), transform.CountExact)`,
	},
	{
		name: "a repair writes what the row holds already", hazards: "H57", file: "sink/repair.go",
		old: `	if Holds(seen, want) {
		return Request{}, false, nil
	}
	held`,
		new:  `	held`,
		test: "./sink TestH04_H26_H72|TestRepair", why: "it costs efficiency alone",
	},
	{
		name: "changes that were read before are applied again", hazards: "H01", file: "cdc/reader.go",
		old: `page.Changes[skip:]`, new: `page.Changes[min(skip, 0):]`,
	},
	{
		name: "the last of the changes that were read before is applied again", hazards: "H01", file: "cdc/reader.go",
		old: `			skip = i + 1
`,
		new: `			skip = i
`,
	},
	{
		name: "one look at the rows is enough for an adoption", hazards: "H70", file: "checkpoint/table.go",
		old: `		if !settled {
			continue
		}
`,
		new: `		_ = settled
`,
	},
	{
		name: "a lease outlives its trust by a beat", hazards: "H03", file: "checkpoint/tenure.go",
		old: `		if now >= until {
`,
		new: `		if now >= until+third {
`,
	},
	{
		name: "a new stream has ended like the one before", hazards: "H24", file: "internal/pipeline/stream.go",
		old: `d.StreamARN, d.StreamLabel, 0, false`, new: `d.StreamARN, d.StreamLabel, 0, s.StreamEnded`,
	},
	{
		name: "segments that were skipped count as begun", hazards: "H01", file: "backfill/progress.go",
		old: `	for ; p.Next <= o.Segment; p.Next++ {
		p.Open = append(p.Open, Open{Segment: p.Next})
	}
`,
		new: `	if p.Next <= o.Segment {
		p.Open, p.Next = append(p.Open, Open{Segment: o.Segment}), o.Segment+1
	}
`,
	},
	{
		name: "bytes of a request are given back in part", file: "sink/writer.go",
		old: `	w.bytes.Release(size)
`,
		new: `	w.bytes.Release(size / 2)
`,
	},
	{
		name: "what the time to live removes stays everywhere", hazards: "H83", file: "transform/fold.go",
		old: `c.Expired && m.Outlives()`, new: `c.Expired`,
	},
	{
		name: "what the time to live removes stays nowhere", hazards: "H83", file: "transform/fold.go",
		old: `c.Expired && m.Outlives()`, new: `c.Expired && m.ttl.Expire == KeepExpired && !m.Outlives()`,
	},
	{
		name: "a parked change is healed by another item of its row", hazards: "H74", file: "sink/parking.go",
		old: `		live, gone, _ := row.Versions(at.Owner)
`,
		new: `		live, gone, _ := row.Versions(at.Owner)
		for _, c := range row.Own {
			live = max(live, transform.Version(c.Value))
		}
`,
		test: "./sink TestResolveLooksAtEvery", why: "of two items of one row one is parked, and the other changes later, in the minute before the first one does",
	},
	{
		name: "what is parked of one item is told of all whose names begin alike", file: "sink/parking.go",
		old: `HashOf(item)+"/", f)`, new: `HashOf(item)[:1], f)`,
		test: "./sink TestOfItemIsOfOneItem", why: "few items are parked at the same time",
	},
	{
		name: "a raise in doubt is begun anew from where it stands", hazards: "H70", file: "checkpoint/table.go",
		old: `		if s.Generation > from {
			return nil
		}
		s.Generation = Next`,
		new: `		s.Generation = Next`,
	},
}
