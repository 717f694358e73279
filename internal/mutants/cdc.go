package main

// inStream are bugs in reading the stream's own answers: the real client alone, which the simulation replaces.
var inStream = []mutant{
	{
		name: "iterator latest on restart", hazards: "H09", file: "cdc/dynamodbstreams.go",
		old: `types.ShardIteratorTypeAfterSequenceNumber`, new: `types.ShardIteratorTypeLatest`,
		test: "./cdc TestSeekAsksForThePosition|TestConformance", why: "only the real client names a type of iterator",
	},
	{
		name: "position included when seeking", hazards: "H09", file: "cdc/dynamodbstreams.go",
		old: `types.ShardIteratorTypeAfterSequenceNumber`, new: `types.ShardIteratorTypeAtSequenceNumber`,
		test: "./cdc TestSeekAsksForThePosition|TestConformance", why: "only the real client names a type of iterator",
	},
	{
		name: "an empty answer is the end of a shard", hazards: "H18", file: "cdc/dynamodbstreams.go",
		old: `out == nil || out.Records == nil && out.NextShardIterator == nil`, new: `out == nil`,
		test: "./cdc TestReadRefusesWhatIsNoAnswer", why: "the model gives no broken answers",
	},
	{
		name: "values of unknown type are misread", hazards: "", file: "cdc/strict.go",
		old: `	case begins && member == nil:
		err = &unclearAnswer{"a value of unknown type" + d.place()}
`,
		test: "./cdc TestReadRefusesUnknownTypes", why: "the model has no wire",
	},
	{
		name: "an error inside a list is its end", hazards: "", file: "cdc/strict.go",
		old: `	if err != nil && d.lost == nil {
		d.lost = err
	}
`,
		test: "./cdc TestAnErrorInAListIsNotItsEnd", why: "the model has no wire",
	},
}

// inListing are bugs in making a listing of its pages.
var inListing = []mutant{
	{
		name: "first page of a listing alone", hazards: "H15", file: "cdc/listing.go",
		old: `	if l.after == "" {
		l.whole = true
`,
		new: `	if l.after == "" || len(l.shards) > 0 {
		l.whole = true
`,
	},
	{
		name: "a listing that does not end is taken for whole", hazards: "H15", file: "cdc/listing.go",
		old: `		return false, l.anew(fmt.Errorf("the listing does not end; %d shards until here", len(l.shards)))
`,
		new: `		l.whole = true
		return true, nil
`,
		test: "./cdc TestListIsWholeOrNothing", why: "a page must be repeated four times, and the next listing is whole",
	},
	{
		name: "a page that fails takes those before with it", hazards: "H53", file: "cdc/listing.go",
		old: `	case err != nil && (passing || l.after == ""):
		return false, err
`,
		new: `	case err != nil && (passing || l.after == ""):
		l.begin()
		return false, err
`,
		test: "./internal/pipeline TestH53_LongListing", why: "the model's listings have few pages",
	},
	{
		name: "a page that is refused is asked for again and again", hazards: "H53", file: "cdc/listing.go",
		old: `	case err != nil:
		return false, l.anew(`,
		new: `	case err != nil:
		return false, (&Lister{}).anew(`,
		test: "./internal/pipeline TestListingThatBeginsAnew", why: "the seat is left to another keeper, which begins anew",
	},
	{
		name: "long listings without a pause", hazards: "H53", file: "cdc/listing.go",
		old: `	if l.pages >= hastyPages {
`,
		new: `	if l.pages >= maxListingPages {
`,
		test: "./internal/pipeline TestH53_LongListing", why: "the model throttles by chance",
	},
	{
		name: "a listing is of its last page's time", hazards: "H75", file: "cdc/listing.go",
		old: `	if l.pages == 0 {
`,
		new: `	if l.pages >= 0 {
`,
	},
}

