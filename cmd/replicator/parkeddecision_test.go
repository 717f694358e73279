package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/parked"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// twice is an item with two parked records, in the order of their versions.
func twice(t *testing.T, lot *sink.Parking) []parked.Record {
	t.Helper()
	var records []parked.Record
	for i := range uint64(2) {
		keys := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("a")}})
		change := cdc.Change{Event: cdc.Insert, Sequence: cdc.SequenceOf(i + 1), Time: noon, Keys: keys, New: keys}
		p := transform.Parked{Source: "Orders", Key: "S:YQ", Version: transform.NewVersion(1, 1, change.Sequence, transform.CountExact), Reason: "r", Change: change}
		if err := lot.Park(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		records = append(records, parked.Record{Ref: sink.RefOf(p), Parked: p})
	}
	return records
}

var errNotDropped = errors.New("not dropped")

// lasting are records of which one cannot be removed.
type lasting struct {
	*sinktest.Records
	key string // how it ends
}

func (l *lasting) Delete(ctx context.Context, key string) error {
	if strings.HasSuffix(key, l.key) {
		return errNotDropped
	}
	return l.Records.Delete(ctx, key)
}

// What was dropped before a failure is told, and so is the failure.
func TestADropThatFailsSaysSo(t *testing.T) {
	records := &lasting{Records: &sinktest.Records{}}
	lot := sink.NewParking(records, "default")
	chosen := twice(t, lot)
	records.key = string(chosen[1].Version)
	var out bytes.Buffer
	d := &parked.Decision{Console: &terminal.Console{Stdout: &out, Stderr: io.Discard}, Cfg: testConfig(), Log: slog.New(slog.DiscardHandler), Lot: lot, Chosen: chosen}
	if err := d.Drop(t.Context(), true); !errors.Is(err, errNotDropped) || out.String() != string(chosen[0].Ref)+"\n1 record dropped\n" {
		t.Errorf("%v\n%s", err, &out)
	}
}

// Items that a retry did not come to, because something failed, are left.
func TestARetryThatFailsTellsWhatIsLeft(t *testing.T) {
	for output, want := range map[string]string{"text": "\n1 of 10 items resolved\n", "json": `"left": 9,`} {
		var out bytes.Buffer
		d := &parked.Decision{Console: &terminal.Console{Stdout: &out, Output: output}}
		if err := d.WriteRetried([]parked.Retried{{Table: "Orders", KeyHash: "h", Outcome: parked.OutcomeStored, Records: 1}}, 10); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v\n%s", output, err, &out)
		}
	}
}

// retryable is what retries the items of a table, and what sets the table's generations and its mapping in the ledger.
func retryable(t *testing.T) (*sink.Repairer, func(generation, adopted uint32, mapping string)) {
	t.Helper()
	cfg, to, s := connectedTarget(t, ordersConfig)
	for _, entry := range s.environment() {
		name, value, _ := strings.Cut(entry, "=")
		t.Setenv(name, value)
	}
	ledger := begunIn(t, "c1", cfg, to, s)
	src, err := preflight.ConnectSource(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	description, err := src.Tables.Describe(t.Context(), "Orders")
	if err != nil {
		t.Fatal(err)
	}
	table, _ := cfg.Table("Orders")
	note := func(generation, adopted uint32, mapping string) {
		if _, err := ledger.UpdateTable(t.Context(), "Orders", func(s *checkpoint.TableState) error {
			s.StreamARN, s.Label, s.MappingHash, s.Generation, s.Adopted, s.Listed = description.StreamARN, description.StreamLabel, cfg.Hash(table)+mapping, generation, adopted, generation
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	note(7, 6, "")
	r, err := (&parked.Decision{Console: &terminal.Console{}, Cfg: cfg, Target: to}).Repairer(t.Context(), src, "Orders")
	if err != nil {
		t.Fatal(err)
	}
	return r, note
}

// A row without a version is repaired in a generation only if every change from after the item's read will be applied in it.
func TestARetryWaitsForTheGeneration(t *testing.T) {
	r, note := retryable(t)
	var unready *checkpoint.NotAdmissible
	if _, err := r.Generation(t.Context(), time.Now()); !errors.As(err, &unready) || !diag.Has(parked.RepairFailed(t.Context(), "Orders", err), diag.RetryNotYet) {
		t.Error(err)
	}
	note(7, 7, "")
	if generation, err := r.Generation(t.Context(), time.Now()); generation != 7 || err != nil {
		t.Error(generation, err)
	}
}

// A retry of many items takes hours: what the ledger says of the table is asked for each of them, and not told from memory.
func TestARetryNoticesWhatBecomesOfTheTable(t *testing.T) {
	r, note := retryable(t)
	for _, generation := range []uint32{7, 9} {
		note(generation, generation, "")
		if got, err := r.Current(t.Context()); got != generation || err != nil {
			t.Errorf("generation %d is told as %d, %v", generation, got, err)
		}
	}
	note(9, 9, " of another mapping")
	if _, err := r.Current(t.Context()); !errors.Is(err, checkpoint.ErrMappingChanged) {
		t.Errorf("under another mapping: %v", err)
	}
}

// An item that changes all the while, or whose row was repaired as often as one version allows, stays parked, and is no failure: its next change brings it.
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
		d := &parked.Decision{Log: slog.New(slog.DiscardHandler), Lot: lot}
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
		r := &sink.Repairer{Mapping: m, Rows: table, Table: table,
			Item:       func(context.Context, attribute.Item) (attribute.Item, bool, error) { return item, true, nil },
			Current:    func(context.Context) (uint32, error) { return current, nil },
			Fence:      sinktest.NoFence,
			Generation: func(context.Context, time.Time) (uint32, error) { return 1, nil }}
		got, err := d.RetryItem(t.Context(), r, []parked.Record{{Ref: sink.RefOf(record), Parked: record}})
		if err != nil || got.Outcome != parked.OutcomeChanged || got.Reason == nil || !strings.Contains(*got.Reason, want.Error()) {
			t.Errorf("generation %d: %+v, %v", current, got, err)
		}
		if n, err := lot.CountOf(t.Context(), "Orders"); n != 1 || err != nil {
			t.Errorf("generation %d: %d are parked, %v", current, n, err)
		}
	}
}
