package fence_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// A service that refuses to change families for good has the fence withheld, with the reason that
// the operator reads. Any other failure is handed on, and the fence stays.
func TestWhyAFenceIsWithheld(t *testing.T) {
	for code, want := range map[string]string{
		"PermissionDenied":   "the permission bigtable.tables.update is missing",
		"FailedPrecondition": "deletion protection forbids dropping families of the table",
		"Unimplemented":      "the service cannot change families",
		"Unavailable":        "", "NotFound": "", "InvalidArgument": "",
	} {
		play(t, func(ctx context.Context, f fence.Fence, schema *families) {
			schema.creates = []error{failure(sink.Permanent, code)}
			target, err := f.Raise(ctx, "t")
			record, _, unread := f.Ledger.Target(ctx, "t")
			if unread != nil || (err == nil) != (want != "") || target.Withheld != want || record.Withheld != want || record.Open() != (want != "") {
				t.Errorf("%s: withheld %q, in the record %q, %v", code, target.Withheld, record.Withheld, err)
			}
			mark, err := fence.Marks(f.Ledger)(ctx, "t")
			if err != nil || mark != (sink.Mark{Withheld: want != ""}) {
				t.Errorf("%s: %+v, %v", code, mark, err)
			}
		})
	}
	play(t, func(ctx context.Context, f fence.Fence, _ *families) {
		f.Families = nil
		if target, err := f.Raise(ctx, "t"); err != nil || target.Withheld != "this worker may not create or drop families" {
			t.Errorf("a worker without that right: %q, %v", target.Withheld, err)
		}
	})
}

// A mark names the family of the published number, and whether the fence is withheld.
func TestMarksOfATarget(t *testing.T) {
	play(t, func(ctx context.Context, f fence.Fence, _ *families) {
		for want, target := range map[sink.Mark]checkpoint.Target{
			{}:                             {},
			{Number: 9, Family: number(9)}: {Fence: 9, Last: 12},
			{Withheld: true}:               {Withheld: "r", Last: 12},
			{Number: 9, Family: number(9), Withheld: true}: {Fence: 9, Withheld: "r"},
		} {
			if got := fence.MarkOf(f.Ledger, target); got != want {
				t.Errorf("%+v: %+v", target, got)
			}
		}
	})
}

