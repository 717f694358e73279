package fence_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

var begin = time.Unix(60_000, 0) // the thousandth minute

// families is a target table's schema that answers as it is scripted.
type families struct {
	names   []string
	creates []error // of the next creations; a creation that fails with Unknown takes place all the same
	drops   []error
	stays   string  // family that is there again after each drop
	lists   []error // of the next listings
	dropped time.Time
	delay   time.Duration
}

func next(script *[]error) (err error) {
	if len(*script) > 0 {
		err, *script = (*script)[0], (*script)[1:]
	}
	return err
}

func (f *families) ListFamilies(context.Context, string) ([]string, error) {
	return slices.Clone(f.names), next(&f.lists)
}

func (f *families) CreateFamily(_ context.Context, _, family string) error {
	err := next(&f.creates)
	if (err == nil || sink.Is(err, sink.Unknown)) && !slices.Contains(f.names, family) {
		f.names = append(f.names, family)
	}
	return err
}

func (f *families) DropFamily(ctx context.Context, _, family string) error {
	err := next(&f.drops)
	if err == nil || sink.Is(err, sink.Unknown) {
		f.names = slices.DeleteFunc(f.names, func(name string) bool { return name == family && name != f.stays })
		f.dropped = task.Now(ctx)
	}
	return err
}

func (f *families) DropDelay() time.Duration { return f.delay }

func failure(reason sink.Reason, code string) error {
	return &sink.Error{Op: "ModifyColumnFamilies", Reason: reason, Code: code}
}

func play(t *testing.T, script func(ctx context.Context, f fence.Fence, schema *families)) {
	t.Helper()
	playOn(t, &checkpointtest.Memory{}, script)
}

