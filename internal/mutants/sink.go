package main

// inGuard are bugs in the one conditional request.
var inGuard = []mutant{
	{
		name: "no tombstone", hazards: "H26", file: "sink/guard.go",
		old: `			Op{Kind: SetCell, Family: GoneFamily, Qualifier: column, Timestamp: ServerTime, Value: []byte(m.Version)})
`,
		new: `		)
`,
	},
	{
		name: "tombstone collected early", hazards: "H27", file: "sink/guard.go",
		old: `Timestamp: ServerTime, Value: []byte(m.Version)})`, new: `Timestamp: liveTime, Value: []byte(m.Version)})`,
	},
	{
		name: "tombstone at the image's time", hazards: "H27 H43", file: "sink/guard.go",
		old: `Timestamp: ServerTime, Value: []byte(m.Version)})`, new: `Timestamp: m.At.UnixMilli() * 1000, Value: []byte(m.Version)})`,
		test: "./sink TestH43_H51", why: "delays of a run are an eighth of a tombstone's age at the most",
	},
	{
		name: "latest-cell filter in the predicate", hazards: "H77", file: "sink/bigtable.go",
		old: `	return bigtable.ChainFilters(column, bigtable.ValueRangeFilter(`, new: `	return bigtable.ChainFilters(column, bigtable.LatestNFilter(1), bigtable.ValueRangeFilter(`,
		test: "./sink TestH77_H28", why: "a remove drops the older tombstone: alone it is harmless, as internal/scope proves",
	},
	{
		name: "remove that keeps the older tombstone", hazards: "H77", file: "sink/guard.go",
		old: `			Op{Kind: DeleteColumn, Family: GoneFamily, Qualifier: column},
			Op{Kind: SetCell, Family: GoneFamily`,
		new: `			Op{Kind: SetCell, Family: GoneFamily`,
	},
	{
		name: "put does not clear the row", hazards: "H29", file: "sink/guard.go",
		old: "	for _, family := range m.Families {\n", new: "	for _, family := range m.Families[:0] {\n",
	},
	{
		name: "put keeps the tombstone", hazards: "H26", file: "sink/guard.go",
		old: `		Op{Kind: DeleteColumn, Family: GoneFamily, Qualifier: column},
		Op{Kind: SetCell, Family: LiveFamily`,
		new: `		Op{Kind: SetCell, Family: LiveFamily`,
	},
	{
		name: "remove keeps the live version", hazards: "H26", file: "sink/guard.go",
		old: `			Op{Kind: DeleteColumn, Family: LiveFamily, Qualifier: column},
`,
	},
	{
		name: "version cell at the image's time", hazards: "H09 H43", file: "sink/guard.go",
		old: `Timestamp: liveTime, Value: []byte(m.Version)})`, new: `Timestamp: m.At.UnixMilli() * 1000, Value: []byte(m.Version)})`,
	},
	{
		name: "version cell at worker time", hazards: "H43", file: "sink/writer.go",
		old: `		request := Guard(*row)
`,
		new: `		request := Guard(*row)
		for j := range request.Ops {
			if op := &request.Ops[j]; op.Kind == SetCell && op.Family == LiveFamily {
				op.Timestamp = task.Now(ctx).UnixMilli() * 1000
			}
		}
`,
	},
	{
		name: "plain timestamped cells instead of the guard", hazards: "H04", file: "sink/writer.go",
		old: `		request := Guard(*row)
`,
		new: `		request := Guard(*row)
		if request.Refuse.Families = nil; !row.Remove {
			request.Ops = request.Ops[len(row.Families):]
		}
`,
	},
	{
		name: "predicate does not see tombstones", hazards: "H26", file: "sink/guard.go",
		old: `Predicate{Families: guardFamilies,`, new: `Predicate{Families: guardFamilies[:1],`,
	},
	{
		name: "predicate does not see live versions", hazards: "H03 H04", file: "sink/guard.go",
		old: `Predicate{Families: guardFamilies,`, new: `Predicate{Families: guardFamilies[1:],`,
	},
	{
		name: "load without guard", hazards: "H31", file: "sink/guard.go",
		old: `	return Request{
		Table: m.Table, Row: m.Row, Ops: marks(ops, m),
		Refuse: Predicate{Families: guardFamilies,`,
		new: `	families := guardFamilies
	if m.Version.Hop() == transform.LoadHop {
		families = nil
	}
	return Request{
		Table: m.Table, Row: m.Row, Ops: marks(ops, m),
		Refuse: Predicate{Families: families,`,
	},
	{
		name: "an equal version is not refused", hazards: "H04", file: "sink/bigtable.go",
		old: `bigtable.ValueRangeFilter([]byte(p.AtLeast), nil)`, new: `bigtable.ValueRangeFilter([]byte(p.AtLeast+"\x00"), nil)`,
		test: "./sink TestH03_H04|TestMemoryEqualsEmulator", why: "only the real client makes the filter",
	},
	{
		name: "predicate looks at every column of its families", hazards: "H74", file: "sink/bigtable.go",
		old: `only(family, p.Qualifier)`, new: `bigtable.ColumnRangeFilter(family, "", "")`,
		test: "./sink TestH74", why: "only the real client makes the filter",
	},
	{
		name: "branches of the condition exchanged", hazards: "H03 H04", file: "sink/bigtable.go",
		old: `bigtable.NewCondMutation(filter(r.Refuse), nil, change)`, new: `bigtable.NewCondMutation(filter(r.Refuse), change, nil)`,
		test: "./sink TestH03_H04|TestMemoryEqualsEmulator", why: "only the real client makes the request",
	},
}