// A drop drops the numbers below its own of this ledger and every number of a former ledger, and
// nothing else: neither the application's families nor those of other ledgers. A failed drop of one
// family hinders no other one. Clear drops no former ledger's family.
func TestWhatADropDrops(t *testing.T) {
	former, other := sink.FenceFamily("former", 5000), sink.FenceFamily("other", 1)
	start := func(f fence.Fence, ctx context.Context, schema *families) {
		schema.names = []string{"d", number(8), number(9), number(10), number(11), former, other}
		_, err := f.Ledger.UpdateTarget(ctx, "t", func(t *checkpoint.Target) error { t.Fence, t.Last, t.Former = 10, 11, []string{"former"}; return nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		do    func(ctx context.Context, f fence.Fence) error
		drops []error
		fails bool
		left  []string
	}{
		"drop": {func(ctx context.Context, f fence.Fence) error { _, err := f.Drop(ctx, "t", 10); return err }, nil, false, []string{"d", number(10), number(11), other}},
		"one drop fails": {func(ctx context.Context, f fence.Fence) error { _, err := f.Drop(ctx, "t", 10); return err }, []error{failure(sink.Denied, "Unavailable")}, true,
			[]string{"d", number(8), number(10), number(11), other}},
		"one is dropped already": {func(ctx context.Context, f fence.Fence) error { _, err := f.Drop(ctx, "t", 9); return err }, []error{nil, failure(sink.Permanent, "NotFound")}, false,
			[]string{"d", number(9), number(10), number(11), other}},
		"clear": {func(ctx context.Context, f fence.Fence) error { return f.Clear(ctx, "t") }, nil, false, []string{"d", number(10), number(11), former, other}},
		"mend":  {func(ctx context.Context, f fence.Fence) error { return f.Mend(ctx, "t") }, nil, false, []string{"d", number(10), number(11), former, other}},
	} {
		play(t, func(ctx context.Context, f fence.Fence, schema *families) {
			start(f, ctx, schema)
			schema.drops = c.drops
			if err := c.do(ctx, f); (err != nil) != c.fails || !slices.Equal(schema.names, c.left) {
				t.Errorf("%s: %q are left, want %q, %v", name, schema.names, c.left, err)
			}
		})
	}
}

// The drops of several tables each have their own outcome. A failed one names its table's error and
// has no result, and only writers of the others' numbers are forgotten.
func TestDropsHaveTheirOwnOutcome(t *testing.T) {
	play(t, func(ctx context.Context, f fence.Fence, schema *families) {
		away := errors.New("away")
		var rests []time.Duration
		f.Rest = func(ctx context.Context, d time.Duration) error { rests = append(rests, d); return task.Sleep(ctx, d) }
		for table, withheld := range map[string]string{"a": "", "b": "no right", "c": ""} {
			_, err := f.Ledger.UpdateTarget(ctx, table, func(t *checkpoint.Target) error { t.Fence, t.Last, t.Withheld = 10, 10, withheld; return nil })
			if err == nil {
				_, err = f.Ledger.EnterWriter(ctx, map[string]checkpoint.Writing{table: {Number: 9}})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		f.Families = tableFails{schema, "c", away}
		got, err := f.DropAll(ctx, map[string]uint64{"a": 10, "b": 10, "c": 10})
		if want := map[string]string{"a": "", "b": "no right"}; fmt.Sprint(got) != fmt.Sprint(want) || !errors.Is(err, away) || !slices.Equal(rests, []time.Duration{20 * time.Second}) {
			t.Errorf("%v, waited %s, %v", got, rests, err)
		}
		if left := writers(t, ctx, f.Ledger); left != "wmap[b:{9 false 0 false} c:{9 false 0 false}]" {
			t.Errorf("writers %s", left)
		}
	})
}

// A table whose writers cannot be forgotten has no result, because their record still names its
// numbers. A withheld table has no number, so its result stays. A later drop completes the work.
func TestADropThatForgetsNoWriter(t *testing.T) {
	store := &checkpointtest.Memory{}
	playOn(t, store, func(ctx context.Context, f fence.Fence, _ *families) {
		for table, withheld := range map[string]string{"a": "", "b": "no right", "c": ""} {
			_, err := f.Ledger.UpdateTarget(ctx, table, func(t *checkpoint.Target) error { t.Fence, t.Last, t.Withheld = 10, 10, withheld; return nil })
			if err == nil {
				_, err = f.Ledger.EnterWriter(ctx, map[string]checkpoint.Writing{table: {Number: 9}})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		away, below := errors.New("away"), map[string]uint64{"a": 10, "b": 10, "c": 10}
		for _, failing := range []string{"read", "write"} {
			if failing == "read" {
				store.OnRead = func(_ context.Context, prefix string) error {
					if strings.Contains(prefix, "writer") {
						return away
					}
					return nil
				}
			} else {
				store.OnSwap = func(context.Context, string, func() bool) (bool, error) { return false, away }
			}
			got, err := f.DropAll(ctx, below)
			store.OnRead, store.OnSwap = nil, nil
			if fmt.Sprint(got) != "map[b:no right]" || !errors.Is(err, away) {
				t.Errorf("a %s of the record fails: %v, %v", failing, got, err)
			}
		}
		got, err := f.DropAll(ctx, below)
		if left := writers(t, ctx, f.Ledger); fmt.Sprint(got) != "map[a: b:no right c:]" || err != nil || left != "wmap[b:{9 false 0 false}]" {
			t.Errorf("at last: %v, writers %s, %v", got, left, err)
		}
	})
}

// tableFails is a schema of which one table is away.
type tableFails struct {
	*families
	table string
	err   error
}

func (s tableFails) ListFamilies(ctx context.Context, table string) ([]string, error) {
	if table == s.table {
		return nil, s.err
	}
	return s.families.ListFamilies(ctx, table)
}
