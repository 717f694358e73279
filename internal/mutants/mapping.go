package main

// inOwnership are bugs in what an item takes for its own of a row that it may share, and under which version.
var inOwnership = []mutant{
	{
		name: "an item of a shared row deletes the family", hazards: "H74", file: "sink/guard.go",
		old: `Op{Kind: DeleteColumn, Family: column.Family, Qualifier: column.Qualifier}`, new: `Op{Kind: DeleteFamily, Family: column.Family}`,
	},
	{
		name: "an item of a shared row deletes no column", hazards: "H74", file: "sink/guard.go",
		old: `	for _, column := range m.Columns {
`,
		new: `	for _, column := range m.Columns[:0] {
`,
	},
	{
		name: "the column of the item's other row is deleted", hazards: "H74", file: "transform/place.go",
		old: `[]Column{{a.w.family, a.qualifier}}`, new: `[]Column{{h.addresses[0].w.family, h.addresses[0].qualifier}}`,
	},
	{
		name: "a family that two rules write is one's own", hazards: "H74", file: "transform/ownership.go",
		old: `			if !shared[w.write][family] {
`,
		new: `			if !shared[w.write][family] || w.targets != nil {
`,
	},
	{
		name: "columns by name are not owned", hazards: "H74", file: "transform/ownership.go",
		old: `				if !t.drop && t.family == family {
					w.columns`,
		new: `				if t.drop && t.family == family {
					w.columns`,
	},
	{
		name: "a family of its own is not owned", hazards: "H74", file: "transform/ownership.go",
		old: `				w.families = append(w.families, family)
				continue
`,
		new: `				if w.families = append(w.families, family); len(w.families) > 1 {
					w.families = w.families[:1]
				}
				continue
`,
	},
	{
		name: "items of a row share one version", hazards: "H74", file: "transform/place.go",
		old: `			mutation.Owner = h.item
`,
		new: `			mutation.Owner = a.row
`,
	},
	{
		name: "a folded item has the row's version", hazards: "H74", file: "transform/ownership.go",
		old: `		if w.folded {
			w.ownVersion = true
`,
		new: `		if w.folded {
			w.ownVersion = false
`,
	},
	{
		name: "rules of other items of a row have its one version", hazards: "H74", file: "transform/ownership.go",
		old: `		w.ownVersion = w.ownVersion || versions
`,
		new: `		w.ownVersion = w.ownVersion && (versions || w.folded)
`,
	},
	{
		name: "a folded item is refused by the row's version", hazards: "H74", file: "sink/guard.go",
		old: `Qualifier: itemColumn(VersionColumn, m.Owner), AtLeast: m.Version}`, new: `Qualifier: VersionColumn, AtLeast: m.Version}`,
	},
	{
		name: "items of a row share one tombstone", hazards: "H74", file: "sink/guard.go",
		old: `Op{Kind: SetCell, Family: GoneFamily, Qualifier: column, Timestamp: ServerTime`, new: `Op{Kind: SetCell, Family: GoneFamily, Qualifier: VersionColumn, Timestamp: ServerTime`,
	},
	{
		name: "a row does not say whose it is", hazards: "", file: "sink/guard.go",
		old: `	if m.Origin != "" {
		ops = append(ops, Op{Kind: SetCell`,
		new: `	if m.Origin == "?" {
		ops = append(ops, Op{Kind: SetCell`,
	},
	{
		name: "a row says whose it was", hazards: "", file: "sink/guard.go",
		old: `			Op{Kind: DeleteColumn, Family: LiveFamily, Qualifier: origin}, // set by another rule, perhaps
`,
	},
	{
		name: "a row says whose it was, if its last rule does not say it", hazards: "", file: "sink/guard.go",
		old: `Op{Kind: DeleteColumn, Family: LiveFamily, Qualifier: origin}, // set`, new: `Op{Kind: DeleteColumn, Family: LiveFamily, Qualifier: map[bool]string{true: column, false: origin}[m.Origin == ""]}, // set`,
		test: "./sink TestH43_H51_GuardExactly", why: "of the simulation's mappings one has two such rules of one row",
	},
	{
		name: "the first of two rules says whether a row says whose it is", hazards: "", file: "transform/place.go",
		old: `cmp.Or(into.Origin, m.Origin)`, new: `into.Origin`,
	},
	{
		name: "rows of rules do not say whose they are", hazards: "", file: "transform/check.go",
		old: `w.origin = !w.folded && !c.plain(w.write) || c.spec.Merged`, new: `w.origin = c.spec.Merged`,
		test: "./transform TestOwnershipOfSharedRows", why: "the checker asks the mapping which rows have to",
	},
	{
		name: "predicate looks at all columns from its own on", hazards: "H74", file: "sink/bigtable.go",
		old: `only(family, p.Qualifier)`, new: `bigtable.ColumnRangeFilter(family, p.Qualifier, "")`,
		test: "./sink TestH74", why: "only the real client makes the request",
	},
	{
		name: "predicate looks at all columns up to its own", hazards: "H74", file: "sink/bigtable.go",
		old: `only(family, p.Qualifier)`, new: `bigtable.ColumnRangeFilter(family, "", p.Qualifier+"\x00")`,
		test: "./sink TestH74", why: "only the real client makes the request",
	},
}

