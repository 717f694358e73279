package transform

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// description is a mapping in a form that can be stored. A ledger keeps the description of a
// replaced mapping until nothing that the mapping wrote is left (H102).
type description struct {
	Source       string            `json:"source"`
	Table        string            `json:"table"`
	PrimaryKey   []describedKey    `json:"primary_key"`
	Family       string            `json:"family,omitempty"`  // only for a mapping without rules
	RowKey       []string          `json:"row_key,omitempty"` // only for a mapping without rules
	Captures     map[string]string `json:"captures,omitempty"`
	Families     []describedFamily `json:"families,omitempty"`
	Drop         []string          `json:"drop,omitempty"`
	Rules        []describedRule   `json:"rules,omitempty"`
	TTL          TTL               `json:"ttl,omitzero"`
	KeepVersions bool              `json:"keep_versions,omitempty"`
	Number       string            `json:"version_attribute,omitempty"`
	Merged       bool              `json:"merged,omitempty"`
}

type describedKey struct {
	Name string `json:"name"`
	Type string `json:"type"` // S, N or B
}

type describedFamily struct {
	Name string `json:"name"`
	Rule string `json:"rule"`
}

type describedRule struct {
	Name   string           `json:"name,omitempty"`
	When   string           `json:"when,omitempty"`
	Ignore bool             `json:"ignore,omitempty"`
	Writes []describedWrite `json:"writes,omitempty"`
}

type describedWrite struct {
	Table   string            `json:"table,omitempty"`
	RowKey  *string           `json:"row_key,omitempty"` // nil: the primary key
	Columns []describedColumn `json:"columns,omitempty"`
	Cell    *describedCell    `json:"cell,omitempty"`
}

type describedColumn struct {
	Attribute string `json:"attribute"`
	To        string `json:"to,omitempty"`
	As        string `json:"as,omitempty"`
	Value     string `json:"value,omitempty"`
}

type describedCell struct {
	Family    string   `json:"family"`
	Qualifier string   `json:"qualifier"`
	As        string   `json:"as"`
	Only      []string `json:"only,omitempty"`
}

// Describe returns the mapping as a text from which Restore can recreate it. The text has the rules
// in their order, with templates and conditions in canonical form, and the key schema. It returns
// "" if a condition has no known text.
func (m *Mapping) Describe() string {
	d := description{Source: m.Source, Table: m.Table, Family: m.Family, RowKey: m.RowKey}
	for _, k := range m.PrimaryKey {
		d.PrimaryKey = append(d.PrimaryKey, describedKey{k.Name, k.Type.String()})
	}
	if spec := m.spec; spec != nil {
		d.Captures, d.Drop, d.TTL, d.KeepVersions, d.Number, d.Merged = spec.Captures, spec.Drop, spec.TTL, spec.KeepVersions, spec.VersionAttribute, spec.Merged
		for _, f := range spec.Families {
			d.Families = append(d.Families, describedFamily{f.Name, f.Rule()})
		}
		for _, r := range spec.Rules {
			if r.When != nil && r.Text == "" {
				return ""
			}
			rule := describedRule{Name: r.Name, When: r.Text, Ignore: r.Ignore}
			for _, w := range r.Writes {
				rule.Writes = append(rule.Writes, describeWrite(w))
			}
			d.Rules = append(d.Rules, rule)
		}
	}
	text, err := json.Marshal(d)
	if err != nil {
		return "" // cannot happen: a description holds only text
	}
	return string(text)
}

func describeWrite(w Write) describedWrite {
	d := describedWrite{Table: w.Table}
	if w.RowKey != nil {
		text := w.RowKey.Canonical()
		d.RowKey = &text
	}
	for _, c := range w.Columns {
		d.Columns = append(d.Columns, describedColumn{c.Attribute, c.To, c.As.String(), c.Value})
	}
	if w.Cell != nil {
		d.Cell = &describedCell{w.Cell.Family, w.Cell.Qualifier.Canonical(), w.Cell.As.String(), w.Cell.Only}
	}
	return d
}

// Restore is the inverse of Describe. The function `parse` reads conditions. Errors are ErrMapping:
// the text is not a description, or this version no longer accepts its mapping.
func Restore(text string, parse func(text string) (Condition, error)) (*Mapping, error) {
	var d description
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return nil, fmt.Errorf("%w: its description cannot be read", ErrMapping)
	}
	var keys []KeyAttribute
	for _, k := range d.PrimaryKey {
		kind, ok := describedKinds[k.Type]
		if !ok {
			return nil, fmt.Errorf("%w: its description names a key of type %s", ErrMapping, k.Type)
		}
		keys = append(keys, KeyAttribute{k.Name, kind})
	}
	if d.Family != "" {
		return NewMapping(d.Source, d.Table, d.Family, keys, d.RowKey...)
	}
	spec := Spec{
		Source: d.Source, Table: d.Table, PrimaryKey: keys, Captures: d.Captures, Drop: d.Drop, TTL: d.TTL,
		KeepVersions: d.KeepVersions, VersionAttribute: d.Number, Merged: d.Merged,
	}
	for _, f := range d.Families {
		family, err := ParseFamily(f.Name, f.Rule)
		if err != nil {
			return nil, err
		}
		spec.Families = append(spec.Families, family)
	}
	for _, r := range d.Rules {
		rule := Rule{Name: r.Name, Text: r.When, Ignore: r.Ignore}
		if r.When != "" {
			var err error
			if rule.When, err = parse(r.When); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrMapping, err)
			}
		}
		for _, w := range r.Writes {
			write, err := w.restore()
			if err != nil {
				return nil, fmt.Errorf("%w: %w", ErrMapping, err)
			}
			rule.Writes = append(rule.Writes, write)
		}
		spec.Rules = append(spec.Rules, rule)
	}
	return New(spec)
}

var describedKinds = map[string]attribute.Kind{"S": attribute.KindS, "N": attribute.KindN, "B": attribute.KindB}

func (d describedWrite) restore() (w Write, err error) {
	w.Table = d.Table
	if d.RowKey != nil {
		if w.RowKey, err = ParseTemplate(*d.RowKey); err != nil {
			return w, err
		}
	}
	for _, c := range d.Columns {
		as, _ := ParseEncoding(c.As)
		w.Columns = append(w.Columns, ColumnRule{c.Attribute, c.To, as, c.Value})
	}
	if d.Cell == nil {
		return w, nil
	}
	w.Cell = &CellRule{Family: d.Cell.Family, Only: slices.Clone(d.Cell.Only)}
	w.Cell.As, _ = ParseEncoding(d.Cell.As)
	w.Cell.Qualifier, err = ParseTemplate(d.Cell.Qualifier)
	return w, err
}
