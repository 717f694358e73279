package main

// inFold are bugs in what a page becomes.
var inFold = []mutant{
	{
		name: "no hop", hazards: "H11", file: "transform/fold.go",
		old: `NewVersion(s.Generation, s.Hop, c.Sequence, CountExact)`, new: `NewVersion(s.Generation, 500_000, c.Sequence, CountExact)`,
	},
	{
		name: "load version above the stream's", hazards: "H31", file: "transform/fold.go",
		old: `NewVersion(generation, LoadHop,`, new: `NewVersion(generation, MaxHop,`,
	},
	{
		name: "version of an item's first change of a page", hazards: "H05", file: "transform/fold.go",
		old: `		h.newest, h.micros = i, latest
`,
		new: `		if h.newest, h.micros = min(h.newest, i), latest; !known {
			h.newest = i
		}
`,
	},
	{
		name: "version without the generation", hazards: "H24 H70", file: "transform/fold.go",
		old: `NewVersion(s.Generation, s.Hop, c.Sequence, CountExact)`, new: `NewVersion(1, s.Hop, c.Sequence, CountExact)`,
	},
	{
		name: "fold that keeps only the newest address", hazards: "H72", file: "transform/fold.go",
		old: `	if c.Old.Exists() {
		h.astray =`,
		new: `	if c.Old.Exists() && c.Event == cdc.Remove {
		h.astray =`,
	},
	{
		name: "fold that loses a remove", hazards: "H26", file: "transform/fold.go",
		old: `		c := &changes[h.newest]
`,
		new: `		c := &changes[h.newest]
		if c.Event == cdc.Remove && len(changes) > 1 {
			continue
		}
`,
	},
	{
		name: "addresses of a page beyond the second are forgotten", hazards: "H72", file: "transform/place.go",
		old: `	h.addresses = append(h.addresses, a)
`,
		new: `	if len(h.addresses) < 2 {
		h.addresses = append(h.addresses, a)
	}
`,
	},
	{
		name: "parked whole instead of put half", hazards: "H82", file: "transform/fold.go",
		old: `			b.Parked = append(b.Parked, b.Park(base, reason)) // and every address is removed: there is no own one
`,
		new: `			b.Parked = append(b.Parked, b.Park(base, reason))
			continue
`,
	},
	{
		name: "an item that cannot be mapped is passed over", hazards: "H38", file: "transform/fold.go",
		old: `			b.Parked = append(b.Parked, b.Park(base, reason)) // and every address is removed: there is no own one
`,
	},
	{
		name: "an item of a load that cannot be mapped is passed over", hazards: "H38", file: "transform/fold.go",
		old: `			b.Parked = append(b.Parked, b.Park(base, reasonOf(err)))
`,
		test: "./transform TestLoad|TestH38", why: "changes of the stream heal it soon",
	},
	{
		name: "cell times go back", hazards: "H07 H08", file: "transform/fold.go",
		old: `		latest = max(latest, cellTime(c.Time))
`,
		new: `		latest = cellTime(c.Time)
`,
	},
	{
		name: "missing old images are taken for none", hazards: "H62", file: "transform/fold.go",
		old: `	if c.Event != cdc.Insert && !c.Old.Exists() {
`,
		new: `	if c.Event > cdc.Remove {
`,
		test: "./transform TestH62", why: "a stream whose view does not suffice is not followed",
	},
}

// inEncoding are bugs in row keys, versions and cells. The simulation maps images with the very code it tests: row keys and values are held
// against what they must be by the tests of transform.
var inEncoding = []mutant{
	{
		name: "percent sign not escaped", hazards: "H37", file: "transform/rowkey.go",
		old: `c := s[i]; c == marker || c == '%' {`, new: `c := s[i]; c == marker {`,
		test: "./transform TestH37", why: "checkers map with the same code",
	},
	{
		name: "escape of the byte after the marker", hazards: "H37", file: "transform/rowkey.go",
		old: `			done = i + 1
`,
		new: `			done = min(i+2, len(s))
`,
		test: "./transform TestH37", why: "checkers map with the same code",
	},
	{
		name: "row keys too long are passed on", hazards: "H37", file: "transform/rowkey.go",
		old: `	case n > MaxRowKeyBytes:
`,
		new: `	case n > 2*MaxRowKeyBytes:
`,
		test: "./transform TestH37", why: "checkers map with the same code",
	},
	{
		name: "hop narrower than its numbers", hazards: "H11", file: "transform/version.go",
		old: `	b = appendPadded(b, uint64(hop), 6)
`,
		new: `	b = appendPadded(b, uint64(hop%100_000)+100_000, 6)
`,
	},
	{
		name: "a version out of range wraps around", hazards: "H11", file: "transform/version.go",
		old: `generation > MaxGeneration || hop > MaxHop ||`, new: ``,
		test: "./transform TestNewVersionPanics", why: "no generation of a run is that high",
	},
	{
		name: "binaries in JSON as text", hazards: "", file: "transform/encode.go",
		old: `		b = appendBase64(b, v.Text())
`,
		new: `		b = append(b, v.Text()...)
`,
		test: "./transform TestGolden|TestCells", why: "checkers map with the same code",
	},
	{
		name: "rows of one key in two tables are one row", hazards: "H72", file: "transform/place.go",
		old: ` && rows[i].Table == m.Table {`, new: ` {`,
		test: "./transform TestSeveralTargets", why: "swarms of two tables show it too",
	},
	{
		name: "every write goes to the first table", hazards: "", file: "transform/compile.go",
		old: `table: cmp.Or(spec.Table, c.spec.Table)`, new: `table: cmp.Or(c.spec.Table, spec.Table)`,
		test: "./transform TestSeveralTargets", why: "checkers map with the same code",
	},
}