// inMoves are bugs in what an item leaves behind when it goes from row to row, or from rule to rule.
var inMoves = []mutant{
	{
		name: "the row that an item left is looked for by its new image", hazards: "H72", file: "transform/fold.go",
		old: `h.add(m, s, c.Old, i, false)`, new: `h.add(m, s, c.New, i, false)`,
	},
	{
		name: "the rule of the new image decides for the old one", hazards: "H72", file: "transform/fold.go",
		old: `		h.astray = h.add(m, s, c.Old, i, false) != nil || h.astray
`,
		new: `		one := *m
		if r := m.match(c.New); c.New.Exists() && r != nil {
			one.rules = []*rule{r}
		}
		h.astray = h.add(&one, s, c.Old, i, false) != nil || h.astray
`,
	},
	{
		name: "an item that is ignored from now on stays", hazards: "H72", file: "transform/fold.go",
		old: `		first := len(b.Rows)
`,
		new: `		first := len(b.Rows)
		if h.rule != nil && h.rule.ignore {
			continue
		}
`,
	},
	{
		name: "of two rows the second is not left", hazards: "H72", file: "transform/place.go",
		old: `		h.addAddress(w, s, change, current)
`,
		new: `		if current || w == r.writes[0] {
			h.addAddress(w, s, change, current)
		}
`,
	},
	{
		name: "of two rows only the first is written", hazards: "H72", file: "transform/place.go",
		old: `	for _, w := range r.writes {
`,
		new: `	for _, w := range r.writes[:min(1, len(r.writes))] {
`,
	},
	{
		name: "a row that two rules share is removed by the one that left", hazards: "H72", file: "transform/place.go",
		old: `into.Remove = into.Remove && m.Remove`, new: `into.Remove = into.Remove || m.Remove`,
	},
	{
		name: "what the rule before wrote into the same row stays", hazards: "H72", file: "transform/place.go",
		old: `into.Families = union(into.Families, m.Families)`, new: `into.Families = m.Families`,
	},
	{
		name: "of two rules of one row the later one's cells are dropped", hazards: "H72", file: "transform/place.go",
		old: `into.Cells = slices.Concat(into.Cells, m.Cells)`, new: `into.Cells = slices.Concat(into.Cells, m.Cells[:0])`,
	},
	{
		name: "an address that comes back is left all the same", hazards: "H72", file: "transform/place.go",
		old: `			if current {
				a.change = change
			}
			return
`,
		new: `			return
`,
	},
}

// inRules are bugs in which rule decides, and in what it says.
var inRules = []mutant{
	{
		name: "the last rule that matches decides", hazards: "", file: "transform/place.go",
		old: `	for _, r := range m.rules {
`,
		new: `	for i := len(m.rules) - 1; i >= 0; i-- {
		r := m.rules[i]
`,
	},
	{
		name: "an ignored item goes to the next rule", hazards: "", file: "transform/place.go",
		old: `if r.when == nil || r.when.Match(item) {`, new: `if !r.ignore && (r.when == nil || r.when.Match(item)) {`,
	},
	{
		name: "a folded item keeps dropped attributes", hazards: "", file: "transform/encoding.go",
		old: `			} else if c.w.find(attribute.Name) != nil {
`,
		new: `			} else if c.w.find(attribute.Name) == nil && false {
`,
	},
	{
		name: "a folded item has all attributes", hazards: "", file: "transform/encoding.go",
		old: `_, ok := slices.BinarySearch(c.w.only, attribute.Name); !ok {`, new: `_, ok := slices.BinarySearch(c.w.only, attribute.Name); !ok && len(c.w.only) == 0 {`,
	},
	{
		name: "members of sets have no value", hazards: "", file: "transform/encoding.go",
		old: `			c.bytes = append(c.bytes, t.value...)
`,
		new:  ``,
		test: "./internal/sim TestEveryMappingFoldsAsOneByOne/^sets$", why: "few seeds have that mapping",
	},
	{
		name: "dots in names of members are not escaped", hazards: "H37", file: "transform/encoding.go",
		old: `name := below(prefix, string(appendEscaped(nil, m.Name, '.')))`, new: `name := below(prefix, m.Name)`,
		test: "./internal/sim TestEveryMappingFoldsAsOneByOne/^maps$", why: "few seeds have that mapping",
	},
	{
		name: "elements of a list have one time", hazards: "", file: "transform/encoding.go",
		old: `return int64(i+1) * 1000`, new: `return 1000`,
		test: "./internal/sim TestEveryMappingFoldsAsOneByOne/^lists$", why: "few seeds have that mapping",
	},
}