func playOn(t *testing.T, store *checkpointtest.Memory, script func(ctx context.Context, f fence.Fence, schema *families)) {
	t.Helper()
	world := virtual.NewWorld(1, begin, false)
	err := world.Run(24*time.Hour, func(ctx context.Context) {
		l, err := checkpoint.Open(ctx, store, "p", checkpoint.Options{Worker: "w", ID: "ledger"})
		if err != nil {
			t.Error(err)
			return
		}
		schema := &families{names: []string{"d", "_cdc", "_cdc_gone"}, delay: 20 * time.Second}
		script(ctx, fence.Fence{Ledger: l, Families: schema}, schema)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func number(n uint64) string { return sink.FenceFamily("ledger", n) }

// A number is published after a creation that was acknowledged without doubt, and every other one
// is burnt.
func TestRaisePublishesOnlyWhatWasAcknowledged(t *testing.T) {
	play(t, func(ctx context.Context, f fence.Fence, schema *families) {
		right, writer := func(context.Context) error { return nil }, fence.NewRegister(f.Ledger)
		if _, err := writer.Prove(ctx, []string{"t"}, right); !errors.Is(err, sink.ErrNoFence) {
			t.Errorf("before the first number: %v", err)
		}
		schema.creates = []error{failure(sink.Unknown, "Unavailable")}
		if err := f.Open(ctx, "t"); !sink.Is(err, sink.Unknown) {
			t.Errorf("after an unknown outcome: %v", err)
		}
		if got, _, err := f.Ledger.Target(ctx, "t"); err != nil || got.Open() || got.Last != 1000 {
			t.Errorf("after an unknown outcome: %+v, %v", got, err)
		}
		schema.creates = []error{failure(sink.Permanent, "AlreadyExists")} // 1001, which somebody has
		if err := f.Open(ctx, "t"); err != nil {
			t.Error(err)
		}
		if got, _, err := f.Ledger.Target(ctx, "t"); err != nil || got.Fence != 1002 || got.Last != 1002 {
			t.Errorf("%+v, %v", got, err)
		}
		if err := f.Open(ctx, "t"); err != nil {
			t.Error(err)
		}
		if _, err := writer.Prove(ctx, []string{"t"}, right); err != nil {
			t.Error(err)
		}
		schema.names = append(schema.names, sink.FenceFamily("another", 5000))
		if got, err := f.Raise(ctx, "t"); err != nil || got.Fence != 5001 || !slices.Contains(schema.names, number(5001)) {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// Where the service will not have it, writes go on without a fence and the reason stands in the
// ledger, until a number can be raised.
func TestFenceIsWithheld(t *testing.T) {
	for code, reason := range map[string]sink.Reason{"PermissionDenied": sink.Denied, "Unimplemented": sink.Permanent} {
		play(t, func(ctx context.Context, f fence.Fence, schema *families) {
			schema.creates = []error{failure(reason, code)}
			got, err := f.Raise(ctx, "t")
			if err != nil || got.Withheld == "" || got.Fence != 0 || !fence.MarkOf(f.Ledger, got).Withheld {
				t.Errorf("%s: %+v, %v", code, got, err)
			}
			if got, err := f.Raise(ctx, "t"); err != nil || got.Withheld != "" || got.Fence != 1002 { // 1001 was dropped first
				t.Errorf("once it is allowed: %+v, %v", got, err)
			}
			schema.drops = []error{failure(sink.Permanent, "FailedPrecondition")}
			if why, err := f.Drop(ctx, "t", 2000); err != nil || why == "" {
				t.Errorf("a drop that deletion protection refuses: %q, %v", why, err)
			}
			if why, err := f.Drop(ctx, "t", 2000); err != nil || why == "" {
				t.Errorf("what was withheld once is not fenced by a drop: %q, %v", why, err)
			}
		})
	}
	play(t, func(ctx context.Context, f fence.Fence, schema *families) {
		schema.creates = []error{failure(sink.Denied, "Unauthenticated")}
		if _, err := f.Raise(ctx, "t"); !sink.Is(err, sink.Denied) {
			t.Errorf("credentials that expired: %v", err)
		}
		if got, _, err := f.Ledger.Target(ctx, "t"); err != nil || got.Open() {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// A ledger or a target that was set back may lack the family of its number: nobody could write.
func TestMendRaisesWhereTheFamilyIsGone(t *testing.T) {
	play(t, func(ctx context.Context, f fence.Fence, schema *families) {
		for i, want := range []uint64{1000, 1000, 1001, 1002} {
			switch i {
			case 2:
				schema.names = nil
			case 3:
				schema.creates = []error{failure(sink.Denied, "PermissionDenied")}
				_, _ = f.Raise(ctx, "t")
				want++ // one was tried
			}
			if err := errors.Join(f.Open(ctx, "t"), f.Mend(ctx, "t")); err != nil {
				t.Error(err)
			}
			if got, _, err := f.Ledger.Target(ctx, "t"); err != nil || got.Fence != want || got.Withheld != "" {
				t.Errorf("%d: %+v, %v", i, got, err)
			}
		}
		if got, err := (fence.Fence{Ledger: f.Ledger}).Raise(ctx, "t"); err != nil || got.Withheld == "" {
			t.Errorf("without a way to families: %+v, %v", got, err)
		}
	})
}

// A drop takes the older numbers of this ledger alone, asks until they are gone, and waits for what
// is under way.
func TestDropWaitsUntilItIsInForce(t *testing.T) {
	play(t, func(ctx context.Context, f fence.Fence, schema *families) {
		schema.names = append(schema.names, number(5), number(7), number(8), sink.FenceFamily("another", 5))
		schema.drops = []error{nil, failure(sink.Unknown, "DeadlineExceeded")}
		if _, err := f.Drop(ctx, "t", 8); !sink.Is(err, sink.Unknown) {
			t.Errorf("after an unknown outcome: %v", err)
		}
		schema.drops = []error{failure(sink.Permanent, "NotFound")}
		schema.names = append(schema.names, number(5), sink.FenceFamily("lost", 9))
		if _, err := f.Ledger.UpdateTarget(ctx, "t", func(t *checkpoint.Target) error {
			t.Disown("lost", "ledger")
			t.Disown("lost", "ledger")
			t.Disown("ledger", "ledger")
			return nil
		}); err != nil {
			t.Error(err)
		}
		why, err := f.Drop(ctx, "t", 8)
		if err != nil || why != "" || task.Now(ctx).Sub(schema.dropped) < 20*time.Second {
			t.Errorf("%q, %v, after %v", why, err, task.Now(ctx).Sub(schema.dropped))
		}
		if want := []string{"d", "_cdc", "_cdc_gone", number(8), sink.FenceFamily("another", 5)}; !slices.Equal(schema.names, want) {
			t.Error(fmt.Sprint(schema.names))
		}
		schema.names, schema.delay = append(schema.names, number(5)), 0 // an emulator's
		if _, err := f.Drop(ctx, "t", 8); err != nil || task.Now(ctx) != schema.dropped {
			t.Errorf("%v, after %v", err, task.Now(ctx).Sub(schema.dropped))
		}
	})
}

// Every target table of an item gets a number, or some of its rows could not be written.
func TestEachTableIsOpened(t *testing.T) {
	play(t, func(ctx context.Context, f fence.Fence, schema *families) {
		if err := f.Open(ctx, "t", "u", "v"); err != nil {
			t.Error(err)
		}
		for _, table := range []string{"t", "u", "v"} {
			if got, _, err := f.Ledger.Target(ctx, table); err != nil || !got.Open() || fence.MarkOf(f.Ledger, got).Number != got.Fence {
				t.Errorf("%s: %+v, %v", table, got, err)
			}
		}
	})
	if m := fence.MarkOf(nil, checkpoint.Target{}); m.Family != "" || m.Withheld {
		t.Errorf("before the first number: %+v", m)
	}
}

// Numbers that are taken and families that come back are an error after five tries: nobody may take
// such a fence for raised or dropped.
func TestAFenceThatCannotBeMoved(t *testing.T) {
	play(t, func(ctx context.Context, f fence.Fence, schema *families) {
		taken := func(n int) []error { return slices.Repeat([]error{failure(sink.Permanent, "AlreadyExists")}, n) }
		schema.creates = taken(4)
		if got, err := f.Raise(ctx, "t"); err != nil || got.Fence != 1004 {
			t.Errorf("the fifth number is free: %+v, %v", got, err)
		}
		schema.creates = taken(5)
		if _, err := f.Raise(ctx, "t"); !errors.Is(err, checkpoint.ErrConflict) {
			t.Errorf("all numbers are taken: %v", err)
		}
		if got, _, _ := f.Ledger.Target(ctx, "t"); got.Fence != 1004 || got.Last != 1009 {
			t.Errorf("%+v", got)
		}
		schema.stays = number(7)
		schema.names = append(schema.names, number(5), number(7))
		began := task.Now(ctx)
		if _, err := f.Drop(ctx, "t", 8); !errors.Is(err, checkpoint.ErrConflict) || task.Now(ctx) != began {
			t.Errorf("a family comes back: %v", err)
		}
		schema.drops = []error{failure(sink.Unknown, "Unavailable")} // of the first family; the others go
		schema.stays, schema.names = "", append(schema.names, number(6))
		if _, err := f.Drop(ctx, "t", 8); !sink.Is(err, sink.Unknown) || slices.Contains(schema.names, number(6)) {
			t.Errorf("after one that failed the others are left: %v, %v", schema.names, err)
		}
	})
}

// Whatever fails on the way is an error, and never a fence that counts as raised, dropped or whole.
func TestAFenceHandsOnFailures(t *testing.T) {
	lost, unheard := errors.New("lost"), failure(sink.Unknown, "Unavailable")
	for name, act := range map[string]func(ctx context.Context, f fence.Fence) error{
		"open":  func(ctx context.Context, f fence.Fence) error { return f.Open(ctx, "new", "t") },
		"raise": func(ctx context.Context, f fence.Fence) error { _, err := f.Raise(ctx, "t"); return err },
		"mend":  func(ctx context.Context, f fence.Fence) error { return f.Mend(ctx, "t") },
		"drop":  func(ctx context.Context, f fence.Fence) error { _, err := f.Drop(ctx, "t", 9000); return err },
		"mark":  func(ctx context.Context, f fence.Fence) error { _, err := fence.Marks(f.Ledger)(ctx, "t"); return err },
	} {
		store := &checkpointtest.Memory{}
		playOn(t, store, func(ctx context.Context, f fence.Fence, schema *families) {
			if err := f.Open(ctx, "t"); err != nil {
				t.Error(err)
			}
			schema.names = []string{"d", number(7)}
			for reads := range 3 { // the ledger fails at each read in turn
				n := 0
				store.OnRead = func(context.Context, string) error {
					if n++; n == reads+1 {
						return lost
					}
					return nil
				}
				if err := act(ctx, f); n > reads && !errors.Is(err, lost) || n <= reads && err != nil {
					t.Errorf("%s, read %d of %d: %v", name, reads, n, err)
				}
				schema.names = []string{"d", number(7)}
			}
			store.OnRead = nil
			if schema.lists = []error{unheard}; name != "mark" {
				if err := act(ctx, f); !errors.Is(err, unheard) {
					t.Errorf("%s: a listing that fails: %v", name, err)
				}
			}
			schema.lists = nil
			if schema.creates, schema.drops = []error{lost}, []error{lost}; name != "mark" && name != "mend" {
				if err := act(ctx, f); !errors.Is(err, lost) {
					t.Errorf("%s: a change of a family that never reached the service: %v", name, err)
				}
			}
			schema.creates, schema.drops = nil, nil
			f.Rest = func(_ context.Context, d time.Duration) error {
				if d != schema.delay {
					t.Errorf("it waits %s", d)
				}
				return lost
			}
			if err := act(ctx, f); (name == "drop") != errors.Is(err, lost) {
				t.Errorf("%s: a wait that ends early: %v", name, err)
			}
			if f.Families = nil; name != "raise" && name != "open" {
				if err := act(ctx, f); err != nil {
					t.Errorf("%s where nobody may change families: %v", name, err)
				}
			}
		})
	}
}

// meddled is a schema during whose drops something else happens.
type meddled struct {
	*families
	during func()
}

func (m meddled) DropFamily(ctx context.Context, table, family string) error {
	m.during()
	return m.families.DropFamily(ctx, table, family)
}

// A fence that another process withholds during a drop is not in force after it: writes carry no
// number since, so that no drop rejects them.
func TestAFenceThatIsWithheldDuringADrop(t *testing.T) {
	play(t, func(ctx context.Context, f fence.Fence, schema *families) {
		if err := f.Open(ctx, "t"); err != nil {
			t.Error(err)
		}
		schema.names = append(schema.names, number(5))
		f.Families = meddled{schema, func() {
			if _, err := (fence.Fence{Ledger: f.Ledger}).Raise(ctx, "t"); err != nil {
				t.Error(err)
			}
		}}
		if why, err := f.Drop(ctx, "t", 1000); err != nil || why == "" {
			t.Errorf("%q, %v", why, err)
		}
	})
}
