package repair

import (
	"context"
	"errors"
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

// shop is a source of items by key, its target, and a repairer between the two.
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
	s.Repairer = sink.Repairer{Mapping: m, Rows: s.table, Table: s.table, Prove: sinktest.NoFence,
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

// write writes a row for a change, and returns its version.
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

// Missing, different and extra rows are repaired. Rows that changed meanwhile and foreign rows are
// left and counted. A dry run reports the same and writes nothing.
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

// A temporary failure is retried. A lasting one ends the repair, which reports the findings that it
// did not reach.
func TestFindingsBesideFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		s.items = map[string]string{"a": "1", "b": "1"}
		var left atomic.Int32 // failures of a's; several items are repaired concurrently
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
		if !diag.Has(err, diag.SourceDenied) || d.NotReached != 2 || !diag.Has(d.Verdict(), diag.RowsDiffer) {
			t.Errorf("%+v, %v", d, err)
		}
		// The result is the cause, not an error that followed from it.
		ctx, stop := context.WithCancelCause(t.Context())
		ended := errors.New("ended")
		s.fails = func(string) error {
			stop(ended)
			return &cdc.Error{Op: "GetItem", Reason: cdc.Unavailable, Err: ctx.Err()}
		}
		began := time.Now()
		if d, err := Findings(ctx, &s.Repairer, found, log); err == nil || diag.Has(err, diag.SourceUnreachable) || d.NotReached != 2 || time.Since(began) > 0 {
			t.Errorf("%+v, %v after %s", d, err, time.Since(began))
		}
	})
}

// breaking is a target in which some writes fail.
type breaking struct {
	sink.Table
	fail func(row string) error
}

func (b breaking) Apply(ctx context.Context, r *sink.Request) (bool, error) {
	if err := b.fail(r.Row); err != nil {
		return false, err
	}
	return b.Table.Apply(ctx, r)
}

// A lack of capacity in either database is retried five times, after growing waits. A lasting error
// is tried once. A row that an earlier attempt repaired counts as repaired, whatever the next one
// sees.
func TestWhatIsTriedAgain(t *testing.T) {
	unknown := &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Unknown, Code: "Unavailable"}
	for name, c := range map[string]struct {
		source, target error
		times          int // number of failures
		attempts       int
		took           time.Duration
		done           bool
	}{
		"a throttled source":     {source: &cdc.Error{Op: "GetItem", Reason: cdc.Throttled}, times: 4, attempts: 5, took: 7500 * time.Millisecond, done: true},
		"a source that is away":  {source: &cdc.Error{Op: "GetItem", Reason: cdc.Unavailable}, times: 1, attempts: 2, took: 500 * time.Millisecond, done: true},
		"a source that stays so": {source: &cdc.Error{Op: "GetItem", Reason: cdc.Unavailable}, times: 9, attempts: 5, took: 7500 * time.Millisecond},
		"a source that refuses":  {source: &cdc.Error{Op: "GetItem", Reason: cdc.Denied}, times: 1, attempts: 1},
		"a target that is away":  {target: unknown, times: 2, attempts: 3, took: 1500 * time.Millisecond, done: true},
		"a target that refuses":  {target: &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Permanent, Code: "NotFound"}, times: 1, attempts: 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newShop(t)
			m, err := transform.NewMapping("Orders", "t", "d", []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}}, "v", "pk") // its row moves with v
			if err != nil {
				t.Fatal(err)
			}
			s.Mapping, s.items = m, map[string]string{"a": "1"}
			attempts, left := 0, c.times
			s.Item = func(_ context.Context, keys attribute.Item) (attribute.Item, bool, error) { // it changes between two attempts
				err := s.fails("a")
				return attribute.NewItem(append([]attribute.Attribute{{Name: "n", Value: attribute.String(fmt.Sprint(attempts))}}, itemOf("a", "1").Attributes()...)), true, err
			}
			failing := func(err error) error {
				if left--; err != nil && left >= 0 {
					return err
				}
				return nil
			}
			s.fails = func(string) error {
				attempts++
				if c.source == nil {
					return nil
				}
				return failing(c.source)
			}
			s.Table = breaking{s.table, func(row string) error {
				if c.target == nil || row != "2#a" { // the last row of the item
					return nil
				}
				return failing(c.target)
			}}
			found := []verify.Finding{s.finding("a", verify.Missing, ""), s.finding("a", verify.Extra, s.write(t, "a", "0", 1)), s.finding("a", verify.Extra, s.write(t, "a", "2", 2))}
			for i, row := range []string{"1#a", "0#a", "2#a"} {
				found[i].Row = row
			}
			began := time.Now()
			d, err := Findings(t.Context(), &s.Repairer, found, slog.New(slog.DiscardHandler))
			if (err == nil) != c.done || c.done && d.Repaired != 3 || attempts != c.attempts || time.Since(began) != c.took {
				t.Errorf("%s: %+v after %d attempts and %s, %v", name, d, attempts, time.Since(began), err)
			}
		})
	}
}

