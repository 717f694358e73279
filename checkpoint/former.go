package checkpoint

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Mapping is the part of a worker's mapping that the ledger keeps.
type Mapping struct {
	// Hash identifies the mapping.
	Hash string
	// Text is the source text from which the mapping can be rebuilt; "" if there is none.
	Text string
	// Tables are the mapping's target tables, the main one first.
	Tables []string
	// Strange reports rows of unknown origin in a target table that no earlier mapping wrote.
	Strange bool
}

// Former is a replaced mapping. It is kept until a sweep finds no row that it wrote (H102).
type Former struct {
	Hash string `json:"hash"`
	// Text is the mapping's source text. It is "" if the text is too long, or if the mapping was
	// replaced before the ledger recorded it. Without the text, the mapping's rows and columns
	// cannot be found.
	Text   string   `json:"text,omitempty"`
	Tables []string `json:"targets,omitempty"`
	// Generation is the last generation that began under the mapping. At is when the mapping was
	// replaced, on the worker's clock.
	Generation uint32    `json:"generation"`
	At         time.Time `json:"at,omitzero"`
	// Gone lists the mapping's target tables that no longer existed when the sweep began.
	Gone []string `json:"gone,omitempty"`
	// Contested reports that the sweep kept some cells of the mapping, because other items may now
	// have cells in the same places.
	Contested bool `json:"contested,omitempty"`
}

const (
	// MaxFormer bounds the number of replaced mappings that wait for a complete sweep.
	MaxFormer = 8
	// maxMappingText bounds the source text of a mapping, in bytes, because every pass of every
	// worker reads it.
	maxMappingText = 64 << 10
)

// ErrManyMappings refuses another change of the mapping while MaxFormer replaced mappings wait for
// a sweep.
var ErrManyMappings = errors.New("too many mappings were replaced before a sweep was complete")

// know records the source text and target tables of the current mapping.
func (s *TableState) know(m Mapping) {
	if m.Text == "" || len(m.Text) > maxMappingText {
		return
	}
	s.Mapping, s.Targets = m.Text, m.Tables
}

// replace makes m the table's mapping. It keeps the previous mapping as a former mapping, unless m
// is the same mapping.
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

// moveWitnesses keeps the known counter of each target table's witness when the first target table
// changes.
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

// FormerTables returns the target tables of former mappings that the current mapping does not
// write, sorted.
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

// unattributed returns why a sweep cannot find all rows that former mappings wrote; "" if it can.
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

// Contest records that cells of former mappings were left where other items may have cells.
func (s *TableState) Contest(hashes ...string) {
	s.eachFormer(hashes, func(f *Former) { f.Contested = true })
}

// Miss records that a target table of former mappings no longer exists.
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
	s.Former = slices.Clone(s.Former) // other code may hold the record that was read
	for i := range s.Former {
		if len(hashes) == 0 || slices.Contains(hashes, s.Former[i].Hash) {
			f(&s.Former[i])
		}
	}
}

// forget removes the former mappings once no row of these mappings is left.
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

// Unknow records that a former mapping cannot be rebuilt from its kept text.
func (s *TableState) Unknow(hash string) {
	s.eachFormer([]string{hash}, func(f *Former) { f.Text = "" })
}