// inWriter are bugs in sending, parking and what is made of outcomes.
var inWriter = []mutant{
	{
		name: "delete then put in two requests", hazards: "H29", file: "sink/writer.go",
		old: `		applied, err = w.o.Table.Apply(ctx, guard)
`,
		new: `		wipe := *guard
		wipe.Ops = guard.Ops[:1]
		applied, err = w.o.Table.Apply(ctx, &wipe)
		if err == nil {
			applied, err = w.o.Table.Apply(ctx, guard)
		}
`,
	},
	{
		name: "unknown outcome taken for success", hazards: "H80", file: "sink/writer.go",
		old: `		if o.sent && o.err == nil {
`,
		new: `		if o.sent && (o.err == nil || Is(o.err, Unknown)) {
`,
	},
	{
		name: "row that was not sent taken for durable", hazards: "H02", file: "sink/writer.go",
		old: `		if o.sent && o.err == nil {
`,
		new: `		if o.err == nil {
`,
	},
	{
		name: "error of the last row alone counts", hazards: "H02", file: "sink/writer.go",
		old: `	err := w.settle(b, outcomes)
`,
		new: `	err := w.settle(b, outcomes)
	if n := len(outcomes); outcomes[n-1].err == nil {
		err, b.Rows = nil, nil
	}
`,
	},
	{
		name: "retry of a different request", hazards: "H04", file: "sink/writer.go",
		old: `		open = append(open, b.Rows[i])
`,
		new: `		if Is(o.err, Unknown) {
			v := b.Rows[i].Version
			b.Rows[i].Version = transform.NewVersion(v.Generation(), v.Hop(), v.Sequence(), v.Count()+1)
		}
		open = append(open, b.Rows[i])
`,
	},
	{
		name: "parked change that blocks the shard", hazards: "H38", file: "sink/writer.go",
		old: `	if w.o.OnBadItem == Stop && len(b.Parked) > 0 {
`,
		new: `	if len(b.Parked) > 0 {
		return &Error{Reason: Unknown}
	}
	if w.o.OnBadItem == Stop && len(b.Parked) > 0 {
`,
	},
	{
		name: "a wait that is given up keeps its slot", hazards: "", file: "sink/writer.go",
		old: `		w.rows.Release(1)
		return err
`,
		new: `		return err
`,
		test: "./sink TestWaitThatIsGivenUp", why: "it costs throughput alone",
	},
	{
		name: "parking that fails is forgotten", hazards: "H38", file: "sink/writer.go",
		old: `	if err := w.park(ctx, b); err != nil {
		return err
	}
`,
		new: `	_ = w.park(ctx, b)
`,
	},
	{
		name: "rejected row forgotten", hazards: "H38", file: "sink/writer.go",
		old: `	for len(b.Rows) > 0 {
		if err := w.checkFloor(b); err != nil {
`,
		new: `	if len(b.Rows) > 0 {
		if err := w.checkFloor(b); err != nil {
`,
	},
	{
		name: "rejected put stays a put", hazards: "H38", file: "sink/writer.go",
		old: `	row.Remove, row.Cells = true, nil
`,
		new: `	row.Cells = nil
`,
	},
	{
		name: "rejected row not parked", hazards: "H38", file: "sink/writer.go",
		old: `	b.Parked = append(b.Parked, b.Park(*row, reason))
`,
	},
	{
		name: "old images are put", hazards: "H81", file: "sink/writer.go",
		old: `		if b.Rows[i].Remove || !b.Rows[i].At.Before(oldest) {
`,
		new: `		if oldest.IsZero() || !b.Rows[i].At.After(oldest.AddDate(9, 0, 0)) {
`,
		test: "./sink TestH81", why: "no delay of a run comes near the age of a tombstone",
	},
	{
		name: "ailing table taken for bad items", hazards: "H50", file: "sink/status.go",
		old: `	switch code {
	case codes.ResourceExhausted:
		if strings`,
		new: `	switch code {
	case codes.NotFound:
		return Rejected
	}
	switch code {
	case codes.ResourceExhausted:
		if strings`,
		test: "./sink Classify|TestErrorsOfTables", why: "the model gives reasons, not codes",
	},
	{
		name: "parked changes of one item overwrite each other", hazards: "H38", file: "sink/parking.go",
		old: `HashOf(p.Key) + "/" + string(p.Version))`, new: `HashOf(p.Key) + "/" + string(p.Version)[:8])`,
	},
	{
		name: "a parked change heals itself", hazards: "H38", file: "sink/parking.go",
		old: `max(live, gone) > record.Version`, new: `max(live, gone) >= record.Version`,
		test: "./sink TestResolve", why: "the tombstone of a parked change has its version",
	},
	{
		name: "a repair of one row resolves what is parked of all", hazards: "H38", file: "sink/parking.go",
		old: `gone <= record.Version`, new: `gone < record.Version`,
		test: "./sink TestH38_ARetry", why: "few items of several rows can be stored unchanged after they were parked",
	},
	{
		name: "a row that was never written keeps nothing parked", hazards: "H38", file: "sink/parking.go",
		old: `lacking := live < record.Version && gone <= record.Version`, new: `lacking := gone == record.Version`,
		test: "./sink TestResolveLooksAtEvery", why: "who parks an item has removed its rows, and their tombstones stay for weeks",
	},
}