// inCounters are bugs in aggregates, and in the stamps by which cells expire.
var inCounters = []mutant{
	{
		name: "counters add up", hazards: "", file: "sink/guard.go",
		old: `				ops = append(ops, Op{Kind: DeleteColumn, Family: c.Family, Qualifier: c.Qualifier})
`,
		new: `				for i := range ops { // nor is the family emptied
					if ops[i].Kind == DeleteFamily && ops[i].Family == c.Family {
						ops[i] = Op{Kind: DeleteColumn, Family: c.Family}
					}
				}
`,
	},
	{
		name: "a counter is set and not added", hazards: "", file: "sink/guard.go",
		old: `		op.Kind = AddToCell
`,
		new: `		op.Kind = SetCell
`,
	},
	{
		name: "a counter's cell has the time of its change", hazards: "", file: "transform/encoding.go",
		old: `		cell.Timestamp = 0 // one cell for the total, whoever adds to it when
`,
		new: ``,
	},
	{
		name: "a counter is emptied after it was set", hazards: "", file: "sink/guard.go",
		old: `				ops = append(ops, Op{Kind: DeleteColumn, Family: c.Family, Qualifier: c.Qualifier})
			}
			ops = append(ops, setting(c))
`,
		new: `				ops = append(ops, setting(c))
				c.Add, c.Value = true, make([]byte, 8)
			}
			ops = append(ops, setting(c), Op{Kind: DeleteColumn, Family: c.Family, Qualifier: c.Qualifier + "?"})
			if c.Add {
				ops = append(ops, Op{Kind: DeleteColumn, Family: c.Family, Qualifier: c.Qualifier})
			}
`,
	},
	{
		name: "the age of the family is not subtracted from the expiry", hazards: "H83", file: "transform/encoding.go",
		old: `c.expires-c.w.ages[family].Microseconds()`, new: `c.expires`,
	},
	{
		name: "the age of another family is subtracted from the expiry", hazards: "H83", file: "transform/encoding.go",
		old: `c.w.ages[family]`, new: `c.w.ages[c.w.written()[0]]`,
	},
	{
		name: "cells that are to expire have the time of their change", hazards: "H83", file: "transform/encoding.go",
		old: `	if c.expires == 0 {
`,
		new: `	if c.expires != never {
`,
	},
	{
		name: "cells that never expire have the time of their change", hazards: "H83", file: "transform/encoding.go",
		old: `	if c.expires == never {
		return never
`,
		new: `	if c.expires == never {
		return c.micros
`,
	},
	{
		name: "a time to live long past counts", hazards: "H83", file: "transform/encoding.go",
		old: ` || n < written.Add(-staleTTL).Unix() {`, new: ` || written.IsZero() {`,
	},
	{
		name: "a put leaves cells that expire later", hazards: "H83", file: "sink/guard.go",
		old: `	for _, family := range m.Families {
`,
		new: `	for _, family := range m.Families[:len(m.Families)/2] {
`,
	},
}

// inTemplates are bugs in row keys and in the columns of cells.
var inTemplates = []mutant{
	{
		name: "a delimiter in a value is not escaped", hazards: "H37", file: "transform/rowkey.go",
		old: `b = appendEscaped(b, v.Text(), p.escaped)`, new: `b = append(b, v.Text()...)`,
	},
	{
		name: "a delimiter that a function leaves is not escaped", hazards: "H37", file: "transform/rowkey.go",
		old: `b = appendEscaped(b, text, p.escaped)`, new: `b = append(b, text...)`,
	},
	{
		name: "the last part is escaped", hazards: "H37", file: "transform/template.go",
		old: `if p := &t.parts[i]; p.Attribute != "" && i < len(t.parts)-1 {`, new: `if p := &t.parts[i]; p.Attribute != "" {`,
	},
	{
		name: "numbers are padded to one digit too few", hazards: "H37", file: "transform/function.go",
		old: `zeros[:c.Number-len(digits)] + digits}`, new: `zeros[:max(0, c.Number-len(digits)-1)] + digits}`,
	},
	{
		name: "numbers that are too long for their pad are passed on", hazards: "H37", file: "transform/function.go",
		old: `	if len(digits) > c.Number {
		return refuse("a number of %d digits does not fit", len(digits))
	}
	return scalar{cdc.KindS, zeros[:c.Number-len(digits)] + digits}, nil`,
		new: `	return scalar{cdc.KindS, zeros[:max(0, c.Number-len(digits))] + digits}, nil`,
	},
	{
		name: "newest first by tens' complements", hazards: "H37", file: "transform/function.go",
		old: `b[i] = '0' + '9' - b[i]`, new: `b[i] = '0' + ('0'+10-b[i])%10`,
	},
	{
		name: "dates in the zone that the value names", hazards: "", file: "transform/instant.go",
		old: `at, found = t.UTC(), true`, new: `at, found = t, true`,
	},
	{
		name: "what an absent attribute stands for is written beside its value", hazards: "", file: "transform/rowkey.go",
		old: `s, calls = scalar{cdc.KindS, calls[n].Text}, calls[n+1:]`, new: `s, calls = scalar{cdc.KindS, calls[n].Text + "?"}, calls[n+1:]`,
	},
}