// An outcome "repaired" stays even if the next attempt fails earlier.
func TestALaterAttemptUndoesNoOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		m, err := transform.NewMapping("Orders", "t", "d", []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}}, "v", "pk")
		if err != nil {
			t.Fatal(err)
		}
		s.Mapping, s.items = m, map[string]string{"a": "1"}
		s.Table = breaking{s.table, func(row string) error {
			if row != "2#a" {
				return nil
			}
			s.fails = func(string) error { return &cdc.Error{Op: "GetItem", Reason: cdc.Denied} }
			return &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Unknown, Code: "Unavailable"}
		}}
		found := []verify.Finding{s.finding("a", verify.Missing, ""), s.finding("a", verify.Extra, s.write(t, "a", "2", 2))}
		found[0].Row, found[1].Row = "1#a", "2#a"
		d, err := Findings(t.Context(), &s.Repairer, found, slog.New(slog.DiscardHandler))
		if !diag.Has(err, diag.SourceDenied) || d.Repaired != 1 || d.NotReached != 1 {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

// Findings of one item are repaired together, but each sighting of a row counts. Foreign findings
// belong to no item.
func TestFindingsOfAnItem(t *testing.T) {
	s := newShop(t)
	other := s.finding("a", verify.Extra, "8")
	other.Owner = "S:a"
	items := byItem(&s.Repairer, []verify.Finding{s.finding("a", verify.Different, "7"), s.finding("b", verify.Missing, ""), other, s.finding("a", verify.Extra, "7"), {Row: "x"}})
	if len(items) != 3 || items[2].keys.Exists() || len(items[0].sightings) != 2 || fmt.Sprint(items[0].of) != "[[0 3] [2]]" || fmt.Sprint(items[1].of) != "[[1]]" {
		t.Errorf("%+v", items)
	}
	if got := items[0].sightings[1]; got != (sink.Sighting{Table: "t", Row: "a", Owner: "S:a", Held: "8"}) {
		t.Errorf("%+v", got)
	}
}

// An operator must act on rows that still differ and on findings that were not reached, and on
// nothing else. A dry run says that there is something to repair.
func TestVerdictsOfARepair(t *testing.T) {
	s := newShop(t)
	found := []verify.Finding{s.finding("a", verify.Different, "7")}
	for outcome, want := range map[sink.Outcome]string{sink.Mended: "", sink.Equal: "", sink.MovedOn: "", sink.Expired: "", sink.KeptAlive: "", sink.InFlight: "",
		sink.Foreign: "could not", sink.Unmappable: "could not", sink.Exhausted: "could not", sink.Unreadable: "could not", "": "could not"} {
		for _, dry := range []bool{false, true} {
			want := want
			if s.DryRun = dry; dry && outcome == sink.Mended {
				want = "would be repaired"
			}
			d := document(&s.Repairer, found, []sink.Outcome{outcome})
			err := d.Verdict()
			if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "1 row of table Orders")) || d.DryRun != dry {
				t.Errorf("%q, dry run %t: %v", outcome, dry, err)
			}
			var text strings.Builder
			if err := d.Render(&text); err != nil || strings.Contains(text.String(), "dry run") != dry || strings.Contains(text.String(), "not reached") != (outcome == "") ||
				strings.Count(text.String(), "\n") != map[bool]int{true: 1, false: 2}[outcome == sink.Mended] {
				t.Errorf("%q: %v\n%s", outcome, err, &text)
			}
			if outcome == "" {
				continue
			}
			if len(d.Outcomes) != 1 || d.Outcomes[0].Outcome != string(outcome) || d.Outcomes[0].Rows != 1 || d.Outcomes[0].Text == "" || (len(d.Left) == 0) != (outcome == sink.Mended) {
				t.Errorf("%q: %+v", outcome, d)
			}
			if len(d.Left) > 0 && (d.Left[0].Kind != "different" || d.Left[0].RowHash != sink.HashOf("t/a") || d.Left[0].Outcome != string(outcome)) {
				t.Errorf("%+v", d.Left)
			}
		}
	}
	many := make([]verify.Finding, mostRows+5)
	for i := range many {
		many[i] = found[0]
	}
	results := make([]sink.Outcome, len(many))
	for i := range results {
		results[i] = sink.Foreign
	}
	if d := document(&s.Repairer, many, results); len(d.Left) != mostRows || d.Outcomes[0].Rows != mostRows+5 {
		t.Errorf("%d rows are listed of %d", len(d.Left), d.Outcomes[0].Rows)
	}
	if d := document(&s.Repairer, nil, nil); d.Verdict() != nil || d.Left == nil || d.Outcomes == nil {
		t.Errorf("of nothing: %+v", d)
	}
}
