package sink

import (
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// A sweep removes what a generation inherited: rows of items that were deleted, moved or fell to
// another rule while the stream was not read. A load cannot find them, because it sees only what
// the source still holds.
//
// A suspect is an item version in a row that an older generation wrote. The item is read
// consistently, after the row. What it maps to now is put again, and the suspect is removed if that
// is not among it, all at the version of a load that read it at that moment. So every change of the
// stream in this generation beats the sweep, as it beats a load, and a late put of a load, which
// read earlier, does not bring back what the sweep removed. A suspect that was written has the
// present generation, as a row or a tombstone: the next pass finds it no more.
//
// Rows without a version are somebody's. Where row keys are bare identifiers every row of a
// neighbour looks like one of ours whose item is gone (H101): only in a table that is ours as a
// whole are they suspects.

// Sweeping says which rows of one target table are suspects. It is pure.
type Sweeping struct {
	Mapping *transform.Mapping
	// Former are the mappings that wrote rows of older generations, if others did. What they own is
	// deleted too (H102).
	Former []Former
	// Table is the target table.
	Table string
	// Generation is the one that is swept for: rows of an older one are suspects.
	Generation uint32
	// Doubted is the version of what was copied from a full export before its windows; empty: of
	// none. Rows at it are suspects, too: a change may lie between the two.
	Doubted transform.Version
	// Owned says that nobody else writes to the table: it was made or found empty by us, or is
	// declared to be ours. Rows without a version are suspects then.
	Owned bool
	// Shared says that another migration writes the table too: what does not name its origin may be
	// its. Nothing is Owned then.
	Shared bool
	// Written says that an application writes the table too, which is settled: rows that hold a
	// tombstone alone are suspects as well.
	Written bool
}

// Suspect is an item version in a row.
type Suspect struct {
	// Items are the primary keys of the items it may be of: one, unless two mappings explain the
	// row in two ways.
	Items []attribute.Item
	// Claim is the remove of all that those own there, at the version that the row holds.
	Claim transform.RowMutation
}

// SweepCounts is what a sweep found and did.
type SweepCounts struct {
	// Seen is how many rows were looked at, Suspects how many item versions in them.
	Seen     int64 `json:"seen"`
	Suspects int64 `json:"suspects,omitempty"`
	// Put and Removed are the rows that were written; in a dry run, those that would be.
	Put     int64 `json:"put,omitempty"`
	Removed int64 `json:"removed,omitempty"`
	// Bare are those of Put and Removed that had no version at two looks, while an application writes
	// the table too. They ask for no further pass.
	Bare int64 `json:"bare,omitempty"`
	// Left are suspects without an item that stay, because what the time to live removed does, and
	// those that hold a higher number than their item (transform.Rank), which repairs alone may lower.
	Left int64 `json:"left,omitempty"`
	// Unexplained are item versions of ours of which nothing says whose they are, or that cannot be
	// removed without what belongs to others.
	Unexplained int64 `json:"unexplained,omitempty"`
	// Units are the read capacity units that the items of suspects cost.
	Units float64 `json:"units,omitempty"`
}

// Add adds up.
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

// Wrote reports whether anything was written, so that another pass has to look.
func (c SweepCounts) Wrote() bool { return c.Put+c.Removed > c.Bare }

// Bare reports whether a row names no version of any item.
func Bare(row Row) bool {
	return !slices.ContainsFunc(marksOf(row), func(m mark) bool { return m.live != "" || m.gone != "" })
}

// Suspects are those of a row, of which the cells of our own families are enough, and how many item
// versions in it are unexplained. Tombstones are none, whatever their generation, because nothing is
// there; but where the application writes the target too, it may have written the row after it, for
// a change that was lost (H39). Nor are rows of other source tables suspects, and witnesses.
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
				suspect.Claim.Version = "" // the claim is on another version than the one that was found
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

// Share is what a row says of one item in it: a version, live or gone.
type Share struct {
	Suspect
	// Owner is the name of the version; empty if the row is one item's.
	Owner      string
	Live, Gone transform.Version
}

// Alive reports whether the item lives in the row.
func (s Share) Alive() bool { return s.Live != "" && s.Gone <= s.Live }

// Alive are the names of the versions that live in a row, in the order of its cells; empty is that
// of the row's one item.
func Alive(row Row) []string {
	var owners []string
	for _, m := range marksOf(row) {
		if m.live != "" && m.gone <= m.live {
			owners = append(owners, m.owner)
		}
	}
	return owners
}

// Shares explains every version in a row, live or gone, of whatever generation; Generation is not
// used. Strangers is how many are of other source tables; those of which nothing says whose they
// are have no items. Of a row that names no version but is ours (Owned) the shares are those that
// the row's key suggests, without versions.
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

// whose says to whom an item version belongs.
type whose uint8

const (
	others whose = iota
	ours
	unknown // ours, but nothing shows of which item
)

// suspect explains an item version of an older generation.
func (s Sweeping) suspect(row string, at mark) (Suspect, whose) {
	source, item, named := strings.Cut(at.origin, "/")
	switch {
	case named && source != s.Mapping.Source:
		return Suspect{}, others
	case !named && (s.Shared || s.named()):
		return Suspect{}, others // every row of ours would be named
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

// named reports whether every mapping that writes the table names the item in each row, because
// other source tables write there too.
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

// claim is the suspect of those candidates to whom a rule gives the row, under the version of the
// owner; false if there are none, or if what they own there may be others' by now.
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
			continue // not whole: the table was created anew with another key
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

// OwnAll makes a batch delete in its rows all that their items may have there, by whatever rule. A
// batch deletes what its images map to, and where changes were lost an image of another rule may
// stand in the row. Writes of the stream and of a load need that until the sweep is done: a row
// that has the present generation is no suspect. Writes in any order need it always.
func OwnAll(m *transform.Mapping, b *transform.Batch) {
	own(m, b, func(transform.RowMutation) bool { return true })
}

// OwnRemoved is OwnAll for what is removed. Removes need it always: a target that was set back or
// exchanged is noticed minutes later, and what a remove leaves in it by another rule stands under a
// tombstone, which is no suspect of any sweep.
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

// Range is the rows that can be the mappings'.
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

// mark is what a row says of the one item in it, or of one among several: versions, and the origin
// if it is named.
type mark struct {
	owner      string
	live, gone transform.Version
	origin     string
}

// marksOf are the marks in a row, in the order of its cells, each once. A row may have very many.
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

// Items are the items of suspects, each once.
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

// Settle decides what becomes of suspects whose items were read at readAt or later, after the rows:
// the batch to write. Found has all of Items. Repeating it, with whatever newer images, is as
// harmless as repeating a load. It is pure.
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
			counts.Left++ // no read reports whether it has expired, and a delete comes with the stream
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

// leaveHigher takes out of a batch what rows refuse that hold a higher number of the application's than
// their item (transform.Rank), and returns of how many suspects. Such an item is not put in its other
// rows for that: the load has put it, and no pass would be the last.
func (s Sweeping) leaveHigher(b *transform.Batch, suspects []Suspect) (left int64) {
	if s.Mapping.VersionAttribute() == "" {
		return 0
	}
	refused := func(row transform.RowMutation, by Suspect) bool {
		return addressOf(by.Claim).holds(row) && row.Version <= by.Claim.Version
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

// Split divides a range at some of the sampled keys, which are in order, into at most so many of
// about the same number of samples.
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
