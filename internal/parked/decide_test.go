package parked

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/repair"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Omitted or contradictory arguments retry or drop nothing.
func TestWhichSelectionsAreNone(t *testing.T) {
	const key = `{"pk":"a"}`
	for _, c := range []struct {
		s    Selection
		want string // part of the refusal
	}{
		{Selection{}, "needs the items to work on"}, {Selection{Table: "Orders"}, "needs the items to work on"},
		{Selection{All: true}, ""}, {Selection{All: true, Table: "Orders"}, ""}, {Selection{Reason: "r"}, ""}, {Selection{All: true, Reason: "r"}, ""},
		{Selection{Refs: []string{"01234567"}}, ""}, {Selection{Table: "Orders", Key: key}, ""}, {Selection{Key: key}, "--key needs --table"},
		{Selection{Table: "Orders", Key: "a"}, "not a JSON object"}, {Selection{Table: "Orders", Key: "null"}, "not a JSON object"}, {Selection{Table: "Orders", Key: "[]"}, "not a JSON object"},
		{Selection{Refs: []string{"01234567"}, All: true}, "exclude each other"}, {Selection{Refs: []string{"01234567"}, Reason: "r"}, "exclude each other"},
		{Selection{Table: "Orders", Key: key, All: true}, "exclude each other"}, {Selection{Table: "Orders", Key: key, Refs: []string{"x"}}, "exclude each other"},
	} {
		if err := c.s.Check("parked drop"); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.s, err)
		}
	}
}

// lot returns parked records of two tables. One item is in both, and one has two records.
func lot(t *testing.T) (*sink.Parking, map[string]sink.Ref) {
	t.Helper()
	p := sink.NewParking(&sinktest.Records{}, "default")
	refs := map[string]sink.Ref{}
	for i, r := range []struct{ table, pk, reason string }{{"Orders", "a", "too large"}, {"Orders", "a", "no key"}, {"Orders", "b", "too large"}, {"Bills", "a", "too large"}} {
		keys := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String(r.pk)}})
		image := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String(r.pk)}, {Name: "text", Value: attribute.String(r.reason)}})
		change := cdc.Change{Event: cdc.Insert, Sequence: cdc.SequenceOf(uint64(i + 1)), Time: time.Unix(1_795_170_000, 0), Keys: keys, New: image}
		record := transform.Parked{Source: r.table, Key: "S:" + r.pk, Version: transform.NewVersion(1, 1, change.Sequence, transform.CountExact), Reason: r.reason, Change: change}
		if err := p.Park(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		refs[r.table+" "+r.pk+" "+r.reason] = sink.RefOf(record)
	}
	return p, refs
}

