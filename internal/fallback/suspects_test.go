package fallback

import (
	"context"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// suspecting runs a test with the ledger of a leader and its term, in virtual time. No task looks at
// keys: the test does.
func suspecting(t *testing.T, script func(ctx context.Context, ledger *checkpoint.Ledger, r *term)) {
	t.Helper()
	world := virtual.NewWorld(1, time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), false)
	err := world.Run(time.Hour, func(ctx context.Context) {
		ledger, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "p", checkpoint.Options{Worker: "w", ID: "l"})
		if err != nil {
			t.Error(err)
			return
		}
		_ = task.Sleep(ctx, time.Second)
		script(ctx, ledger, &term{Leader: &Leader{Ledger: ledger, Source: "Orders"}, times: Timings{}.orDefault(), dirty: newDirtySet(), suspects: map[string]*suspect{}})
	})
	if err != nil {
		t.Error(err)
	}
}

// A suspect row is looked at, and its record is removed once a look has settled it.
func TestH143_SuspectsAreLookedAt(t *testing.T) {
	suspecting(t, func(ctx context.Context, ledger *checkpoint.Ledger, r *term) {
		must := func(err error) {
			if err != nil {
				t.Error(err)
			}
		}
		left := func() int {
			all, err := ledger.FallbackSuspects(ctx, "Orders")
			must(err)
			return len(all)
		}
		pass := func() {
			_ = task.Sleep(ctx, r.times.Suspects)
			must(r.examine(ctx))
		}
		take := func(want string) {
			if key, ok := r.dirty.take(task.Mono(ctx), time.Time{}); key != want || ok != (want != "") {
				t.Errorf("looks at %q, %v, want %q", key, ok, want)
			}
		}
		must(ledger.SuspectFallback(ctx, "Orders", "a", "b"))
		must(ledger.SuspectFallback(ctx, "Others", "c"))
		pass()
		take("b") // the order is that of hashes
		take("a")
		take("")
		pass()
		if left() != 2 {
			t.Errorf("%d suspects during their looks", left())
		}
		// A look without success keeps the record, and so does a look that began before the record
		// was written again.
		r.dirty.again("b", 0, time.Time{})
		must(ledger.SuspectFallback(ctx, "Orders", "a"))
		r.dirty.settle("a")
		pass()
		if left() != 2 {
			t.Errorf("%d suspects, none was settled since it was written", left())
		}
		take("b")
		take("a")
		r.dirty.settle("a")
		r.dirty.settle("b")
		if left() != 2 {
			t.Error("removed before the next pass")
		}
		must(r.examine(ctx)) // too early
		if left() != 2 {
			t.Error("the ledger is read more often than planned")
		}
		pass()
		take("")
		if left() != 0 || len(r.suspects) != 0 {
			t.Errorf("%d suspects after their looks", left())
		}
	})
}

// A key that is being looked at when it becomes suspect is looked at again.
func TestH143_ASuspectDuringItsLook(t *testing.T) {
	suspecting(t, func(ctx context.Context, ledger *checkpoint.Ledger, r *term) {
		key := "a"
		r.dirty.record(&track{}, "1", time.Time{}, &key)
		_, _ = r.dirty.take(0, time.Time{})
		if err := ledger.SuspectFallback(ctx, "Orders", "a"); err != nil {
			t.Error(err)
		}
		for i, settled := range []bool{false, true} {
			if err := r.examine(ctx); err != nil {
				t.Error(err)
			}
			r.dirty.settle("a")
			_ = task.Sleep(ctx, r.times.Suspects)
			if err := r.examine(ctx); err != nil {
				t.Error(err)
			}
			if all, err := ledger.FallbackSuspects(ctx, "Orders"); err != nil || len(all) == 0 != settled {
				t.Errorf("%d suspects after look %d, %v", len(all), i+1, err)
			}
			_, _ = r.dirty.take(task.Mono(ctx), time.Time{})
			_ = task.Sleep(ctx, r.times.Suspects)
		}
	})
}

// A full dirty set takes no more suspects. They stay in the ledger.
func TestH143_SuspectsWaitForRoom(t *testing.T) {
	suspecting(t, func(ctx context.Context, ledger *checkpoint.Ledger, r *term) {
		for i := range mostKeys {
			r.dirty.entries[string(rune(0x10000+i))] = &entry{}
		}
		if err := ledger.SuspectFallback(ctx, "Orders", "a"); err != nil {
			t.Error(err)
		}
		for _, taken := range []bool{false, true} {
			if err := r.examine(ctx); err != nil || (r.suspects["a"] != nil) != taken {
				t.Errorf("taken %v, want %v: %v", r.suspects["a"] != nil, taken, err)
			}
			delete(r.dirty.entries, string(rune(0x10000)))
			_ = task.Sleep(ctx, r.times.Suspects)
		}
	})
}
