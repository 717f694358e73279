package preflight

import (
	"context"
	"reflect"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
)

// DefaultSample is the number of items that are read to choose the split points of a new table.
const DefaultSample = 1000

// Sampled holds the findings from a sample of a table's items.
type Sampled struct {
	Items      []attribute.Item
	consumed   float64             // read units of 4 KB
	Rows       map[string][]string // row keys by target table, in the order of the sample
	Unmappable map[string]int      // number of items that would be parked, by reason
	shared     map[string]int      // number of items in each shared row, by table and row key
}

// SampleTable reads up to n items of a table and maps them.
func SampleTable(ctx context.Context, tables *backfill.Tables, t Table, n int) (Sampled, error) {
	var s Sampled
	var err error
	if s.Items, s.consumed, err = tables.Sample(ctx, t.Config.From, n); err != nil {
		return s, err
	}
	s.Unmappable, s.Rows, s.shared = map[string]int{}, map[string][]string{}, map[string]int{}
	for _, item := range s.Items {
		addresses, _ := t.Mapping.Addresses(item) // an item without addresses is reported below
		for _, at := range addresses {
			s.Rows[at.Table] = append(s.Rows[at.Table], at.Row)
			if at.Owner != "" {
				s.shared[at.Table+"/"+at.Row]++
			}
		}
		if _, err := t.Mapping.Map(item, time.Unix(0, 0)); err != nil {
			s.Unmappable[err.Error()]++
		}
	}
	return s, nil
}

// triesPerAttribute is the number of items in which an attribute must be missing from the target
// before it is reported. With fewer items the report might be wrong: a rule may map the attribute
// only in some items, and an empty list may have no cells.
const triesPerAttribute = 5

// Unmapped returns the sorted names of attributes in the sample that are written to no cell.
// Without such an attribute, an item would have the same rows. Unmapped skips attributes that the
// configuration drops, and items that a rule ignores.
func (s Sampled) Unmapped(t Table) []string {
	var (
		at      = time.Unix(0, 0)
		tries   = map[string]int{}
		carried = map[string]bool{}
	)
	for _, item := range s.Items {
		whole, err := t.Mapping.Map(item, at)
		if err != nil || whole.Ignored {
			continue
		}
		attributes := item.Attributes()
		for i, a := range attributes {
			if carried[a.Name] || tries[a.Name] == triesPerAttribute || slices.Contains(t.Config.Drop, a.Name) {
				continue
			}
			tries[a.Name]++
			rest, err := t.Mapping.Map(attribute.NewItem(slices.Concat(attributes[:i], attributes[i+1:])), at)
			carried[a.Name] = err != nil || !reflect.DeepEqual(rest, whole)
		}
	}
	var out []string
	for name := range tries {
		if !carried[name] {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Samples holds, for each target table, row keys from a sample and the total size of its source
// tables in bytes. Several source tables may share a target.
type Samples map[string]*struct {
	rows  []string
	bytes int64
}

func (s Samples) Add(t Table, found Sampled) {
	for table, rows := range found.Rows {
		of := s[table]
		if of == nil {
			of = &struct {
				rows  []string
				bytes int64
			}{}
			s[table] = of
		}
		of.rows, of.bytes = append(of.rows, rows...), of.bytes+t.Description.Bytes
	}
}

// Splits returns the split points of a new target table in a cluster of so many nodes; nil without a
// sample.
func (s Samples) Splits(target string, nodes int) []string {
	if of := s[target]; of != nil {
		return backfill.SplitKeys(of.rows, of.bytes, nodes)
	}
	return nil
}
