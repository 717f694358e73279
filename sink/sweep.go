package sink

import (
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// A sweep removes outdated rows of earlier generations. The items of these rows were deleted,
// moved, or began to match another rule while the stream was not read. A load cannot find them,
// because it reads only items that the source still holds.
//
// A suspect is an item's version in a row that an older generation wrote. The item is read
// consistently, after the row. The rows to which the item now maps are put again. A suspect in any
// other row is removed. These puts and removes have the version of a load that read the item at
// that moment. So every change of the stream in this generation outranks the sweep, as it outranks
// a load. A late put of a load that read the item earlier does not restore a removed row. After the
// write, the suspect's row or tombstone has the current generation, so the next pass does not find
// it.
//
// Rows without a version may belong to another program. If row keys are plain identifiers, every
// row of another program looks like a row of a removed item (H101). So rows without a version are
// suspects only in a table to which no other program writes.

// Sweeping determines which rows of one target table are suspects. It is pure.
type Sweeping struct {
	Mapping *transform.Mapping
	// Former are the other mappings that wrote rows of older generations, if any. Their cells are
	// deleted too (H102).
	Former []Former
	// Table is the target table.
	Table string
	// Generation is the current generation. Rows of older generations are suspects.
	Generation uint32
	// Doubted is the version of rows copied from a full export before its windows; empty if there
	// are none. Such rows are suspects too, because a change may lie between the export and the
	// first window.
	Doubted transform.Version
	// Owned reports that no other program writes to the table. Either replicator created the table
	// or found it empty, or the configuration declares the table as owned. Then rows without a
	// version are suspects.
	Owned bool
	// Shared reports that another migration also writes the table. Rows that do not name their
	// origin may then belong to the other migration, so Owned must be false.
	Shared bool
	// Written reports that an application also writes the table. Then rows that hold only a
	// tombstone are suspects too.
	Written bool
}

// Suspect is an item version in a row.
type Suspect struct {
	// Items are the primary keys of the items to which the version may belong. There is one item,
	// unless two mappings explain the row differently.
	Items []attribute.Item
	// Claim removes all cells of these items in the row, at the version that the row holds.
	Claim transform.RowMutation
}

// SweepCounts counts the results of a sweep.
type SweepCounts struct {
	// Seen is how many rows were read, and Suspects how many suspects they hold.
	Seen     int64 `json:"seen"`
	Suspects int64 `json:"suspects,omitempty"`
	// Put and Removed count the rows that were written or, in a dry run, would be written.
	Put     int64 `json:"put,omitempty"`
	Removed int64 `json:"removed,omitempty"`
	// Bare counts the rows in Put and Removed that had no version in two reads, while an
	// application also writes the table. Such rows require no further pass.
	Bare int64 `json:"bare,omitempty"`
	// Left counts suspects that stay. Some have no item, and the mapping keeps expired items.
	// Others hold a higher number than their item (transform.Rank). Only repairs may lower that
	// number.
	Left int64 `json:"left,omitempty"`
	// Unexplained counts item versions that replicator wrote but whose item is unknown. It also
	// counts versions that cannot be removed without removing cells of other items.
	Unexplained int64 `json:"unexplained,omitempty"`
	// Units are the read capacity units consumed by reading the items of suspects.
	Units float64 `json:"units,omitempty"`
}

// Add adds the counts of o to c.
func (c *SweepCounts) Add(o SweepCounts) {
	c.Seen += o.Seen
	c.Suspects += o.Suspects
	c.Put += o.Put
	c.Removed += o.Removed
	c.Bare += o.Bare
	c.Left += o.Left
	c.Unexplained += o.Unexplained
	c.Units += o.Units
}

// Wrote reports whether rows were written that another pass must check.
func (c SweepCounts) Wrote() bool { return c.Put+c.Removed > c.Bare }

// Bare reports whether a row has no version of any item.
func Bare(row Row) bool {
	return !slices.ContainsFunc(marksOf(row), func(m mark) bool { return m.live != "" || m.gone != "" })
}

// Suspects returns the suspects in a row. The result `unexplained` is how many item versions in the
// row no mapping explains. It needs only the cells of replicator's families, not the data.
// Tombstones of any generation are not suspects, because they hold no data. However, if the
// application also writes the target, a row with only a tombstone is a suspect. The application may
// have written it after the tombstone, for a change that was lost (H39). Rows of other source
// tables and witnesses are never suspects.
func (s Sweeping) Suspects(row Row) (suspects []Suspect, unexplained int64) {
	if strings.HasPrefix(row.Key, transform.WitnessPrefix) {
		return nil, 0
	}
	marks := marksOf(row)
	if !slices.ContainsFunc(marks, func(m mark) bool { return m.live != "" || m.gone != "" }) {
		return s.unmarked(row, marks)
	}
	for _, m := range marks {
		held := max(m.live, m.gone)
		if m.live == "" && !s.Written {
			continue
		}
		if _, err := transform.ParseVersion(string(held)); err != nil {
			unexplained++
			continue
		}
		if held.Generation() >= s.Generation && (s.Doubted == "" || held.Position() != s.Doubted) {
			continue
		}
		switch suspect, whose := s.suspect(row.Key, m); whose {
		case ours:
			suspect.Claim.Version = held
			if n := slices.IndexFunc(marks, func(o mark) bool { return o.owner == suspect.Claim.Owner }); suspect.Claim.Alone {
				suspect.Claim.Version = "" // the claim's own version differs from the one found
				if n >= 0 {
					suspect.Claim.Version = max(marks[n].live, marks[n].gone)
				}
			}
			suspects = append(suspects, suspect)
		case unknown:
			unexplained++
		}
	}
	return suspects, unexplained
}

// Share is one item version in a row: live or a tombstone.
type Share struct {
	Suspect
	// Owner names the version; empty if the row belongs to one item.
	Owner      string
	Live, Gone transform.Version
}

// Alive reports whether the item is live in the row.
func (s Share) Alive() bool { return s.Live != "" && s.Gone <= s.Live }

// Alive returns the owners of the live versions in a row, in the order of its cells. The owner of
// the row's only item is empty.
func Alive(row Row) []string {
	var owners []string
	for _, m := range marksOf(row) {
		if m.live != "" && m.gone <= m.live {
			owners = append(owners, m.owner)
		}
	}
	return owners
}

// Shares explains every version in a row, live or a tombstone, of any generation. It does not use
// Generation. The result `strangers` is the number of versions that belong to other source tables.
// A share whose item is unknown has no items. In a table that is Owned, the shares of a row without
// a version follow from the row's key. Such shares have no versions.
func (s Sweeping) Shares(row Row) (shares []Share, strangers int) {
	if strings.HasPrefix(row.Key, transform.WitnessPrefix) {
		return nil, 1
	}
	marks := marksOf(row)
	marked := false
	for _, m := range marks {
		if m.live == "" && m.gone == "" {
			continue
		}
		marked = true
		switch suspect, whose := s.suspect(row.Key, m); whose {
		case others:
			strangers++
		default:
			shares = append(shares, Share{suspect, m.owner, m.live, m.gone})
		}
	}
	if !marked {
		suspects, _ := s.unmarked(row, marks)
		for _, suspect := range suspects {
			shares = append(shares, Share{Suspect: suspect, Owner: suspect.Claim.Owner})
		}
	}
	return shares, strangers
}

// whose determines the migration to which an item version belongs, and whether its item is known.
type whose uint8

const (
	others whose = iota
	ours
	unknown // this migration, but the item is unknown
)

// suspect explains an item version of an older generation.
func (s Sweeping) suspect(row string, at mark) (Suspect, whose) {
	source, item, named := strings.Cut(at.origin, "/")
	switch {
	case named && source != s.Mapping.Source:
		return Suspect{}, others
	case !named && (s.Shared || s.named()):
		return Suspect{}, others // every row of this migration would name its item
	}
	var candidates []attribute.Item
	for _, m := range s.mappings() {
		for _, name := range []string{at.owner, item} {
			if keys, ok := m.ParseItemKey(name); ok {
				candidates = append(candidates, keys)
			}
		}
		if at.owner == "" && (named || !m.Merged()) {
			candidates = append(candidates, m.ItemsOf(s.Table, row, true)...)
		}
	}
	if suspect, ok := s.claim(row, candidates, at.owner); ok {
		return suspect, ours
	}
	return Suspect{}, unknown
}

// named reports whether every mapping that writes the table stores the item's name in each row,
// because other source tables write to the table too.
func (s Sweeping) named() bool {
	return !slices.ContainsFunc(s.mappings(), func(m *transform.Mapping) bool {
		return !m.Merged() && slices.Contains(m.Tables(), s.Table)
	})
}

// unmarked explains a row without any version.
func (s Sweeping) unmarked(row Row, marks []mark) (suspects []Suspect, unexplained int64) {
	foreign := func(m mark) bool { return !strings.HasPrefix(m.origin, s.Mapping.Source+"/") }
	if !s.Owned || slices.ContainsFunc(marks, foreign) {
		return nil, 0
	}
	explained := false
	var owners []string
	var candidates []attribute.Item
	for _, m := range s.mappings() {
		for _, keys := range m.ItemsOf(s.Table, row.Key, false) {
			candidates = append(candidates, keys)
			for _, owner := range []string{"", m.ItemKey(keys)} {
				if !slices.Contains(owners, owner) {
					owners = append(owners, owner)
				}
			}
		}
	}
	for _, owner := range owners {
		if suspect, ok := s.claim(row.Key, candidates, owner); ok {
			suspects, explained = append(suspects, suspect), true
		}
	}
	if !explained && !s.named() {
		unexplained++
	}
	return suspects, unexplained
}

// claim returns the suspect for the owner's version. Its items are the candidates that a rule maps
// to the row. It returns false if there is no such candidate, or if the candidates' cells may now
// belong to other items.
func (s Sweeping) claim(row string, candidates []attribute.Item, owner string) (Suspect, bool) {
	if len(s.Former) > 0 {
		if sole, ok := s.Mapping.Sole(s.Table, row); ok {
			return s.soleClaim(row, candidates, sole)
		}
	}
	var suspect Suspect
	for _, keys := range candidates {
		name := s.Mapping.ItemKey(keys)
		if _, whole := s.Mapping.ParseItemKey(name); !whole || slices.ContainsFunc(suspect.Items, keys.Equal) || owner != "" && name != owner {
			continue // the key is incomplete, because the table was recreated with another key
		}
		claim, ok := s.Mapping.Claim(s.Table, row, keys, owner != "")
		for _, f := range s.Former {
			former, was := f.claim(s.Table, row, keys, owner != "")
			if was && s.Mapping.Contests(former.Without(claim)) {
				return Suspect{}, false
			}
			if was {
				claim = former.With(claim)
			}
			ok = ok || was
		}
		if !ok {
			continue
		}
		if suspect.Items = append(suspect.Items, keys); len(suspect.Items) > 1 {
			claim = suspect.Claim.With(claim)
		}
		suspect.Claim = claim
	}
	return suspect, len(suspect.Items) > 0
}

// OwnAll makes a batch delete all cells that its items may have in its rows under any rule. Without
// OwnAll, a batch deletes only cells to which its images map. If changes were lost, the row may
// also hold cells of another rule. Until the sweep is done, writes of the stream and of a load must
// call OwnAll, because the sweep does not examine a row of the current generation. Writes that have
// no defined order must always call it.
func OwnAll(m *transform.Mapping, b *transform.Batch) {
	own(m, b, func(transform.RowMutation) bool { return true })
}

// OwnRemoved does the same as OwnAll, but only for removes. Removes must always call it. A restored
// or replaced target is noticed only minutes later. Until then a remove could leave cells of
// another rule beside its tombstone, and a sweep does not examine tombstones.
func OwnRemoved(m *transform.Mapping, b *transform.Batch) {
	own(m, b, func(row transform.RowMutation) bool { return row.Remove })
}

func own(m *transform.Mapping, b *transform.Batch, of func(transform.RowMutation) bool) {
	if m.OneRule() {
		return
	}
	for i := range b.Rows {
		row := &b.Rows[i]
		if row.Keep || !of(*row) {
			continue
		}
		keys, ok := m.ParseItemKey(row.Item)
		if !ok {
			continue
		}
		if claim, ok := m.Claim(row.Table, row.Row, keys, row.Owner != ""); ok {
			rest := claim.Without(*row)
			row.Families, row.Columns = slices.Concat(row.Families, rest.Families), slices.Concat(row.Columns, rest.Columns)
		}
	}
}

func (s Sweeping) mappings() []*transform.Mapping {
	all := []*transform.Mapping{s.Mapping}
	for _, f := range s.Former {
		all = append(all, f.Mapping)
	}
	return all
}

// Range returns the range of rows that the mappings can write.
func (s Sweeping) Range() Range {
	common, first := "", true
	for _, m := range s.mappings() {
		switch prefix := m.RowPrefix(s.Table); {
		case !slices.Contains(m.Tables(), s.Table):
		case first:
			common, first = prefix, false
		default:
			common = transform.CommonPrefix(common, prefix)
		}
	}
	return Prefix(common)
}

// mark holds the versions of one item in a row, and its origin if the row names it.
type mark struct {
	owner      string
	live, gone transform.Version
	origin     string
}

// marksOf returns the marks in a row, in the order of its cells, each once. A row may have very
// many marks.
func marksOf(row Row) []mark {
	var marks []mark
	index := map[string]int{}
	of := func(owner string) *mark {
		n, known := index[owner]
		if !known {
			n = len(marks)
			index[owner] = n
			marks = append(marks, mark{owner: owner})
		}
		return &marks[n]
	}
	if row.Held() != "" {
		m := of("")
		m.live, m.gone = row.Version, row.Gone
	}
	for _, c := range row.Own {
		column, owner, _ := strings.Cut(c.Qualifier, ":")
		switch {
		case column == OriginColumn && c.Family == LiveFamily:
			of(owner).origin = string(c.Value)
		case column != VersionColumn || owner == "":
		case c.Family == LiveFamily:
			of(owner).live = max(of(owner).live, transform.Version(c.Value))
		default:
			of(owner).gone = max(of(owner).gone, transform.Version(c.Value))
		}
	}
	return marks
}

// Items returns the items of suspects, each once.
func Items(m *transform.Mapping, suspects []Suspect) []attribute.Item {
	var items []attribute.Item
	known := map[string]bool{}
	for _, s := range suspects {
		for _, keys := range s.Items {
			if name := m.ItemKey(keys); !known[name] {
				known[name] = true
				items = append(items, keys)
			}
		}
	}
	return items
}

// Settle returns the batch to write for suspects. Their items must have been read at `readAt` or
// later, after the rows. The argument `found` must contain every item that Items returned. Writing
// the batch again, even one made from newer images, is as harmless as repeating a load. It is pure.
func (s Sweeping) Settle(suspects []Suspect, found []transform.Found, readAt time.Time) (transform.Batch, SweepCounts) {
	absent := map[string]bool{}
	for _, f := range found {
		absent[s.Mapping.ItemKey(f.Keys)] = !f.Image.Exists()
	}
	counts := SweepCounts{Suspects: int64(len(suspects))}
	var claims []transform.RowMutation
	for _, suspect := range suspects {
		gone := func(keys attribute.Item) bool { return absent[s.Mapping.ItemKey(keys)] }
		if s.Mapping.Outlives() && slices.ContainsFunc(suspect.Items, gone) {
			counts.Left++ // no read shows whether the item has expired; the stream delivers a delete
			continue
		}
		claims = append(claims, suspect.Claim)
	}
	b := transform.Sweep(s.Mapping, found, claims, s.Generation, readAt)
	counts.Left += s.leaveHigher(&b, suspects)
	for i := range b.Rows {
		if b.Rows[i].Remove {
			counts.Removed++
		} else {
			counts.Put++
		}
	}
	return b, counts
}

// leaveHigher removes mutations from a batch if their rows would refuse them. Such a row holds a
// higher number of the application than its item (transform.Rank). It returns the number of
// suspects of the removed mutations. If one row of an item holds a higher number, it also removes
// the item's puts into other rows. The load has already written those rows. If each pass of the
// sweep wrote them again, the sweep would never end.
func (s Sweeping) leaveHigher(b *transform.Batch, suspects []Suspect) (left int64) {
	if s.Mapping.VersionAttribute() == "" {
		return 0
	}
	refused := func(row transform.RowMutation, by Suspect) bool {
		return addressOf(by.Claim).holds(row) && row.Version <= by.Claim.Version && raised(row.Version, by.Claim.Version) == ""
	}
	written := map[string]bool{} // items of other suspects
	for _, suspect := range suspects {
		if slices.ContainsFunc(b.Rows, func(row transform.RowMutation) bool { return refused(row, suspect) }) {
			left++
			continue
		}
		for _, keys := range suspect.Items {
			written[s.Mapping.ItemKey(keys)] = true
		}
	}
	b.Rows = slices.DeleteFunc(b.Rows, func(row transform.RowMutation) bool {
		return !row.Remove && !written[row.Item] || slices.ContainsFunc(suspects, func(by Suspect) bool { return refused(row, by) })
	})
	return left
}

// Split divides a range at some of the samples, which must be sorted keys, into at most `most`
// ranges. Each range has about the same number of samples.
func Split(r Range, samples []string, most int) []Range {
	inside := slices.DeleteFunc(slices.Clone(samples), func(key string) bool { return key <= r.From || r.To != "" && key >= r.To })
	inside = slices.Compact(inside)
	n := max(1, min(most, len(inside)+1))
	ranges := make([]Range, 0, n)
	from := r.From
	for i := 1; i < n; i++ {
		at := inside[i*len(inside)/n]
		ranges = append(ranges, Range{from, at})
		from = at
	}
	return append(ranges, Range{from, r.To})
}
