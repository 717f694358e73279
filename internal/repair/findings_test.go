package repair

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// shop is a source of items by their key, its target, and a repairer between the two.
type shop struct {
	sink.Repairer
	table *sinktest.Memory
	items map[string]string
	fails func(key string) error
}

func newShop(t *testing.T) *shop {
	t.Helper()
	m, err := transform.NewMapping("Orders", "t", "d", []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}})
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{table: &sinktest.Memory{}, items: map[string]string{}, fails: func(string) error { return nil }}
	s.table.Create("t", "d", sink.LiveFamily, sink.GoneFamily)
	s.Repairer = sink.Repairer{Mapping: m, Rows: s.table, Table: s.table, Fence: sinktest.NoFence,
		Item: func(_ context.Context, keys attribute.Item) (attribute.Item, bool, error) {
			v, _ := keys.Get("pk")
			value, present := s.items[v.Text()]
			return itemOf(v.Text(), value), present, s.fails(v.Text())
		},
		Current:    func(context.Context) (uint32, error) { return 1, nil },
		Generation: func(context.Context, time.Time) (uint32, error) { return 1, nil }}
	return s
}

func itemOf(key, value string) attribute.Item {
	return attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String(key)}, {Name: "v", Value: attribute.String(value)}})
}

// write writes a row by a change, and returns its version.
func (s *shop) write(t *testing.T, key, value string, sequence uint64) transform.Version {
	t.Helper()
	c := cdc.Change{Event: cdc.Insert, Sequence: cdc.SequenceOf(sequence), Keys: s.Mapping.Keys(itemOf(key, "")), New: itemOf(key, value)}
	row := transform.Fold(s.Mapping, []cdc.Change{c}, transform.Stamp{Generation: 1, Hop: 500_000}).Rows[0]
	request := sink.Guard(row)
	if _, err := s.table.Apply(t.Context(), &request); err != nil {
		t.Fatal(err)
	}
	return row.Version
}

func (s *shop) rows(t *testing.T) string {
	t.Helper()
	var rows []string
	if err := s.table.ReadRows(t.Context(), "t", sink.Range{}, func(r sink.Row) error {
		value := "gone"
		for _, c := range r.Cells {
			if c.Qualifier == "v" {
				value = string(c.Value)
			}
		}
		rows = append(rows, fmt.Sprintf("%s=%s@%d", r.Key, value, r.Held().Count()))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return strings.Join(rows, " ")
}

func (s *shop) finding(key string, kind verify.Kind, held transform.Version) verify.Finding {
	return verify.Finding{Source: "Orders", Table: "t", Row: key, Keys: s.Mapping.Keys(itemOf(key, "")), Kind: kind, Version: held}
}

// Missing, different and extra rows are mended; what changed meanwhile and what is nobody's is left and counted; a dry run says the same and writes nothing.
func TestFindings(t *testing.T) {
	s := newShop(t)
	s.items = map[string]string{"different": "1", "missing": "2", "moved": "3"}
	found := []verify.Finding{
		s.finding("different", verify.Different, s.write(t, "different", "0", 1)),
		s.finding("different", verify.Extra, s.write(t, "different", "0", 1)),
		s.finding("missing", verify.Missing, ""),
		s.finding("extra", verify.Extra, s.write(t, "extra", "0", 2)),
		s.finding("moved", verify.Different, s.write(t, "moved", "0", 3)),
		{Source: "Orders", Table: "t", Row: "nobody's", Kind: verify.Foreign},
	}
	s.write(t, "moved", "old", 4)
	before := s.rows(t)
	for _, dry := range []bool{true, false} {
		s.DryRun = dry
		d, err := Findings(t.Context(), &s.Repairer, found, slog.New(slog.DiscardHandler))
		if err != nil || d.Findings != 6 || d.Repaired != 4 || d.NotReached != 0 || len(d.Left) != 2 || len(d.Outcomes) != 3 {
			t.Fatalf("%+v, %v", d, err)
		}
		if d.Left[0].KeyHash != sink.HashOf(s.Mapping.ItemKey(itemOf("moved", ""))) || d.Left[0].Outcome != "moved_on" || d.Left[1].KeyHash != "" || d.Left[1].Outcome != "foreign" {
			t.Errorf("%+v", d.Left)
		}
		if !diag.Has(d.Verdict(), diag.RowsDiffer) {
			t.Errorf("%v", d.Verdict())
		}
		var text strings.Builder
		if err := d.Render(&text); err != nil || !strings.Contains(text.String(), "Orders: 4 of 6 rows ") || strings.Contains(text.String(), "different=") {
			t.Errorf("%v: %s", err, &text)
		}
		if dry && s.rows(t) != before {
			t.Errorf("a dry run wrote: %s", s.rows(t))
		}
	}
	if got := s.rows(t); got != "different=1@2 extra=gone@2 missing=2@1 moved=old@1" {
		t.Error(got)
	}
}

// What passes is repeated; what stays ends the repair, which says what it did not reach.
func TestFindingsBesideFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		s.items = map[string]string{"a": "1", "b": "1"}
		var left atomic.Int32 // failures of a's; several items are repaired at once
		left.Store(2)
		s.fails = func(key string) error {
			if key == "a" && left.Add(-1) >= 0 {
				return &cdc.Error{Op: "GetItem", Reason: cdc.Throttled}
			}
			return nil
		}
		found := []verify.Finding{s.finding("a", verify.Missing, ""), s.finding("b", verify.Missing, "")}
		log := slog.New(slog.DiscardHandler)
		if d, err := Findings(t.Context(), &s.Repairer, found, log); err != nil || d.Repaired != 2 || d.Verdict() != nil {
			t.Errorf("%+v, %v", d, err)
		}
		s.fails = func(string) error { return &cdc.Error{Op: "GetItem", Reason: cdc.Denied} }
		d, err := Findings(t.Context(), &s.Repairer, found, log)
		if err == nil || d.NotReached != 2 || !diag.Has(d.Verdict(), diag.RowsDiffer) {
			t.Errorf("%+v, %v", d, err)
		}
	})
}
