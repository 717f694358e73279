package demo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Difference is one row in which the stores differ.
type Difference struct {
	// Key is a hash of the row key: keys are item data.
	Key string
	// What says how they differ: names of attributes, never values.
	What string
}

// How a row can be wrong as a whole.
const (
	lacking  = "the target lacks the row"
	orphaned = "the target has a row whose item the source does not have"
)

// Comparison is the outcome of reading both stores whole.
type Comparison struct {
	Items       int // in the source
	Tombstones  int // rows of the target that only guard against late writes
	Differences []Difference
}

// source is what the comparison reads of DynamoDB; *backfill.Tables is one.
type source interface {
	backfill.ScanSource
	Describe(ctx context.Context, table string) (backfill.Description, error)
}

// Compare reads the source table and the target table whole and compares them cell by cell. Nobody may write meanwhile. The cells
// that an item should have come from the mapping. That nothing else is there is checked from the other side: every row of the
// target must give back the key of an item that the source has.
func Compare(ctx context.Context, from source, to sink.Reader, table string) (Comparison, error) {
	description, err := from.Describe(ctx, table)
	if err != nil {
		return Comparison{}, err
	}
	mapping, err := transform.NewMapping(table, table, config.DataFamily, description.PrimaryKey)
	if err != nil {
		return Comparison{}, err
	}
	items, err := readSource(ctx, from, mapping)
	if err != nil {
		return Comparison{}, err
	}
	c := Comparison{Items: len(items)}
	witness := mapping.WitnessKey()
	seen := make(map[string]bool, len(items))
	err = to.ReadRows(ctx, table, sink.Range{}, func(row sink.Row) error {
		if row.Key == witness {
			return nil
		}
		key, err := mapping.Key(row.Key)
		if err != nil {
			c.differ(row.Key, "the target has a row that no item maps to")
			return nil
		}
		expected, exists := items[mapping.ItemKey(key)]
		switch {
		case exists:
			seen[mapping.ItemKey(key)] = true
			if what := differs(expected, row); what != "" {
				c.differ(row.Key, what)
			}
		case len(row.Cells) > 0 || row.Version != "":
			c.differ(row.Key, orphaned)
		default:
			c.Tombstones++
		}
		return nil
	})
	if err != nil {
		return Comparison{}, err
	}
	for key, expected := range items {
		if !seen[key] {
			c.differ(expected.row, lacking)
		}
	}
	slices.SortFunc(c.Differences, func(a, b Difference) int { return strings.Compare(a.Key, b.Key) })
	return c, nil
}

func (c *Comparison) differ(row, what string) {
	sum := sha256.Sum256([]byte(row))
	c.Differences = append(c.Differences, Difference{hex.EncodeToString(sum[:16]), what})
}

// Identical tells whether nothing differs.
func (c *Comparison) Identical() bool { return len(c.Differences) == 0 }

// String is the verdict in one line.
func (c *Comparison) String() string {
	if c.Identical() {
		return fmt.Sprintf("source and target are identical: %d items, 0 differences", c.Items)
	}
	return fmt.Sprintf("source and target differ: %d items, %d differences", c.Items, len(c.Differences))
}

// expectation is what the mapping says of an item.
type expectation struct {
	row   string
	cells map[string][]byte // by family:qualifier
}

// readSource scans the table with consistent reads. Items are by their key.
func readSource(ctx context.Context, from backfill.ScanSource, m *transform.Mapping) (map[string]expectation, error) {
	items := map[string]expectation{}
	var after attribute.Item
	for {
		page, err := from.Scan(ctx, m.Source, 0, 1, after, 0)
		if err != nil {
			return nil, err
		}
		for _, it := range page.Items {
			row, err := m.Row(it)
			if err != nil {
				return nil, err
			}
			cells, err := m.Cells(it, 0)
			if err != nil {
				return nil, err
			}
			e := expectation{row, make(map[string][]byte, len(cells))}
			for _, c := range cells {
				e.cells[c.Family+":"+c.Qualifier] = c.Value
			}
			items[m.ItemKey(it)] = e
		}
		if after = page.Next; !after.Exists() {
			return items, nil
		}
	}
}

// differs says how a row differs from what it should be; "" if it does not.
func differs(want expectation, have sink.Row) string {
	if want.row != have.Key {
		return "the item is in another row than the mapping says"
	}
	if have.Version == "" {
		return "the row has no version"
	}
	var wrong []string
	count := map[string]int{}
	for _, c := range have.Cells {
		column := c.Family + ":" + c.Qualifier
		value, expected := want.cells[column]
		switch count[column]++; {
		case !expected:
			wrong = append(wrong, "surplus "+column)
		case count[column] > 1:
			wrong = append(wrong, "more than one cell in "+column)
		case !bytes.Equal(value, c.Value):
			wrong = append(wrong, "other value in "+column)
		}
	}
	for column := range want.cells {
		if count[column] == 0 {
			wrong = append(wrong, "no "+column)
		}
	}
	slices.Sort(wrong)
	return strings.Join(wrong, ", ")
}
