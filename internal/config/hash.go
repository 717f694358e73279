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

// mappingFormat must be raised when a release writes different cells for the same configuration.
// The new release then refuses a ledger with rows in the earlier form.
const mappingFormat = 1

// meaning is the normal form of a mapping. All spellings of one mapping have the same normal form.
// Defaults are written out, and lists are sorted if their order has no meaning. Templates,
// conditions and family rules are printed from their parsed form. The order of rules, of writes and
// of the parts of a condition is kept. Names of rules are left out, because only people and metrics
// use them.
type meaning struct {
	Families []meantFamily
	Drop     []string
	Rules    []meantRule
	// Expire is the TTL attribute and the handling of expired items; nil if neither is given.
	Expire []string
	Merged bool
	// Preset is the preset's name. Its row key depends on the key schema, which is unknown here.
	Preset string
	// KeepVersions does not change the cells that are written now. It is included because all rows
	// of a table must have history, or none.
	KeepVersions bool
	// VersionAttribute orders the writes of application and replicator. If empty, it is omitted. So
	// existing hashes did not change when this option was introduced.
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
	Only              []string // nil for all attributes
}

// meaning returns the normal form of the table's mapping.
func (t *Table) meaning() meaning {
	spec, _ := t.spec(nil)
	m := meaning{Drop: asSet(spec.Drop), Merged: t.merged, Preset: t.Preset, KeepVersions: spec.KeepVersions, VersionAttribute: spec.VersionAttribute}
	for _, f := range spec.Families {
		f.GC = f.GC.Canonical()
		m.Families = append(m.Families, meantFamily{f.Name, f.Rule()})
	}
	slices.SortFunc(m.Families, func(a, b meantFamily) int { return strings.Compare(a.Name, b.Name) })
	if spec.TTL.Expire != transform.FollowDeletes { // follow_deletes is the default
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

// meantBy returns the normal form of one write in a spec.
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

// asSet returns the names of a list sorted, because their order has no meaning.
func asSet(names []string) []string { return slices.Compact(slices.Sorted(slices.Values(names))) }

// Hash identifies everything that determines the cells of a table: the form of the mapping, the
// source or its pattern, the target and the rules. The ledger stores the hash, and a process with
// another hash is refused. The hash has 32 hex digits, and then an n if versions contain a number
// of the application. It is the same in all releases and on all machines. Nothing else in the
// configuration affects it, so limits and log levels can change freely.
func (c *Config) Hash(t Table) string {
	h := sha256.New()
	var number [8]byte
	binary.BigEndian.PutUint64(number[:], mappingFormat)
	h.Write(number[:])
	from := t.From
	if t.pattern != nil {
		// The pattern and the table's name determine the captures, and the ledger keeps the hash
		// under the table's name.
		from = t.text
	}
	text, err := json.Marshal(t.meaning())
	if err != nil {
		panic("config: " + err.Error()) // cannot fail for plain structs of strings
	}
	for _, part := range []string{from, t.To, string(text)} {
		// The length ensures that no two lists of parts produce the same bytes.
		binary.BigEndian.PutUint64(number[:], uint64(len(part)))
		h.Write(number[:])
		h.Write([]byte(part))
	}
	hash := hex.EncodeToString(h.Sum(nil)[:16])
	if t.number != "" {
		hash += "n" // checkpoint.CheckRanked checks this letter, because a table must not change the choice
	}
	return hash
}