// inReader are bugs in following one shard.
var inReader = []mutant{
	{
		name: "numbers as text", hazards: "H10", file: "cdc/sequence.go",
		old: `cmp.Compare(len(a), len(b)); c != 0 {`,
		new: `cmp.Compare(len(a), len(b)); c != 0 && (a == "" || b == "") {`,
	},
	{
		name: "numbers lose the zeros they begin with", hazards: "H10", file: "cdc/sequence.go",
		old: `[]byte(s.text), nil`, new: `[]byte(s.digits()), nil`,
	},
	{
		name: "expired iterator from the start", hazards: "H19 H20", file: "cdc/reader.go",
		old: `	if Is(err, Expired) {
		page, err = r.read(ctx, applied)
`,
		new: `	if Is(err, Expired) {
		page, err = r.read(ctx, Position{})
`,
		test: "./cdc TestH19H20", why: "what is given again is left out; only a trim in between would lose it",
	},
	{
		name: "expired iterator is the end", hazards: "H19 H20", file: "cdc/reader.go",
		old: `	if Is(err, Expired) {
		page, err = r.read(ctx, applied)
`,
		new: `	if Is(err, Expired) {
		page, err = Page{End: true}, nil
`,
	},
	{
		name: "an iterator is used wherever it stands", hazards: "H01", file: "cdc/reader.go",
		old: `r.iterator == "" || r.at != applied`, new: `r.iterator == ""`,
		test: "./cdc TestReader|TestPassing", why: "the loop asks for another position only after it made a new reader",
	},
	{
		name: "no covered_to", hazards: "H75", file: "cdc/reader.go",
		old: "	if r.Covered.IsZero() {\n", new: "	if !now.IsZero() {\n",
		test: "./internal/sim TestH75_Horizon", why: "about a hundred seeds of the swarm find it",
	},
	{
		name: "horizon judged before the read alone", hazards: "H75", file: "cdc/reader.go",
		old: `err == nil && r.fresh && applied.AtHorizon()`, new: `err == nil && r.fresh && applied.AtHorizon() && false`,
		test: "./cdc TestH75", why: "a worker must stand still between two calls, within minutes of the horizon",
	},
	{
		name: "horizon judged by the worker's clock alone", hazards: "H64 H75", file: "cdc/reader.go",
		old: `		if page.At.After(now) {
			now = page.At
		}
`,
		test: "./cdc TestH75", why: "a clock must be wrong within minutes of the horizon",
	},
	{
		name: "a trim under an iterator of the horizon is a gap", hazards: "H21", file: "cdc/reader.go",
		old: `applied.AtHorizon() && Is(err, Trimmed)`, new: `applied.AtHorizon() && Is(err, Trimmed) && false`,
		test: "./cdc TestH21", why: "nothing is lost by a gap too many",
	},
	{
		name: "whatever is trimmed is sought again", hazards: "H21", file: "cdc/reader.go",
		old: `applied.AtHorizon() && Is(err, Trimmed)`, new: `Is(err, Trimmed)`,
		test: "./cdc TestH21", why: "the next seek tells what the read did not",
	},
	{
		name: "a root's reader claims nothing of what its first page saw", hazards: "H75", file: "cdc/reader.go",
		old:  "	r.claim(ctx, page)\n",
		test: "./cdc TestH75", why: "it takes a day of throttles under one lease",
	},
	{
		name: "margin of the horizon on its wrong side", hazards: "H75", file: "cdc/reader.go",
		old: `age > Retention-HorizonMargin`, new: `age > Retention+12*HorizonMargin`,
		test: "./cdc TestH75", why: "it takes outages of a day, timed to minutes",
	},
	{
		name: "pages that go back are taken", hazards: "H01", file: "cdc/reader.go",
		old: `		if i > 0 && c.Sequence.Compare(page.Changes[i-1].Sequence) <= 0 {
`,
		new: `		if i > len(page.Changes) {
`,
		test: "./cdc TestReaderRefusesPagesOutOfOrder", why: "the model keeps the order of a shard, as the service promises",
	},
}

// inLineage are bugs in ranking shards.
var inLineage = []mutant{
	{
		name: "child ranked like its parent", hazards: "H11", file: "cdc/lineage.go",
		old: `		f.settle(id, above+1)
`,
		new: `		f.settle(id, above)
`,
		test: "./cdc TestPlace|TestH66", why: "a take ranks it again above its parent",
	},
	{
		name: "hop from zero for late ancestors", hazards: "H66", file: "cdc/lineage.go",
		old: `		f.settle(id, ceiling)
`,
		new: `		f.settle(id, RootHop)
`,
		test: "./cdc TestPlace|TestH66", why: "a lineage must be listed from its middle, with room",
	},
	{
		name: "late ancestor ranked like its child", hazards: "H66", file: "cdc/lineage.go",
		old: `min(ceiling, below-1)`, new: `min(ceiling, below)`,
	},
	{
		name: "orphan ranked as a root", hazards: "H76", file: "cdc/lineage.go",
		old: `		f.settle(id, f.highest+2)
`,
		new: `		f.settle(id, RootHop)
`,
	},
	{
		name: "orphan without a gap", hazards: "H76", file: "cdc/lineage.go",
		old: `		if !f.first { // what was trimmed before we came is the load's business
			f.report(id, UnknownParent)
		}
`,
		test: "./cdc TestPlace", why: "an orphan whose parent is listed after all loses nothing",
	},
	{
		name: "descendants of an orphan are never placed", hazards: "H76", file: "cdc/lineage.go",
		old: `		f.placeBelow(id)
	}
	return f.placed, f.orphans
`,
		new: `	}
	return f.placed, f.orphans
`,
		test: "./cdc TestPlace", why: "they are listed again, and then their parent is known",
	},
	{
		name: "a known shard is ranked anew", hazards: "H66", file: "cdc/lineage.go",
		old: `		f.hop[n.ID] = int(n.Hop)
		f.highest`,
		new: `		f.hop[n.ID] = RootHop
		f.highest`,
		test: "./cdc TestPlace|TestH66", why: "a take ranks it again above its parent",
	},
}
