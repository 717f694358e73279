package preflight

import (
	"context"
	"reflect"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
)

// defaultSample is how many items are read to choose where a new table is split.
const DefaultSample = 1000

// Sampled is what a sample of a table's items shows.
type Sampled struct {
	Items      []attribute.Item
	consumed   float64             // read units of 4 KB
	Rows       map[string][]string // row keys by target table, in the order of the sample
	Unmappable map[string]int      // items that would be parked, by reason
	shared     map[string]int      // items by the row that they share with others, table and key
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
		addresses, _ := t.Mapping.Addresses(item) // why not is told below
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

// triesPerAttribute is in how many items an attribute is looked for in the target before it is said to be left out: a rule may map it
// in some of them only, and an empty list may become nothing.
const triesPerAttribute = 5

// Unmapped are the attributes of sampled items that reach no cell of theirs, sorted: without one of them the item becomes the same
// rows. Those that the configuration drops, and items that it ignores, are meant to be left out.
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

// Samples are the row keys of a sample and the sizes, in bytes, of the sources of each target table: several may go to one.
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

// Splits is where a new target table is split; nil for one of which nothing was sampled.
func (s Samples) Splits(target string) []string {
	if of := s[target]; of != nil {
		return backfill.SplitKeys(of.rows, of.bytes)
	}
	return nil
}
