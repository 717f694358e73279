package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

func TestTargetNumbersNeverFall(t *testing.T) {
	ctx := context.Background()
	l := openOn(t, ctx, &checkpointtest.Memory{}, "w", lease)
	if target, found, err := l.Target(ctx, "orders"); err != nil || found || target.Open() || target.Table != "orders" {
		t.Fatal(target, found, err)
	}
	set := func(fence, last uint64, withheld string) checkpoint.Target {
		t.Helper()
		target, err := l.UpdateTarget(ctx, "orders", func(s *checkpoint.Target) error {
			s.Fence, s.Last, s.Withheld = fence, last, withheld
			return nil
		})
		check(t, err)
		return target
	}
	for i, c := range []struct {
		fence, last uint64
		withheld    string
		want        string
	}{
		{0, 7, "", "0 7 false"},      // a number that is tried lets nobody write yet
		{7, 7, "", "7 7 true"},       // nor is it written before it is published
		{3, 2, "", "7 7 true"},       // neither is ever taken back
		{9, 0, "", "9 9 true"},       // what is published was tried
		{9, 9, "denied", "9 9 true"}, // without a fence writes go on
		{0, 0, "denied", "9 9 true"}, // which changes nothing and so writes nothing
		{12, 12, "", "12 12 true"},   // until there is one again
	} {
		got := set(c.fence, c.last, c.withheld)
		if text := fmt.Sprint(got.Fence, got.Last, got.Open()); text != c.want || got.Withheld != c.withheld {
			t.Errorf("change %d leaves %+v, wanted %s", i, got, c.want)
		}
	}
	set(1, 1, "")
	_, err := l.UpdateTarget(ctx, "a", func(s *checkpoint.Target) error { s.MadeByUs = true; return nil })
	check(t, err)
	all, err := l.Targets(ctx)
	if err != nil || len(all) != 2 || all[0].Table != "a" || !all[0].MadeByUs || all[1].Fence != 12 {
		t.Error(all, err)
	}
	refused := errors.New("refused")
	if _, err := l.UpdateTarget(ctx, "a", func(*checkpoint.Target) error { return refused }); !errors.Is(err, refused) {
		t.Error(err)
	}
}

// A target is written to without a number only where none can be kept. Its record is written if it
// changes, with the writer's time, and not otherwise: every worker looks after it every few
// minutes.
func TestHowATargetIsWritten(t *testing.T) {
	if !(checkpoint.Target{Withheld: "denied"}).Open() || (checkpoint.Target{Last: 7}).Open() {
		t.Error("a target is open under a number, or with a reason why there is none")
	}
	virtually(t, func(ctx context.Context, p *place) {
		_, l := p.worker("a")
		made := func(made bool) checkpoint.Target {
			target, err := l.UpdateTarget(ctx, "orders", func(s *checkpoint.Target) error { s.MadeByUs = made; return nil })
			check(t, err)
			return target
		}
		if _, found, err := l.Target(ctx, "orders"); found || err != nil {
			t.Error(found, err)
		}
		first := made(false) // a record of a target that is only known
		if _, found, _ := l.Target(ctx, "orders"); !found || !first.Changed.Equal(task.Now(ctx)) {
			t.Errorf("%+v", first)
		}
		check(t, task.Sleep(ctx, time.Minute))
		if again := made(false); !again.Changed.Equal(first.Changed) {
			t.Errorf("written again though nothing changed: %v", again.Changed)
		}
		if changed := made(true); !changed.Changed.Equal(task.Now(ctx)) {
			t.Errorf("changed at %v", changed.Changed)
		}
	})
}

// Two workers that reserve numbers at once never have the same one.
func TestTargetNumbersAreReservedOnce(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		taken := map[uint64]string{}
		for _, name := range []string{"a", "b"} {
			_, l := p.worker(name)
			for range 5 {
				var n uint64
				_, err := l.UpdateTarget(ctx, "orders", func(s *checkpoint.Target) error { n = s.Last + 1; s.Last = n; return nil })
				if err != nil || taken[n] != "" {
					t.Errorf("%s reserves %d, which %q has: %v", name, n, taken[n], err)
				}
				taken[n] = name
			}
		}
	})
}

// Rows of the former version are read, and are of this one after their next write, so that its
// workers stop there.
func TestRowsOfTheFormerFormatAreTakenOver(t *testing.T) {
	ctx := context.Background()
	store, l := ledgerHolding(t, ctx, "p/table/T", []byte(`{"format":1,"by":"x","n":1,"source":"T","generation":4,"adopted":4,"mapping_hash":"h"}`))
	state, found, err := l.Table(ctx, source)
	if err != nil || !found || state.Generation != 4 {
		t.Fatal(state, found, err)
	}
	_, err = l.UpdateTable(ctx, source, func(s *checkpoint.TableState) error { s.Adopted = 5; return nil })
	check(t, err)
	rows, err := store.Read(ctx, "p/table/T")
	check(t, err)
	if len(rows) != 1 || !strings.Contains(string(rows[0].Data), `"format":2`) || !strings.Contains(string(rows[0].Data), `"mapping_hash":"h"`) {
		t.Errorf("after its next write the row holds %s", rows[0].Data)
	}
}

// Who renews proves that the row is still its own; after a raise adopted it, or another took it,
// nothing is proved (H35).
func TestH35_RenewalProvesALease(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, l := p.worker("a")
		create(t, ctx, l, shard("s", ""))
		shards, err := l.Shards(ctx, source)
		check(t, err)
		held, err := l.Take(ctx, shards[0], nil)
		check(t, err)
		check(t, held.Renew(ctx))
		_, other := p.worker("b")
		_, err = other.Raise(ctx, source, 1, checkpoint.DeclaredGap{Reason: "a gap"}, nil)
		check(t, err)
		if err := held.Renew(ctx); !errors.Is(err, checkpoint.ErrLeaseLost) {
			t.Errorf("a lease that a raise ended is renewed: %v", err)
		}
		lease, err := l.CoordinatorLease(ctx, source)
		check(t, err)
		coordinator, err := l.TakeCoordinatorLease(ctx, lease)
		check(t, err)
		check(t, coordinator.Renew(ctx))
		lease, err = other.CoordinatorLease(ctx, source)
		check(t, err)
		_, err = other.TakeCoordinatorLease(ctx, lease)
		check(t, err)
		if err := coordinator.Renew(ctx); !errors.Is(err, checkpoint.ErrLeaseLost) {
			t.Errorf("a lease that another took is renewed: %v", err)
		}
	})
}
