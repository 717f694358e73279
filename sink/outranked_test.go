package sink_test

import (
	"slices"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// ranked returns the version of a number at a position of the stream; position 0 stands for the
// application's own write.
func ranked(number uint64, removed bool, sequence uint64) transform.Version {
	if sequence == 0 {
		return transform.RankOf(number, removed).AppliedBy()
	}
	return transform.RankOf(number, removed).At(transform.NewVersion(1, 500_000, cdc.SequenceOf(sequence), 1))
}

// TestH87_Fell: a later change that a row refuses has fallen, unless only the application raised
// the row.
func TestH87_Fell(t *testing.T) {
	loaded := transform.RankOf(5, false).At(transform.NewVersion(1, transform.LoadHop, cdc.SequenceOf(9), 1))
	for name, c := range map[string]struct {
		refused, held transform.Version
		want          bool
	}{
		"a lower number, later":               {ranked(4, false, 2), ranked(5, false, 1), true},
		"a lower number, earlier":             {ranked(4, false, 1), ranked(5, false, 2), false},
		"the image of a removed one's number": {ranked(5, false, 2), ranked(5, true, 1), true},
		"the same number, earlier":            {ranked(5, false, 1), ranked(5, false, 2), false},
		"the application was faster":          {ranked(4, false, 2), ranked(5, false, 0), false},
		"what a load read is newer":           {ranked(4, false, 2), loaded, false},
		"no numbers":                          {at(1), at(2), false},
	} {
		if got := sink.Fell(c.refused, c.held); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestH87_ConflictsAreCounted: a change that finds a newer write of the application counts, with
// its age. A change that confirms a write, or that finds a later record, does not.
func TestH87_ConflictsAreCounted(t *testing.T) {
	m, err := transform.New(transform.Spec{Source: "S", Table: "t", VersionAttribute: "rev", Families: []transform.Family{{Name: "d"}},
		PrimaryKey: []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}}})
	if err != nil {
		t.Fatal(err)
	}
	read := time.Unix(1_000, 0)
	for name, c := range map[string]struct {
		rev  string
		held transform.Version
		want []time.Duration
	}{
		"the application was faster": {"4", ranked(5, false, 0), []time.Duration{7 * time.Second}},
		"its record follows":         {"5", ranked(5, false, 0), nil},
		"a later record was applied": {"4", ranked(5, false, 9), nil},
	} {
		memory := &sinktest.Memory{}
		memory.Create("t", "d")
		var ages []time.Duration
		w := sink.NewWriter(sink.Options{Table: memory, Rows: memory, Parking: newLot(), Events: sink.Events{
			Overtaken: func(source string, age time.Duration) { ages = append(ages, age.Truncate(time.Second)) }}})
		number, err := attribute.Number(c.rev)
		if err != nil {
			t.Fatal(err)
		}
		item := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("a")}, {Name: "rev", Value: number}})
		b := transform.Fold(m, []cdc.Change{{Event: cdc.Modify, Sequence: cdc.SequenceOf(2), Time: read.Add(-7 * time.Second), Keys: m.Keys(item), Old: item, New: item}}, transform.Stamp{Generation: 1, Hop: 500_000})
		before := b.Rows[0]
		before.Version = c.held
		if _, err := sink.Execute(t.Context(), sink.Unfenced(), memory, memory, &before); err != nil {
			t.Fatal(err)
		}
		b.Read = transform.Reading{At: read, Mono: task.Mono(t.Context())}
		if err := w.Write(t.Context(), sink.Unfenced(), &b); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(ages, c.want) {
			t.Errorf("%s: %s", name, ages)
		}
	}
}

// TestH41_H112_OnlyAPhantomFalls: a version above the item's number that only the application wrote
// is lowered, if the row has not changed since it was read. A write at the item's own number is in
// flight, and the stream follows.
func TestH41_H112_OnlyAPhantomFalls(t *testing.T) {
	want := put(1, "a=1")
	want.Version = ranked(5, false, 1)
	for name, c := range map[string]struct {
		held    transform.Version
		phantom bool
		err     error
	}{
		"above the item, by the application": {ranked(6, false, 0), true, nil},
		"above the item, by the stream":      {ranked(6, false, 2), false, nil},
		"at the item, by the application":    {ranked(5, false, 0), false, sink.ErrPending},
	} {
		request, needed, err := sink.Mend(seenRow(c.held, "", "a=2"), want, repairGeneration, repairAt)
		if err != c.err || err == nil && !needed || sink.IsPhantom(c.held, want) != c.phantom || request.Refuse.Exactly != c.phantom {
			t.Errorf("%s: exactly %t, %v", name, request.Refuse.Exactly, err)
		}
		if !c.phantom {
			continue
		}
		written := transform.Version(request.Ops[len(request.Ops)-1].Value)
		if request.Refuse.AtLeast != c.held || written >= c.held || written.Rank() != want.Version.Rank() || written.ByApplication() {
			t.Errorf("%s: %s becomes %s", name, request.Refuse.AtLeast, written)
		}
	}
}