// Each argument must match something, and a hash alone must match one item of one table. An item is
// selected if it matches all parts of the selection.
func TestFind(t *testing.T) {
	p, refs := lot(t)
	_, a, _ := refs["Orders a no key"].Parts()
	_, b, _ := refs["Orders b too large"].Parts()
	for name, c := range map[string]struct {
		s       Selection
		want    int
		refused string
	}{
		"all":                       {Selection{All: true}, 4, ""},
		"of a table":                {Selection{All: true, Table: "Orders"}, 3, ""},
		"of no table":               {Selection{All: true, Table: "None"}, 0, ""},
		"by a reason":               {Selection{Reason: "large"}, 3, ""},
		"by a reason, of a table":   {Selection{Reason: "large", Table: "Bills"}, 1, ""},
		"by a reason that none has": {Selection{Reason: "other"}, 0, ""},
		"by a key":                  {Selection{Table: "Orders", Key: `{"pk":"a"}`}, 2, ""},
		"by a key that none has":    {Selection{Table: "Orders", Key: `{"pk":"c"}`}, 0, "has this key"},
		"by no key of the table":    {Selection{Table: "Orders", Key: `{"id":"a"}`}, 0, "id"},
		"by a whole reference":      {Selection{Refs: []string{string(refs["Orders a no key"])}}, 1, ""},
		"an item of a table":        {Selection{Refs: []string{"Orders/" + a}}, 2, ""},
		"an item by its hash":       {Selection{Refs: []string{b[:8]}}, 1, ""},
		"two items":                 {Selection{Refs: []string{"Orders/" + a, b}}, 3, ""},
		"one of them is not":        {Selection{Refs: []string{"Orders/" + a, "Orders/0123456789"}}, 0, "has this reference"},
		"items of two tables":       {Selection{Refs: []string{a}}, 0, "several tables"},
		"one table of two":          {Selection{Refs: []string{a}, Table: "Bills"}, 1, ""},
	} {
		found, err := c.s.Find(t.Context(), p)
		if len(found) != c.want || (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s: %d records, %v", name, len(found), err)
		}
		for _, r := range found {
			if r.Ref != sink.RefOf(r.Parked) {
				t.Errorf("%s: %s of another record", name, r.Ref)
			}
		}
	}
	if _, err := (&Selection{Refs: []string{"Orders/0123456789"}}).Find(t.Context(), p); diag.ExitCode(err) != diag.ExitNo {
		t.Errorf("what is not parked is a wrong use: %v", err)
	}
	// Their hashes begin with the same eight digits.
	for _, key := range []string{"S:25000", "S:31155"} {
		if err := p.Park(t.Context(), transform.Parked{Source: "Orders", Key: key, Version: transform.NewVersion(1, 1, cdc.SequenceOf(1), transform.CountExact), Reason: "r",
			Change: cdc.Change{Event: cdc.Remove, Sequence: cdc.SequenceOf(1), Keys: attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String(key)}})}}); err != nil {
			t.Fatal(err)
		}
	}
	for word, want := range map[string]bool{"3041c382": false, sink.HashOf("S:25000")[:12]: true} {
		if found, err := (&Selection{Refs: []string{word}}).Find(t.Context(), p); (err == nil) != want || want && len(found) != 1 {
			t.Errorf("%s: %d records, %v", word, len(found), err)
		}
	}
	for want, s := range map[string]Selection{"nothing is parked": {}, "table Orders has no parked items": {Table: "Orders"}, "no item is parked for such a reason": {Table: "Orders", Reason: "r"}} {
		if got := s.nothing(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// listless fails to list its records.
type listless struct {
	*sinktest.Records
	err error
}

func (l listless) Scan(context.Context, string, bool, func(key string, data []byte) error) error {
	return l.err
}

// Before the first run there is no state table, so nothing is parked. Any other failure is an
// error.
func TestNothingIsParkedWithoutAStateTable(t *testing.T) {
	lost := errors.New("lost")
	for _, c := range []struct {
		err  error
		fine bool
	}{{&sink.Error{Op: "ReadRows", Reason: sink.Permanent, Code: "NotFound"}, true}, {status.Error(codes.NotFound, "table"), true}, {&sink.Error{Op: "ReadRows", Code: "Unavailable"}, false}, {lost, false}} {
		found, err := (&Selection{All: true}).Find(t.Context(), sink.NewParking(listless{&sinktest.Records{}, c.err}, "default"))
		if len(found) != 0 || (err == nil) != c.fine || err != nil && !errors.Is(err, c.err) {
			t.Errorf("%v: %d records, %v", c.err, len(found), err)
		}
	}
}

// An item that cannot be stored stays parked, with its reason. One that the source no longer holds
// is resolved. A failing target ends the retry, and the failed item stays parked.
func TestOutcomesOfARetry(t *testing.T) {
	m, err := transform.NewMapping("Orders", "t", "d", []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}}, "tenant", "pk")
	if err != nil {
		t.Fatal(err)
	}
	image := func(tenant string) attribute.Item {
		return attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("a")}, {Name: "tenant", Value: attribute.String(tenant)}})
	}
	keys := m.Keys(image(""))
	for name, c := range map[string]struct {
		item    attribute.Item
		row     string // the target's row; "" if there is none
		err     error  // of the read
		outcome string
		left    int
	}{
		"it cannot be stored":        {item: keys, outcome: outcomeParked, left: 1},
		"it is stored":               {item: image("x"), outcome: outcomeStored},
		"it is gone":                 {outcome: outcomeRemoved},
		"it is gone, and left a row": {row: "y", outcome: outcomeRemoved},
		"its second look is to come": {err: sink.ErrPending, outcome: outcomeChanged, left: 1},
		"its version is none":        {err: sink.ErrVersion, outcome: outcomeChanged, left: 1},
		"its table is gone":          {err: &cdc.Error{Op: "GetItem", Reason: cdc.NotFound}, left: 1},
	} {
		table := &sinktest.Memory{}
		table.Create("t", "d", sink.LiveFamily, sink.GoneFamily)
		p := sink.NewParking(&sinktest.Records{}, "default")
		change := cdc.Change{Event: cdc.Insert, Sequence: cdc.SequenceOf(1), Keys: keys, New: image("y")}
		record := transform.Parked{Source: "Orders", Key: m.ItemKey(keys), Version: transform.NewVersion(1, 1, change.Sequence, transform.CountExact), Reason: "r", Change: change}
		if err := p.Park(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		if c.row != "" {
			held := transform.Fold(m, []cdc.Change{{Event: cdc.Insert, Sequence: change.Sequence, Keys: keys, New: image(c.row)}}, transform.Stamp{Generation: 1, Hop: 1}).Rows[0]
			request := sink.Guard(held)
			if _, err := table.Apply(t.Context(), &request); err != nil {
				t.Fatal(err)
			}
		}
		d := &Decision{Log: slog.New(slog.DiscardHandler), Lot: p, Cfg: &config.Config{}}
		r := &sink.Repairer{Mapping: m, Rows: table, Table: table, Prove: sinktest.NoFence,
			Item: func(context.Context, attribute.Item) (attribute.Item, bool, error) {
				return c.item, c.item.Exists(), c.err
			},
			Current:    func(context.Context) (uint32, error) { return 1, nil },
			Generation: func(context.Context, time.Time) (uint32, error) { return 1, nil }}
		got, err := d.retryItem(t.Context(), r, []Record{{Ref: sink.RefOf(record), Parked: record}})
		_, hash, _ := sink.RefOf(record).Parts()
		if got.Outcome != c.outcome || (err == nil) != (c.outcome != "") || got.Table != "Orders" || got.KeyHash != hash || (got.Reason == nil) == (c.left > 0 && c.outcome != "") {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if n, err := p.CountOf(t.Context(), "Orders"); n != c.left || err != nil {
			t.Errorf("%s: %d are parked still, %v", name, n, err)
		}
		if err := retryVerdict([]retried{{Outcome: outcomeStored}, got}); c.outcome != "" && diag.Has(err, diag.ItemsParked) != (c.left > 0) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A retry reports how many items are still parked.
func TestTheVerdictOfARetry(t *testing.T) {
	stored, gone, bad, busy := retried{Outcome: outcomeStored}, retried{Outcome: outcomeRemoved}, retried{Outcome: outcomeParked}, retried{Outcome: outcomeChanged}
	for _, c := range []struct {
		results []retried
		want    string
	}{{nil, ""}, {[]retried{stored, gone}, ""}, {[]retried{bad, stored}, "1 item could not"}, {[]retried{bad, gone, busy, bad}, "3 items could not"}} {
		if err := retryVerdict(c.results); (err == nil) != (c.want == "") || err != nil && (!diag.Has(err, diag.ItemsParked) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v", c.results, err)
		}
	}
}

// If a retry cannot begin, all of its items stay parked. Without items there is no connection.
func TestARetryThatDoesNotBegin(t *testing.T) {
	away := errors.New("away")
	var out bytes.Buffer
	connected := 0
	p, _ := lot(t)
	found, err := (&Selection{All: true}).Find(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	d := &Decision{Console: &terminal.Console{Stdout: &out, Output: "json"}, Cfg: &config.Config{Name: "default"}, Log: slog.New(slog.DiscardHandler), Lot: p,
		Connect: func(context.Context) (repair.Source, error) { connected++; return nil, away }}
	if err := d.Retry(t.Context()); err != nil || connected != 0 || !strings.Contains(out.String(), `"left": 0`) {
		t.Errorf("of nothing: %v, connected %d times\n%s", err, connected, &out)
	}
	out.Reset()
	d.Chosen = found
	if err := d.Retry(t.Context()); !errors.Is(err, away) || !strings.Contains(out.String(), `"left": 3`) {
		t.Errorf("%v\n%s", err, &out)
	}
	d.Connect = func(context.Context) (repair.Source, error) { return nil, nil }
	if err := d.Retry(t.Context()); !diag.Has(err, diag.Usage) || !strings.Contains(err.Error(), "no source table Bills") {
		t.Errorf("a table that is not configured: %v", err)
	}
}

// No item is dropped by mistake: without a terminal --yes is required. The dropped items are
// reported, in text and JSON.
func TestADropIsAskedFor(t *testing.T) {
	p, _ := lot(t)
	one, err := (&Selection{Table: "Bills", All: true}).Find(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	for _, output := range []string{"text", "json"} {
		var out bytes.Buffer
		d := &Decision{Console: &terminal.Console{Stdout: &out, Stderr: io.Discard, Output: output}, Cfg: &config.Config{}, Log: slog.New(slog.DiscardHandler), Lot: p, Chosen: one}
		if err := d.Drop(t.Context(), false); err == nil || out.Len() > 0 {
			t.Errorf("%v\n%s", err, &out)
		}
		if err := d.Drop(t.Context(), true); err != nil || !strings.Contains(out.String(), string(one[0].Ref)) {
			t.Errorf("%v\n%s", err, &out)
		}
		d.Chosen = nil
		if err := d.Drop(t.Context(), false); err != nil {
			t.Errorf("of nothing: %v", err)
		}
	}
	if n, err := p.CountOf(t.Context(), "Bills"); n != 0 || err != nil {
		t.Errorf("%d are left, %v", n, err)
	}
	if n, err := p.CountOf(t.Context(), "Orders"); n != 2 || err != nil {
		t.Errorf("%d items of another table are left, %v", n, err)
	}
	_, hash, _ := one[0].Ref.Parts()
	if got, want := EntryOf(one[0].Ref, one[0].Parked), (Entry{Ref: string(one[0].Ref), Table: "Bills", KeyHash: hash, Version: string(one[0].Version), Event: "INSERT",
		Time: time.Unix(1_795_170_000, 0).UTC(), Reason: "too large"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	for length, want := range map[int]int{40: 40, 41: 40} {
		if got := shortTable(strings.Repeat("T", length)); len(got) != want || strings.HasSuffix(got, "...") != (length > 40) {
			t.Errorf("a name of %d is shown as %s", length, got)
		}
	}
}
