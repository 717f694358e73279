package parked

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// A retry mends the rows that the old and the new images of all parked changes of an item name, and
// resolves all of these.
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
	// The item is where no record says, so that a first attempt finds it gone from there, and a
	// second one looks.
	r := &sink.Repairer{Mapping: m, Rows: table, Table: table, Fence: sinktest.NoFence,
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

// A retry of many items ends where another mapping begins.
func TestRetryEndsWithTheMapping(t *testing.T) {
	ledger, err := checkpoint.Open(t.Context(), &checkpointtest.Memory{}, "default", checkpoint.Options{Worker: "w", ID: "l"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		hash string
		want error
	}{{"former", nil}, {"other", checkpoint.ErrMappingChanged}} {
		state, err := ledger.UpdateTable(t.Context(), "Orders", func(s *checkpoint.TableState) error {
			s.MappingHash, s.Generation = c.hash, s.Generation+1
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if now, err := underMapping(t.Context(), ledger, "Orders", "former"); now.Generation != state.Generation || !errors.Is(err, c.want) {
			t.Errorf("under %s: generation %d, %v", c.hash, now.Generation, err)
		}
	}
}

// Items that a retry did not come to, because something failed, are left.
func TestARetryThatFailsTellsWhatIsLeft(t *testing.T) {
	for output, want := range map[string]string{"text": "\n1 of 10 items resolved\n", "json": `"left": 9,`} {
		var out bytes.Buffer
		d := &Decision{Console: &terminal.Console{Stdout: &out, Output: output}}
		if err := d.writeRetried([]retried{{Table: "Orders", KeyHash: "h", Outcome: outcomeStored, Records: 1}}, 10); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v\n%s", output, err, &out)
		}
	}
}

// asked is what a retry asks the ledger of a table, and what sets the table's generations and its
// mapping.
func asked(t *testing.T) (generations, func(generation, adopted uint32, mapping string)) {
	t.Helper()
	ledger, err := checkpoint.Open(t.Context(), &checkpointtest.Memory{}, "default", checkpoint.Options{Worker: "w", ID: "l"})
	if err != nil {
		t.Fatal(err)
	}
	note := func(generation, adopted uint32, mapping string) {
		if _, err := ledger.UpdateTable(t.Context(), "Orders", func(s *checkpoint.TableState) error {
			s.StreamARN, s.Label, s.MappingHash, s.Generation, s.Adopted, s.Listed = "arn", "L", mapping, generation, adopted, generation
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return generations{ledger: ledger, table: "Orders", mapping: "hash"}, note
}

// A row without a version is repaired in a generation only if every change from after the item's
// read will be applied in it.
func TestARetryWaitsForTheGeneration(t *testing.T) {
	ask, note := asked(t)
	note(7, 6, "hash")
	var unready *checkpoint.NotAdmissible
	if _, err := ask.admissible(t.Context(), time.Now()); !errors.As(err, &unready) || !diag.Has(repairFailed(t.Context(), "Orders", err), diag.RetryNotYet) {
		t.Error(err)
	}
	note(7, 7, "hash")
	if generation, err := ask.admissible(t.Context(), time.Now()); generation != 7 || err != nil {
		t.Error(generation, err)
	}
}

// A retry of many items takes hours: the ledger is asked for each of them.
func TestARetryNoticesWhatBecomesOfTheTable(t *testing.T) {
	ask, note := asked(t)
	for _, generation := range []uint32{7, 9} {
		note(generation, generation, "hash")
		if got, err := ask.current(t.Context()); got != generation || err != nil {
			t.Errorf("generation %d is given as %d, %v", generation, got, err)
		}
	}
	note(9, 9, "another")
	if _, err := ask.current(t.Context()); !errors.Is(err, checkpoint.ErrMappingChanged) {
		t.Errorf("under another mapping: %v", err)
	}
}

// An app profile that is led to another cluster between two retries is noticed by the second one.
func TestH46_ARetryAsksForTheClusterAnew(t *testing.T) {
	ask, _ := asked(t)
	to := ""
	profile := func(context.Context) (string, error) {
		if to == "" {
			return "", &sink.ProfileError{Problem: sink.MissingProfile}
		}
		return to, nil
	}
	if err := preflight.SameCluster(t.Context(), ask.ledger, profile); err != nil {
		t.Errorf("before the ledger knows a cluster: %v", err)
	}
	if err := ask.ledger.CheckCluster(t.Context(), "c1"); err != nil {
		t.Fatal(err)
	}
	for _, to = range []string{"c1", "c2"} {
		if err := preflight.SameCluster(t.Context(), ask.ledger, profile); (err == nil) != (to == "c1") || err != nil && !errors.Is(err, checkpoint.ErrClusterChanged) {
			t.Errorf("a retry into %s: %v", to, err)
		}
	}
	to = ""
	var gone *sink.ProfileError
	if err := preflight.SameCluster(t.Context(), ask.ledger, profile); !errors.As(err, &gone) {
		t.Errorf("a retry by a profile that is gone, which may lead anywhere: %v", err)
	}
}

// An item that changes all the while, or whose row was repaired as often as one version allows,
// stays parked, and is no failure: its next change brings it.
func TestARetryThatItsNextChangeMakesNeedless(t *testing.T) {
	m, err := transform.NewMapping("Orders", "t", "d", []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}})
	if err != nil {
		t.Fatal(err)
	}
	item := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("a")}})
	for _, current := range []uint32{1, 0} { // of a generation that the retry has not seen nothing is written over
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
		r := &sink.Repairer{Mapping: m, Rows: table, Table: table, Fence: sinktest.NoFence,
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
