package demo

import (
	"context"
	"fmt"
	"strings"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// Difference is one row that differs between the databases.
type Difference struct {
	Key  string      `json:"row_hash"` // hash of the row key; the key itself is item data
	Kind verify.Kind `json:"kind"`
	What string      `json:"what"` // the difference: names of attributes, never values
}

// Comparison is the result of reading both databases completely.
type Comparison struct {
	Items       int // number of items in the source
	Tombstones  int // number of target rows that hold only a tombstone
	Differences []Difference
}

// source is the part of DynamoDB that the comparison reads, implemented by *backfill.Tables.
type source interface {
	verify.Source
	Describe(ctx context.Context, table string) (backfill.Description, error)
}

// compare reads the source table and the target table completely, and compares them cell by cell in
// both directions, as `replicator verify` does. Meanwhile no process may write to either table.
func compare(ctx context.Context, from source, to verify.Target, table string) (Comparison, error) {
	description, err := from.Describe(ctx, table)
	if err != nil {
		return Comparison{}, err
	}
	mapping, err := transform.NewMapping(table, table, config.DataFamily, description.PrimaryKey)
	if err != nil {
		return Comparison{}, err
	}
	v := &verify.Comparison{Mapping: mapping, Source: from, Target: to, Owned: true}
	plan, err := v.NewPlan(ctx, verify.Quiet, "nothing writes", description.Bytes, []byte(description.ID))
	if err != nil {
		return Comparison{}, err
	}
	result, err := v.Compare(ctx, plan, 2)
	if err != nil {
		return Comparison{}, err
	}
	c := Comparison{Items: int(result.Items)}
	for _, f := range result.Findings {
		c.Differences = append(c.Differences, Difference{sink.HashOf(f.Row), f.Kind, describe(f)})
	}
	err = to.ReadMarks(ctx, table, sink.Range{}, false, 0, func(row sink.Row) error {
		if row.Gone > row.Version {
			c.Tombstones++
		}
		return nil
	})
	return c, err
}

// describe returns how a row differs, without item data.
func describe(f verify.Finding) string {
	var columns []string
	for _, c := range f.Columns {
		columns = append(columns, c.Family+":"+c.Qualifier)
	}
	text := string(f.Kind) + ": " + strings.Join(columns, ", ")
	if f.Reason != "" {
		text += " (" + f.Reason + ")"
	}
	return text
}

// Identical reports whether the comparison found no differences.
func (c *Comparison) Identical() bool { return len(c.Differences) == 0 }

// String returns the verdict in one line.
func (c *Comparison) String() string {
	if c.Identical() {
		return fmt.Sprintf("source and target are identical: %s, 0 differences", terminal.Plural(c.Items, "item"))
	}
	return fmt.Sprintf("source and target differ: %s, %s", terminal.Plural(c.Items, "item"), terminal.Plural(len(c.Differences), "difference"))
}

// Verdict is the outcome of a demo, for programs.
type Verdict struct {
	Schema      string       `json:"schema"`
	Identical   bool         `json:"identical"`
	Items       int          `json:"items"`       // number of items in the source
	Tombstones  int          `json:"tombstones"`  // number of target rows that hold only a tombstone
	Differences []Difference `json:"differences"` // rows in which the stores differ
}

// Verdict returns the document.
func (c *Comparison) Verdict() Verdict {
	return Verdict{"replicator.demo/v1", c.Identical(), c.Items, c.Tombstones, append([]Difference{}, c.Differences...)}
}
