package checkpoint

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Mapping is what the ledger keeps of the mapping that a worker was started with.
type Mapping struct {
	// Hash identifies it.
	Hash string
	// Text is what it can be made from again; "" is none.
	Text string
	// Tables are its target tables, its own first.
	Tables []string
	// Strange says that a target table which no mapping before this one wrote holds rows that
	// nobody accounts for.
	Strange bool
}

// Former is a mapping that was replaced, from then until a sweep has found nothing that it wrote
// (H102).
type Former struct {
	Hash string `json:"hash"`
	// Text is its source text. It is "" if it is too long, or was replaced before the ledger
	// recorded it; then its rows and columns cannot be found.
	Text   string   `json:"text,omitempty"`
	Tables []string `json:"targets,omitempty"`
	// Generation is the last that began under it; At is when it was replaced, on the worker's clock.
	Generation uint32    `json:"generation"`
	At         time.Time `json:"at,omitzero"`
	// Gone are those of its target tables that no longer existed when the sweep began.
	Gone []string `json:"gone,omitempty"`
	// Contested reports that cells of it remain, because other items may now have cells in the same
	// places.
	Contested bool `json:"contested,omitempty"`
}

const (
	// MaxFormer is how many mappings may have been replaced, one after the other, before a sweep
	// was over.
	MaxFormer = 8
	// maxMappingText bounds what is kept of one, in bytes: every pass of every worker reads it.
	maxMappingText = 64 << 10
)

// ErrManyMappings is returned for another change of the mapping while so many are not swept yet.
var ErrManyMappings = errors.New("too many mappings were replaced before a sweep was complete")

// know keeps what the present mapping can be made from again, once it is the ledger's.
func (s *TableState) know(m Mapping) {
	if m.Text == "" || len(m.Text) > maxMappingText {
		return
	}
	s.Mapping, s.Targets = m.Text, m.Tables
}

// replace makes m the table's mapping, and remembers the one before, unless it is m again.
func (s *TableState) replace(m Mapping, at time.Time) error {
	if s.MappingHash == m.Hash {
		return nil
	}
	known := func(f Former) bool { return f.Hash == s.MappingHash }
	former := slices.DeleteFunc(slices.Clone(s.Former), func(f Former) bool { return f.Hash == m.Hash || known(f) && f.Text == "" })
	if !slices.ContainsFunc(former, known) {
		former = append(former, Former{Hash: s.MappingHash, Text: s.Mapping, Tables: s.Targets, Generation: s.Generation, At: at.UTC()})
	}
	if len(former) > MaxFormer {
		return fmt.Errorf("%w: %d", ErrManyMappings, len(former)-1)
	}
	s.Former = former
	s.moveWitnesses(m.Tables)
	s.MadeByUs = s.MadeByUs && !m.Strange
	s.MappingHash, s.Mapping, s.Targets = m.Hash, "", nil
	s.know(m)
	return nil
}

// moveWitnesses keeps what is known of the witness of each target table where the first of them is
// another one.
func (s *TableState) moveWitnesses(tables []string) {
	if len(s.Targets) == 0 || len(tables) == 0 || s.Targets[0] == tables[0] {
		return
	}
	beats := maps.Clone(s.WitnessBeats)
	if beats == nil {
		beats = map[string]uint64{}
	}
	if s.WitnessBeat > 0 {
		beats[s.Targets[0]] = s.WitnessBeat
	}
	s.WitnessBeat = beats[tables[0]]
	delete(beats, tables[0])
	s.WitnessBeats = beats
}

// FormerTables are the target tables of former mappings that the present one does not write, in
// order.
func (s TableState) FormerTables() []string {
	var tables []string
	for _, f := range s.Former {
		for _, table := range f.Tables {
			if !slices.Contains(s.Targets, table) {
				tables = append(tables, table)
			}
		}
	}
	slices.Sort(tables)
	return slices.Compact(tables)
}

// unattributed says why nobody can find all that former mappings wrote; "" if a sweep does.
func (s TableState) unattributed() string {
	switch {
	case s.Kind != KindMappingChanged:
		return ""
	case len(s.Former) == 0, slices.ContainsFunc(s.Former, func(f Former) bool { return f.Text == "" }):
		return formerMapping
	case slices.ContainsFunc(s.Former, func(f Former) bool { return f.Contested }):
		return contested
	}
	return ""
}

// Contest notes that something of former mappings was left where other items may have cells.
func (s *TableState) Contest(hashes ...string) {
	s.eachFormer(hashes, func(f *Former) { f.Contested = true })
}

// Miss notes that a target table of former mappings does not exist any more.
func (s *TableState) Miss(table string) {
	s.eachFormer(nil, func(f *Former) {
		if slices.Contains(f.Tables, table) && !slices.Contains(f.Gone, table) {
			f.Gone = append(slices.Clone(f.Gone), table)
		}
	})
}

func (s *TableState) eachFormer(hashes []string, f func(*Former)) {
	if len(s.Former) == 0 {
		return
	}
	s.Former = slices.Clone(s.Former) // the record that was read may be looked at elsewhere
	for i := range s.Former {
		if len(hashes) == 0 || slices.Contains(hashes, s.Former[i].Hash) {
			f(&s.Former[i])
		}
	}
}

// forget ends the memory of former mappings: nothing of theirs is left.
func (s *TableState) forget() {
	if len(s.Former) == 0 {
		return
	}
	if len(s.Targets) > 0 {
		s.WitnessBeats = maps.Clone(s.WitnessBeats)
		maps.DeleteFunc(s.WitnessBeats, func(table string, _ uint64) bool { return !slices.Contains(s.Targets, table) })
	}
	s.Former = nil
}

// Unknow notes that a former mapping cannot be made again from what was kept of it.
func (s *TableState) Unknow(hash string) {
	s.eachFormer([]string{hash}, func(f *Former) { f.Text = "" })
}
