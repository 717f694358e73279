package status

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
)

// TestHappened: the differences between two readings of a ledger are reported once, whichever
// worker made them.
func TestHappened(t *testing.T) {
	play(t, func(ctx context.Context, s *scene) {
		a := s.worker("a")
		s.worker("b")
		before := judged(TableInput{})
		step := func(what string, want ...string) {
			t.Helper()
			after := s.status(ctx)
			var got []string
			for _, e := range happened(before, after) {
				if !slices.Contains(admin.EventKinds, e.Kind) {
					t.Errorf("%s: the kind %q is not known", what, e.Kind)
				}
				text := e.Kind
				for _, part := range []string{e.Phase, e.Worker, e.Shard, e.Reason} {
					if part != "" {
						text += " " + part
					}
				}
				got = append(got, text)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s:\n got %q\nwant %q", what, got, want)
			}
			if again := happened(after, s.status(ctx)); len(again) > 0 {
				t.Errorf("%s: told again: %+v", what, again)
			}
			before = after
		}
		s.begin(ctx, a, "s1", "s2")
		step("the start", "phase copy", "generation", "copy_started")
		row, err := a.CoordinatorLease(ctx, "Orders")
		s.check(err)
		coordinator, err := a.TakeCoordinatorLease(ctx, row)
		s.check(err)
		s.copied(ctx, a, 300)
		first, second := s.take(ctx, "a", "s1"), s.take(ctx, "b", "s2")
		s.check(second.Commit(ctx, s.read(ctx, second, 0, time.Time{}, 0)))
		step("two workers", "worker_came a", "worker_came b", "shard_started s1", "shard_started s2", "copy_progress")
		s.loaded(ctx, a)
		s.check(first.Finish(ctx, s.read(ctx, first, 5, noon, 0)))
		s.create(ctx, a, "s3", "s1")
		third := s.take(ctx, "a", "s3")
		s.check(third.Finish(ctx, s.read(ctx, third, 5, noon, 0)))
		step("a shard that came and went", "phase in_sync", "shard_done s1", "shard_started s3", "shard_done s3", "copy_done")
		for range 10 {
			s.sleep(ctx, 5*time.Second)
			s.check(coordinator.SavePace(ctx, checkpoint.Pace{}))
		}
		step("a frozen worker", "phase copy", "worker_silent b")
		lease := s.take(ctx, "a", "s2")
		step("its work is taken over", "worker_left b")
		s.check(lease.Declare(ctx, checkpoint.NotFound, "GetRecords: not found"))
		_, err = a.Raise(ctx, "Orders", 7, checkpoint.DeclaredGap{Shard: "s2", Reason: "GetRecords: not found"}, nil)
		s.check(err)
		s.parked = 3
		step("a gap", "gap s2 GetRecords: not found", "generation", "needs_load GetRecords: not found", "parked")
		s.parked = 0
		step("decided", "parked")
	})
}

func TestWaitsAreCoalesced(t *testing.T) {
	var c Coalesced
	for _, call := range []struct {
		reason string
		now    time.Duration
		want   time.Duration // negative: not reported
	}{
		{"rows", 0, time.Second}, {"rows", time.Second, -1}, {"reads", time.Second, time.Second}, {"rows", 9 * time.Second, -1},
		{"rows", 10 * time.Second, 3 * time.Second}, {"rows", 19 * time.Second, -1}, {"rows", 20 * time.Second, 2 * time.Second},
	} {
		sum, tell := c.Add("Orders", call.reason, time.Second, call.now)
		if tell != (call.want >= 0) || tell && sum != call.want {
			t.Errorf("%s at %s: %s, %t", call.reason, call.now, sum, tell)
		}
	}
}
