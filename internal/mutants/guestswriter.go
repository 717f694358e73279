package main

// whyCommand is why the simulation does not see what commands decide.
const whyCommand = "the simulation begins where the commands end"

// inGuestsOfTheWriter are bugs that a stranger planted in what writes, maps, copies and starts.
var inGuestsOfTheWriter = []mutant{
	{
		name: "a row that is looked at gives back less room than it took", hazards: "", file: "sink/writer.go",
		old: `			defer w.release(size)
`,
		new: `			defer w.release(request.Size())
`,
	},
	{
		name: "the parking lot is waited for without an end", hazards: "", file: "sink/writer.go",
		old: `	err := call(timed)
`,
		new: `	_ = timed
	err := call(ctx)
`,
		test: "./sink TestHangingParking", why: "the model's calls end by themselves",
	},
	{
		name: "the age of an image is that of its page's newest", hazards: "H81", file: "sink/writer.go",
		old: `!b.Rows[i].At.Before(oldest) {`, new: `!b.Latest.Before(oldest) {`,
	},
	{
		name: "columns whose families have no room in a filter are not looked at", hazards: "H51", file: "sink/bigtable.go",
		old: `			if !slices.Contains(families, c.Family) {
				families = append`,
		new: `			if slices.Contains(families, c.Family) {
				families = append`,
		test: "./sink TestFilters", why: "only the real client makes the filter",
	},
	{
		name: "of a row without room in a filter nothing but versions is looked at", hazards: "H51", file: "sink/bigtable.go",
		old: `		return []bigtable.Filter{bigtable.PassAllFilter()}
`,
		new: `		return nil
`,
		test: "./sink TestFilters", why: "only the real client makes the filter",
	},
	{
		name: "what a repair wrote is in no doubt", hazards: "H51", file: "sink/keep.go",
		old: `	if !k.loaded && held.Count() <= transform.CountExact {`, new: `	if !k.loaded {`,
		test: "./sink TestLoadsAheadOfTheStream|TestRepairKeeps", why: whyKept,
	},
	{
		name: "every cell before a repair is in doubt", hazards: "H51", file: "sink/keep.go",
		old: `	if k.before == nil || n > 0 && !k.loaded {`, new: `	if k.before == nil {`,
		test: "./sink TestRepairKeepsHistory", why: whyKept,
	},
	{
		name: "rows that parking has just removed lack nothing", hazards: "H38", file: "sink/parking.go",
		old: `live < record.Version && gone <= record.Version // it`, new: `live < record.Version && gone < record.Version // it`,
		test: "./sink TestH38_ARetry", why: "few items of several rows can be stored unchanged after they were parked",
	},
	{
		name: "the limit of parked items counts tables", hazards: "H38", file: "sink/parking.go",
		old: `		item := Ref(key).item()
`,
		new: `		item, _, _ := Ref(strings.TrimPrefix(key, p.prefix)).Parts()
`,
		test: "./sink TestH38_ParkingInBigtable|TestParkedLimit", why: "a run whose limit is low has items of one table parked",
	},
	{
		name: "of a list the newest element alone is compared", hazards: "", file: "sink/repair.go",
		old: `		for i, c := range cells { // from`, new: `		for i, c := range cells[:1] { // from`,
		test: "./sink TestCompareLists", why: "no row of a run is repaired that lacks an element alone",
	},
	{
		name: "an image of a repair is dated when it was answered", hazards: "H31", file: "sink/repair.go",
		old: `	done := Repaired{Present: present}
`,
		new: `	done := Repaired{Present: present}
	readAt = task.Now(ctx)
`,
		test: "./sink TestRepairDates", why: "an image must be read in the seconds before its root is",
	},
	{
		name: "an age rule within another rule spares versions", hazards: "H28", file: "sink/admin.go",
		old: `		return slices.ContainsFunc(p.Children, hasAge)
	case bigtable.IntersectionGCPolicy:`,
		new: `		return false
	case bigtable.IntersectionGCPolicy:`,
		test: "./sink TestH28_Prepare", why: "the families of the simulation are there from the start",
	},
	{
		name: "tombstones may be kept for less than was configured", hazards: "H81", file: "sink/admin.go",
		old: `!ok || time.Duration(age) != f.Keep.Age {`, new: `!ok || time.Duration(age) > f.Keep.Age {`,
		test: "./sink TestH28_Prepare", why: "the families of the simulation are there from the start",
	},
	{
		name: "a rule of several parts is whatever the mapping rests on", hazards: "H83", file: "sink/admin.go",
		old: `		if !ruleOf(have).Same(ruleOf(f.policy())) {
			return fail`,
		new: `		if rule := ruleOf(have); len(rule.Rules) == 0 && !rule.Same(ruleOf(f.policy())) {
			return fail`,
		test: "./sink TestPrepareCompares", why: "the families of the simulation are there from the start",
	},
	{
		name: "a family that collects by age or by number collects nothing that is new", hazards: "", file: "sink/admin.go",
		old: `		return slices.ContainsFunc(p.Children, agesNewest)
`,
		new: `		return !slices.ContainsFunc(p.Children, func(child bigtable.GCPolicy) bool { return !agesNewest(child) })
`,
		test: "./sink TestAgeRules", why: "the families of the simulation are there from the start",
	},
	{
		name: "a table that another worker made needs no look", hazards: "", file: "sink/admin.go",
		old: `		case codes.AlreadyExists: // another worker was faster
		default:
			return spec.refused(err)`,
		new: `		case codes.AlreadyExists: // another worker was faster
			return nil
		default:
			return spec.refused(err)`,
		test: "./sink TestPrepareLooks", why: "the families of the simulation are there from the start",
	},
	{
		name: "an app profile without transactions will do", hazards: "H46", file: "sink/profile.go",
		old: `	case !single.GetAllowTransactionalWrites():
`,
		new: `	case single.GetClusterId() == "":
`,
		test: "./sink TestH47", why: "the model has no app profiles",
	},
	{
		name: "who is not known to the service has a table that is not as it should be", hazards: "H63", file: "sink/status.go",
		old: `	case codes.PermissionDenied, codes.Unauthenticated:
		return Denied
`,
		new: `	case codes.Unauthenticated:
		return Permanent
	case codes.PermissionDenied:
		return Denied
`,
		test: "./sink TestH50_H65_Classify", why: "the model gives reasons, not codes",
	},
	{
		name: "two saves of a load overtake each other", hazards: "H01", file: "backfill/scan.go",
		old: `	if l.saving || task.Mono(ctx)`, new: `	if task.Mono(ctx)`,
	},
	{
		name: "a stream that is switched off is the table's stream", hazards: "H24", file: "backfill/dynamodb.go",
		old: `s != nil && aws.ToBool(s.StreamEnabled) {`, new: `s != nil {`,
		test: "./backfill TestAStreamThatIs", why: "the model has descriptions, and no answers",
	},
	{
		name: "the list of tables ends with its first page", hazards: "", file: "backfill/dynamodb.go",
		old: `		case next == "":
			return names, nil
		case`,
		new: `		case next == "" || len(names) > 0:
			return names, nil
		case`,
		test: "./backfill TestListReads", why: "the model has lists, and no pages",
	},
	{
		name: "an answer that was half received is somebody's denial", hazards: "", file: "backfill/dynamodb.go",
		old: `	if errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, cdc.ErrChecksum) {`, new: `	if errors.As(err, &network) {`,
		test: "./backfill TestFailuresWithout", why: "the model gives reasons, not what the network says",
	},
	{
		name: "of a page only the newest change tells that an item had no address", hazards: "H38", file: "transform/fold.go",
		old: `h.add(m, s, c.Old, i, false) != nil || h.astray`, new: `h.add(m, s, c.Old, i, false) != nil`,
	},
	{
		name: "counters of an age are taken", hazards: "H83", file: "transform/compile.go",
		old: `	case as == AsCounter && f.GC.HasAge():
`,
		new: `	case as == AsCounter && f.GC.Age > 0:
`,
		test: "./transform TestCheckFinds", why: "a mapping that is refused is none of a run",
	},
	{
		name: "items of two tables need not say whose they are", hazards: "", file: "transform/check.go",
		old: `!c.plain(w.write) || c.spec.Merged`, new: `!c.plain(w.write)`,
		test: "./transform TestRowsOfMerged", why: "checkers ask the mapping which rows have to",
	},
	{
		name: "a prefix that any function cuts off is told by the condition", hazards: "H37", file: "transform/check.go",
		old: `		case call.f.prefixed && i == 0 && known != nil:
`,
		new: `		case call.f.prefixed && i >= 0 && known != nil:
`,
		test: "./transform TestCheckFinds", why: "a mapping that is refused is none of a run",
	},
	{
		name: "what follows a part without an end can be told", hazards: "H37", file: "transform/check.go",
		old: `				break // neither it nor what follows can be told
`,
		new: `				continue // it cannot be told
`,
		test: "./transform TestTablesOfAPattern", why: "a mapping that is refused is none of a run",
	},
	{
		name: "two rules of a pattern that write a part of the name in different widths tell its tables apart", hazards: "H37", file: "transform/varying.go",
		old: `a.Name == b.Name && a.Text == b.Text && a.Number == b.Number })`, new: `a.Name == b.Name && a.Text == b.Text })`,
		test: "./transform TestWidths", why: "a mapping that is refused is none of a run",
	},
	{
		name: "the delimiter behind the last part of the table's name is not compared", hazards: "H37", file: "transform/varying.go",
		old: `		if p.escaped != 0 && !p.digits { //`, new: `		if p.escaped == '#' && !p.digits && len(p.calls) > 0 { //`,
		test: "./transform TestTablesOfAPattern", why: "a mapping that is refused is none of a run",
	},
	{
		name: "conditions need not look at the key for what expires to stay", hazards: "H83", file: "transform/outlive.go",
		old: `		if r.when != nil {
			for`,
		new: `		if r.when != nil && !c.schema {
			for`,
		test: "./transform TestExpireKeepNeeds", why: "a mapping that is refused is none of a run",
	},
	{
		name: "numbers of functions are not of a template's meaning", hazards: "H70", file: "transform/template.go",
		old: `	if c.f.takesNumber {
		args`,
		new: `	if c.f.takesNumber && !c.f.takesText {
		args`,
		test: "./transform FuzzParseTemplate", why: "no run changes a mapping by a number",
	},
	{
		name: "of a joined rule the operators do not matter", hazards: "H70", file: "transform/family.go",
		old: `len(r.Rules) > 0 && r.All == g.All {`, new: `len(r.Rules) > 0 {`,
		test: "./transform TestParseFamily", why: "no run changes a family's rule",
	},
	{
		name: "no parked item at all means any number", hazards: "H38", file: "cmd/replicator/run.go",
		old: `		maxParked = -1 // none at all; the writer's zero means no limit
`,
		new: `		maxParked = 0
`,
		test: "./cmd/replicator TestScripts/h38", why: whyCommand,
	},
	{
		name: "images are put for as long as tombstones are kept", hazards: "H81", file: "cmd/replicator/run.go",
		old: `cfg.State.TombstoneAge - imageMargin`, new: `cfg.State.TombstoneAge`,
		test: "./cmd/replicator TestH81_ARun", why: whyCommand,
	},
	{
		name: "the witness stands beside the ledger", hazards: "H45", file: "cmd/replicator/run.go",
		old: `w.target.witnessStore,`, new: `func(string) checkpoint.Store { return ledgerStore(w.target, w.cfg) },`,
		test: "./cmd/replicator TestScripts/h60", why: whyCommand,
	},
	{
		name: "the cluster is the one that was found at the start", hazards: "H46", file: "cmd/replicator/run.go",
		old: `			profile, err := w.target.admin.Profile(ctx)
			return profile.Cluster, err
`,
		new: `			_, err := w.target.admin.Profile(ctx)
			return w.found.cluster, err
`,
		test: "./cmd/replicator TestH46", why: whyCommand,
	},
	{
		name: "a run begins before it knows that the cluster is the one of before", hazards: "H46", file: "cmd/replicator/run.go",
		old: `err = ledger.CheckCluster(opened, w.found.cluster) // before`, new: `_ = w.found.cluster // before`,
		test: "./cmd/replicator TestH46", why: whyCommand,
	},
	{
		name: "a run that was to drain the stream and was ended has drained it", hazards: "H18", file: "cmd/replicator/run.go",
		old: `s.Signal == syscall.SIGTERM && !f.once &&`, new: `s.Signal == syscall.SIGTERM &&`,
		test: "./cmd/replicator TestEndedWhile", why: whyCommand,
	},
	{
		name: "with --once gaps are no failure", hazards: "H21", file: "cmd/replicator/run.go",
		old: `	return s.verdict()
`,
		new: `	_ = s
	return nil
`,
		test: "./cmd/replicator TestScripts/h21_gap", why: whyCommand,
	},
	{
		name: "tables that were followed from the horizon on make every table young", hazards: "H84", file: "cmd/replicator/discover.go",
		old: `return !s.Owed().IsZero() && created.After(s.Owed()) })`, new: `return created.After(s.Owed()) })`,
		test: "./cmd/replicator TestH75_ATable", why: whyCommand,
	},
	{
		name: "a table that cannot be described for now is nobody's business", hazards: "", file: "cmd/replicator/discover.go",
		old: `			failed = append(failed, fmt.Errorf("table %s: %w", t.From, err))
			continue
`,
		new: `			continue
`,
		test: "./cmd/replicator TestATableThatCannot", why: whyCommand,
	},
	{
		name: "tables are looked for as often as the most patient pattern says", hazards: "", file: "cmd/replicator/discover.go",
		old: `(every == 0 || d < every) {`, new: `(every == 0 || d > every) {`,
		test: "./cmd/replicator TestDiscoverEvery", why: whyCommand,
	},
	{
		name: "a table that joins is followed from the horizon on", hazards: "H84", file: "cmd/replicator/discover.go",
		old: `FromNow: t.Start == config.StartNow,`, new: `FromNow: t.Start == config.StartNow && t.Pattern() == "",`,
		test: "./cmd/replicator TestH75_ATable", why: whyCommand,
	},
	{
		name: "a shard of which nothing is known does not count", hazards: "H21", file: "cmd/replicator/shardstatus.go",
		old: `			unread = true
`,
		new: `			unread = unread || len(in.shards) == 1
`,
		test: "./cmd/replicator TestLag", why: whyCommand,
	},
	{
		name: "a shard that is behind is as far as its last read", hazards: "H21", file: "cmd/replicator/shardstatus.go",
		old: `	case s.CaughtUp && !s.ReadAt.IsZero():
`,
		new: `	case !s.ReadAt.IsZero():
`,
		test: "./cmd/replicator TestLag", why: whyCommand,
	},
	{
		name: "what follows a shard that nobody listed is covered since that one was read", hazards: "H13", file: "cmd/replicator/shardstatus.go",
		old: `		return s.Covers(l.open[s.ID], l.state.Owed()), true, coveredHere
`,
		new: `		return s.DoneAt, true, coveredHere
`,
		test: "./cmd/replicator TestH13_Children", why: whyCommand,
	},
	{
		name: "the children of a trimmed parent are covered since it was given up", hazards: "H21", file: "cmd/replicator/shardstatus.go",
		old: `	case parent != nil && l.blocked(s) != nil:
		return time.Time{}, false, coveredUnknown // what`,
		new: `	case parent != nil && l.blocked(s) != nil && s.Owner != "":
		return time.Time{}, false, coveredUnknown // what`,
		test: "./cmd/replicator TestStatusAfterAGap", why: whyCommand,
	},
	{
		name: "a retry forgets the row that a parked change left", hazards: "H72", file: "sink/repair.go",
		old: `append(former, p.Change.Old, p.Change.New)`, new: `append(former, p.Change.New)`,
		test: "./cmd/replicator TestARetry", why: whyCommand,
	},
	{
		name: "a retry resolves the first of an item's records", hazards: "H38", file: "cmd/replicator/parkedretry.go",
		old: `		d.log.Info("a parked item is resolved by a retry", admin.KeyTable, record.Source, admin.KeyParked, string(record.ref))
	}
	return`,
		new: `		d.log.Info("a parked item is resolved by a retry", admin.KeyTable, record.Source, admin.KeyParked, string(record.ref))
		break
	}
	return`,
		test: "./cmd/replicator TestARetry", why: whyCommand,
	},
	{
		name: "a retry into another cluster is made", hazards: "H46", file: "cmd/replicator/parkedretry.go",
		old: `profile.Cluster != "" && profile.Cluster != known {`, new: `profile.Cluster == "" && profile.Cluster != known {`,
		test: "./cmd/replicator TestH46", why: whyCommand,
	},
	{
		name: "a retry reads whatever table has the name", hazards: "", file: "cmd/replicator/parkedretry.go",
		old: `	if err := pipeline.CheckSource(found.description, state.StreamARN); err != nil {
		return nil, explain(what, err)
	}
`,
		new: `	_ = pipeline.CheckSource(found.description, state.StreamARN)
`,
		test: "./cmd/replicator TestScripts/another_region", why: whyCommand,
	},
	{
		name: "what is wrong with a table of a pattern keeps the others from beginning", hazards: "", file: "cmd/replicator/probe.go",
		old: `defer func() { p.inFull, p.failed = inFull, failed }()`, new: `defer func() { p.inFull, _ = inFull, failed }()`,
		test: "./cmd/replicator TestScripts/patterns", why: whyCommand,
	},
	{
		name: "the app profile's cluster is not remembered", hazards: "H46", file: "cmd/replicator/probe.go",
		old: `	p.found.cluster = profile.Cluster
`,
		new:  ``,
		test: "./cmd/replicator TestH46", why: whyCommand,
	},
	{
		name: "families of kept versions may have any rule", hazards: "H51", file: "cmd/replicator/probe.go",
		old: `t.TTL.Expire == "gc" || t.KeepVersions || slices`, new: `t.TTL.Expire == "gc" || slices`,
		test: "./cmd/replicator TestChecksOf", why: whyCommand,
	},
	{
		name: "families of counters may have any rule", hazards: "H83", file: "cmd/replicator/probe.go",
		old: `					families[i].Check = sink.NoAge
`,
		new: `					families[i].Check = sink.Any
`,
		test: "./cmd/replicator TestChecksOf", why: whyCommand,
	},
	{
		name: "the laxer check of a family of two tables stands", hazards: "H83", file: "cmd/replicator/probe.go",
		old: `max(have[n].Check, f.Check)`, new: `min(have[n].Check, f.Check)`,
		test: "./cmd/replicator TestChecksOf", why: whyCommand,
	},
	{
		name: "credentials of a role are used up to their end", hazards: "", file: "cmd/replicator/connect.go",
		old:  `aws.NewCredentialsCache(stscreds.NewAssumeRoleProvider(sts.NewFromConfig(ac), cfg.Source.RoleARN), early)`,
		new:  `aws.NewCredentialsCache(stscreds.NewAssumeRoleProvider(sts.NewFromConfig(ac), cfg.Source.RoleARN))`,
		test: "./cmd/replicator TestCredentialsAreRenewed", why: whyCommand,
	},
	{
		name: "containers are asked for credentials without an end", hazards: "", file: "cmd/replicator/connect.go",
		old: `		awsconfig.WithEndpointCredentialOptions(func(o *endpointcreds.Options) { o.HTTPClient = bounded }),
`,
		new: `		awsconfig.WithEndpointCredentialOptions(func(o *endpointcreds.Options) { _ = o }),
`,
		test: "./cmd/replicator TestCredentialsAreWaited", why: whyCommand,
	},
}
