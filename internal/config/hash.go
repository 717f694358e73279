package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/transform"
)

// mappingFormat is raised when the same configuration begins to mean other cells, so that an upgrade cannot continue a
// ledger whose rows were written in another form.
const mappingFormat = 1

// meaning is what a mapping says, in one form for all spellings of it: with defaults written out, templates, conditions and rules of
// families as they print what was read of them, and sorted where order says nothing. The order of rules and of writes stays, and so does
// that of a condition's parts. Names of rules are for people and metrics alone.
type meaning struct {
	Families []meantFamily
	Drop     []string
	Rules    []meantRule
	Expire   []string // the attribute and what follows from it; nil if nothing does
	Merged   bool
	// The preset's row key depends on the key schema, which is not known here.
	Preset string
	// What is kept of cells that were there before is no matter of cells that are written: but rows of both kinds in one table would
	// tell their readers different things.
	KeepVersions bool
	// VersionAttribute ranks the writes of both; what has none reads as before.
	VersionAttribute string `json:",omitempty"`
}

type meantFamily struct{ Name, Rule string }

type meantRule struct {
	When   string
	Ignore bool
	Writes []meantWrite
}

type meantWrite struct {
	Table   string
	RowKey  *string // nil: the primary key
	Columns []transform.ColumnRule
	Cell    *meantCell
}

type meantCell struct {
	Family, Qualifier string
	As                transform.Encoding
	Only              []string // nil: everything
}

// meaning is what the table's mapping says.
func (t *Table) meaning() meaning {
	spec, _ := t.spec(nil)
	m := meaning{Drop: asSet(spec.Drop), Merged: t.merged, Preset: t.Preset, KeepVersions: spec.KeepVersions, VersionAttribute: spec.VersionAttribute}
	for _, f := range spec.Families {
		f.GC = f.GC.Canonical()
		m.Families = append(m.Families, meantFamily{f.Name, f.Rule()})
	}
	slices.SortFunc(m.Families, func(a, b meantFamily) int { return strings.Compare(a.Name, b.Name) })
	if spec.TTL.Expire != transform.FollowDeletes { // deletes are followed in any case
		m.Expire = []string{spec.TTL.Attribute, t.TTL.Expire}
	}
	rules := spec.Rules
	if len(rules) == 0 {
		rules = []transform.Rule{{Writes: []transform.Write{{}}}}
	}
	for _, r := range rules {
		said := meantRule{When: r.Text, Ignore: r.Ignore}
		for _, w := range r.Writes {
			said.Writes = append(said.Writes, meantBy(w, spec))
		}
		m.Rules = append(m.Rules, said)
	}
	return m
}

// meantBy is what a write of a spec says.
func meantBy(w transform.Write, spec transform.Spec) meantWrite {
	said := meantWrite{Table: cmp.Or(w.Table, spec.Table), Columns: slices.Clone(w.Columns)}
	if w.RowKey != nil {
		text := w.RowKey.Canonical()
		said.RowKey = &text
	}
	if w.Cell != nil {
		said.Cell = &meantCell{w.Cell.Family, w.Cell.Qualifier.Canonical(), w.Cell.As, asSet(w.Cell.Only)}
	} else if w.Columns == nil && len(spec.Families) == 1 {
		said.Columns = []transform.ColumnRule{{Attribute: "*", To: spec.Families[0].Name}}
	}
	slices.SortFunc(said.Columns, func(a, b transform.ColumnRule) int { return strings.Compare(a.Attribute, b.Attribute) })
	return said
}

// asSet is the names of a list whose order says nothing.
func asSet(names []string) []string { return slices.Compact(slices.Sorted(slices.Values(names))) }

// Hash identifies what determines the cells of a table: the form of the mapping, the source or its pattern, the target and the rules. The
// ledger keeps it and refuses to go on under another one. It is 32 hex digits, with an n behind them where versions carry a number of the
// application's, and stable across releases and machines; it
// depends on nothing else of the configuration, so that limits and log levels can change freely.
func (c *Config) Hash(t Table) string {
	h := sha256.New()
	var number [8]byte
	binary.BigEndian.PutUint64(number[:], mappingFormat)
	h.Write(number[:])
	from := t.From
	if t.pattern != nil {
		from = t.text // with the table's name, under which the ledger keeps the hash, it determines the captures
	}
	text, err := json.Marshal(t.meaning())
	if err != nil {
		panic("config: " + err.Error()) // of plain structs of texts
	}
	for _, part := range []string{from, t.To, string(text)} {
		// With its length, so that no two lists of parts read the same.
		binary.BigEndian.PutUint64(number[:], uint64(len(part)))
		h.Write(number[:])
		h.Write([]byte(part))
	}
	hash := hex.EncodeToString(h.Sum(nil)[:16])
	if t.number != "" {
		hash += "n" // checkpoint.CheckRanked: there is no way back
	}
	return hash
}
