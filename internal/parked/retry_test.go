package parked

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// A retry repairs the rows named by the old and new images of all parked changes of an item, and
// resolves all of these changes.
func TestARetryIsOfAllThatAnItemHasParked(t *testing.T) {
	m, err := transform.NewMapping("Orders", "t", "d", []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}}, "tenant", "pk")
	if err != nil {
		t.Fatal(err)
	}
	image := func(tenant string) attribute.Item {
		return attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("a")}, {Name: "tenant", Value: attribute.String(tenant)}})
	}
	table := &sinktest.Memory{}
	table.Create("t", "d", sink.LiveFamily, sink.GoneFamily)
	lot := sink.NewParking(&sinktest.Records{}, "default")
	d := &Decision{Log: slog.New(slog.DiscardHandler), Lot: lot}
	var records []Record
	for i, tenants := range [][2]string{{"left", "passed"}, {"passed", "bad"}} {
		change := cdc.Change{Event: cdc.Modify, Sequence: cdc.SequenceOf(uint64(i + 1)), Time: time.Unix(1_795_170_000, 0), Keys: m.Keys(image("")), Old: image(tenants[0]), New: image(tenants[1])}
		version := transform.NewVersion(1, 1, change.Sequence, transform.CountExact)
		record := transform.Parked{Source: "Orders", Key: m.ItemKey(change.Keys), Version: version, Reason: "r", Change: change}
		if err := lot.Park(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		records = append(records, Record{Ref: sink.RefOf(record), Parked: record})
		left := transform.Fold(m, []cdc.Change{{Event: cdc.Insert, Sequence: change.Sequence, Time: change.Time, Keys: change.Keys, New: change.Old}}, transform.Stamp{Generation: 1, Hop: 1})
		request := sink.Guard(left.Rows[0])
		if _, err := table.Apply(t.Context(), &request); err != nil {
			t.Fatal(err)
		}
	}
	// No record names the item's present place. So the first attempt finds it missing at the
	// recorded one, and the second one reads again.
	r := &sink.Repairer{Mapping: m, Rows: table, Table: table, Prove: sinktest.NoFence,
		Item:       func(context.Context, attribute.Item) (attribute.Item, bool, error) { return image("now"), true, nil },
		Current:    func(context.Context) (uint32, error) { return 1, nil },
		Generation: func(context.Context, time.Time) (uint32, error) { return 1, nil }}
	if got, err := d.retryItem(t.Context(), r, records); err != nil || got.Outcome != outcomeStored || got.Records != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	var live []string
	if err := table.ReadRows(t.Context(), "t", sink.Range{}, func(row sink.Row) error {
		if row.Version != "" {
			live = append(live, row.Key)
		}
		return nil
	}); err != nil || strings.Join(live, " ") != "now#a" {
		t.Errorf("live: %q, %v", live, err)
	}
	if n, err := lot.CountOf(t.Context(), "Orders"); n != 0 || err != nil {
		t.Errorf("%d are parked still, %v", n, err)
	}
}

// Items that a retry did not reach because of a failure stay parked.
func TestARetryThatFailsTellsWhatIsLeft(t *testing.T) {
	for output, want := range map[string]string{"text": "\n1 of 10 items resolved\n", "json": `"left": 9,`} {
		var out bytes.Buffer
		d := &Decision{Console: &terminal.Console{Stdout: &out, Output: output}}
		if err := d.writeRetried([]retried{{Table: "Orders", KeyHash: "h", Outcome: outcomeStored, Records: 1}}, 10); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v\n%s", output, err, &out)
		}
	}
}

// An item that changes constantly, or whose row was repaired as often as one version allows, stays
// parked. That is not a failure, because its next change resolves it.
func TestARetryThatItsNextChangeMakesNeedless(t *testing.T) {
	m, err := transform.NewMapping("Orders", "t", "d", []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}})
	if err != nil {
		t.Fatal(err)
	}
	item := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("a")}})
	// A row of a generation that the retry does not know is not overwritten.
	for _, current := range []uint32{1, 0} {
		table := &sinktest.Memory{}
		table.Create("t", "d", sink.LiveFamily, sink.GoneFamily)
		lot := sink.NewParking(&sinktest.Records{}, "default")
		d := &Decision{Log: slog.New(slog.DiscardHandler), Lot: lot}
		change := cdc.Change{Event: cdc.Insert, Sequence: cdc.SequenceOf(1), Keys: item, New: item}
		record := transform.Parked{Source: "Orders", Key: m.ItemKey(item), Version: transform.NewVersion(1, 1, change.Sequence, transform.CountExact), Reason: "r", Change: change}
		held := transform.Fold(m, []cdc.Change{{Event: cdc.Remove, Sequence: change.Sequence, Keys: item, Old: item}}, transform.Stamp{Generation: 1, Hop: 1}).Rows[0]
		want := sink.ErrOvertaken
		if current == 1 {
			held.Version, want = transform.NewVersion(1, 1, change.Sequence, transform.MaxCount), sink.ErrRepairs
		}
		request := sink.Guard(held)
		if _, err := table.Apply(t.Context(), &request); err != nil {
			t.Fatal(err)
		}
		if err := lot.Park(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		r := &sink.Repairer{Mapping: m, Rows: table, Table: table, Prove: sinktest.NoFence,
			Item:       func(context.Context, attribute.Item) (attribute.Item, bool, error) { return item, true, nil },
			Current:    func(context.Context) (uint32, error) { return current, nil },
			Generation: func(context.Context, time.Time) (uint32, error) { return 1, nil }}
		got, err := d.retryItem(t.Context(), r, []Record{{Ref: sink.RefOf(record), Parked: record}})
		if err != nil || got.Outcome != outcomeChanged || got.Reason == nil || !strings.Contains(*got.Reason, want.Error()) {
			t.Errorf("generation %d: %+v, %v", current, got, err)
		}
		if n, err := lot.CountOf(t.Context(), "Orders"); n != 1 || err != nil {
			t.Errorf("generation %d: %d are parked, %v", current, n, err)
		}
	}
}
