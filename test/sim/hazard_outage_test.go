package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
)

// The hazards of this file concern capacity, credentials and clocks: temporary failures must have
// no lasting effect.

// slowCopy begins a copy that takes about the given time, and calls step at regular times
// meanwhile. In the end the table is in sync.
func (s *scene) slowCopy(items int, takes time.Duration, steps int, step func(n int)) {
	s.unhurried()
	for i := range items {
		s.put(fmt.Sprint(i), "before")
	}
	s.Source.EnableStream(2)
	s.Start("a", func(o *engine.Options) {
		o.Tables[0].Limits.RowsPerSecond = perSecond(float64(items) / takes.Seconds())
	})
	for n := range steps {
		s.put(fmt.Sprint(n%7), fmt.Sprint("v", n))
		step(n)
	}
	if s.State().Loaded() {
		s.failf("the copy took less than %s", s.World.Now().Sub(start))
	}
	s.inSync(19 * time.Hour)
}

// TestH34_CopyOfDays: a copy may take longer than the rows of finished shards stay in the ledger. A
// shard that began during the copy, and whose parent's row was removed, is not a root that was read
// too late (I5).
func TestH34_CopyOfDays(t *testing.T) {
	play(t, 2, 1, func(s *scene) {
		s.slowCopy(60, 100*time.Hour, 20, func(int) {
			for _, sh := range s.Source.Stream().Open() {
				s.Source.Stream().Roll(sh)
			}
			s.sleep(4 * time.Hour)
		})
	})
}

// TestH01_CopyStoppedInTheMiddle: after a clean stop during a copy, the next worker continues it
// (I1).
func TestH01_CopyStoppedInTheMiddle(t *testing.T) {
	play(t, 10, 1, func(s *scene) {
		s.Source.Stream().Ended = true // items outside the stream are only in the copy
		for i := range 40 {
			s.put(fmt.Sprint(i), "before")
		}
		s.Source.Stream().Ended = false
		slowly := func(o *engine.Options) { o.Tables[0].Limits.RowsPerSecond = perSecond(1) }
		a := s.Start("a", slowly)
		s.until(5*time.Minute, "the copy begins", func() bool { return !s.State().Load.StartedAt.IsZero() })
		s.sleep(5*time.Second + s.upTo(5*time.Second))
		s.stop(a)
		if s.State().Loaded() {
			s.failf("a copy that was stopped counts as complete")
		}
		s.Start("b", slowly)
		s.inSync(10 * time.Minute)
	})
}

// TestH34_RootFirstReadAfterTheCopy: a root that is listed during the copy must be read before the
// copy counts as complete (I5).
func TestH34_RootFirstReadAfterTheCopy(t *testing.T) {
	play(t, 5, 2, func(s *scene) {
		s.unhurried()
		for i := range 20 {
			s.put(fmt.Sprint(i), "before")
		}
		began, late := s.World.Now(), s.Source.EnableStream(2).Shards[1]
		late.ListedFrom = began.Add(time.Hour)
		s.Source.Fault = func(op, shard string) error {
			if shard == late.ID && s.World.Now().Before(began.Add(12*time.Hour)) {
				return model.Fail(op, cdc.Unavailable)
			}
			return nil
		}
		s.Start("a", func(o *engine.Options) { o.Tables[0].Limits.RowsPerSecond = perSecond(20.0 / (4 * 3600)) })
		s.sleep(2 * time.Hour)
		for i := range 20 {
			s.put(fmt.Sprint(i), "while it is copied")
		}
		s.sleep(9 * time.Hour)
		if s.State().Loaded() {
			s.failf("the copy is complete, and a root was not read yet")
		}
		s.inSync(6 * time.Hour)
	})
}

// TestH52_HotKey: one item receives a thousand writes a second. A page of them becomes one write of
// its row, and the lag stays small (I10).
func TestH52_HotKey(t *testing.T) {
	play(t, 2, 1, func(s *scene) {
		s.running("a")
		rows := 0
		s.onWrite("hot", func(n int) { rows = n })
		for i := range 15 {
			for j := range 1000 {
				s.put("hot", fmt.Sprint("v", i, " ", j))
			}
			s.put("cold", fmt.Sprint("v", i))
			s.sleep(time.Second)
		}
		s.inSync(5 * time.Second)
		if rows > 100 {
			s.failf("%d writes of one row for 15 pages of changes", rows)
		}
	})
}

// TestH53_ThrottledDiscovery: half of all calls are throttled, and nine of ten listings. Children
// are still found, and the coordinator keeps its lease: a failed call is retried where it failed,
// and throttling is no reason to release the lease (I10).
func TestH53_ThrottledDiscovery(t *testing.T) {
	play(t, 10, 1, func(s *scene) {
		s.Source.Fault = func(op, _ string) error {
			if most := s.World.Rand().IntN(10); most < 5 || op == "DescribeStream" && most < 9 {
				return model.Fail(op, cdc.Throttled)
			}
			return nil
		}
		s.Target.Fault = func(op, table, _ string) error {
			if op == "ReadRows" && table == model.StateTable && s.World.Rand().IntN(10) < 3 {
				return &sink.Error{Op: op, Reason: sink.Throttled, Code: "ResourceExhausted"}
			}
			return nil
		}
		s.put("k", "v")
		coordinators := 0
		s.Start("a", func(o *engine.Options) { o.Events.CoordinatorTaken = func(string, uint64) { coordinators++ } })
		s.inSync(2 * time.Hour)
		s.Source.Stream().Split(s.only())
		s.put("k", "child")
		s.inSync(2 * time.Hour)
		if coordinators != 1 {
			s.failf("the seat was taken %d times", coordinators)
		}
	})
}

// TestH63_CredentialsExpire: both services deny every call for some hours. No worker ends, and the
// first allowed call continues where the last one failed (I10).
func TestH63_CredentialsExpire(t *testing.T) {
	play(t, 5, 1, func(s *scene) {
		a := s.running("a")
		until := s.World.Now().Add(5 * time.Hour)
		s.Source.Fault = func(op, _ string) error {
			if s.World.Now().Before(until) {
				return model.Fail(op, cdc.Denied)
			}
			return nil
		}
		s.Target.Fault = func(op, _, _ string) error {
			if s.World.Now().Before(until) {
				return &sink.Error{Op: op, Reason: sink.Denied, Code: "PermissionDenied"}
			}
			return nil
		}
		s.put("k", "written meanwhile")
		s.sleep(5 * time.Hour)
		s.inSync(5 * time.Minute)
		if a.Over {
			s.failf("the worker ended with %v", a.Err)
		}
	})
}

// TestH63_OneWorkerWithoutTheSource: the credentials of one worker are refused, another's are
// valid. The worker that cannot read could renew its leases for ever, because they are in Bigtable.
// It releases them and the coordinator lease to the other (I10). If it is alone, it keeps trying.
func TestH63_OneWorkerWithoutTheSource(t *testing.T) {
	play(t, 5, 2, func(s *scene) {
		refused := ""
		s.Source.Fault = func(op, _ string) error {
			if s.World.Running() == refused {
				return model.Fail(op, cdc.Denied)
			}
			return nil
		}
		a := s.running("a")
		refused = "a"
		s.put("k", "while a is alone")
		s.sleep(time.Hour)
		if s.value("k") != "" {
			s.failf("somebody has read it")
		}
		b := s.Start("b")
		for i := range 6 {
			s.put("k", fmt.Sprint("v", i))
			s.equal(3 * time.Minute)
			s.Source.Stream().Roll(s.only()) // its child must be found
		}
		refused = "b" // a's credentials are valid again
		s.put("k", "last")
		// b may acquire the child too, after a has found it, and then releases it as well.
		s.inSync(5 * time.Minute)
		for _, w := range []*Worker{a, b} {
			if w.Over {
				s.failf("%s ended with %v", w.Name(), w.Err)
			}
		}
	})
}

// TestH64_ClockJumps: workers' clocks jump back and forth by an hour. Leases are judged by counters
// and monotonic time, and the server stamps tombstones. So no lease is lost and no version is
// affected (I6, I8).
func TestH64_ClockJumps(t *testing.T) {
	play(t, 20, 2, func(s *scene) {
		a := s.running("a")
		b := s.Start("b")
		s.until(3*time.Minute, "each has its share", func() bool { return s.held()["a"] == 1 && s.held()["b"] == 1 })
		epochs := map[string]uint64{}
		for _, shard := range s.Shards() {
			epochs[shard.ID] = shard.Epoch
		}
		for i := range 30 {
			s.put(fmt.Sprint(i%5), fmt.Sprint("v", i))
			s.del(fmt.Sprint((i + 2) % 5))
			a.Skew(time.Duration(s.World.Rand().IntN(3)-1) * time.Hour)
			b.Skew(time.Duration(s.World.Rand().IntN(3)-1) * time.Hour)
			s.sleep(s.upTo(5 * time.Second))
		}
		s.Source.Stream().Roll(s.only())
		s.inSync(5 * time.Minute)
		for _, shard := range s.Shards() {
			if shard.Epoch > max(epochs[shard.ID], 1) {
				s.failf("shard %s changed hands: epoch %d, then %d", shard.ID, epochs[shard.ID], shard.Epoch)
			}
		}
	})
}

// TestStopEndsReads: a clean stop does not wait for answers of the source, and releases the leases,
// so that the successor can read immediately.
func TestStopEndsReads(t *testing.T) {
	play(t, 20, 2, func(s *scene) {
		a := s.running("a")
		s.put("k", "before")
		s.inSync(time.Minute)
		s.Source.Latency = time.Hour // the service hangs
		s.sleep(10*time.Second + s.upTo(10*time.Second))
		asked := s.World.Now()
		s.stop(a)
		if took := s.World.Now().Sub(asked); took > time.Second {
			s.failf("the stop took %s", took)
		}
		for _, shard := range s.Shards() {
			if shard.Owner != "" {
				s.failf("shard %s is left to %s", shard.ID, shard.Owner)
			}
		}
		s.Source.Latency = 20 * time.Millisecond
		s.Start("b")
		s.put("k", "after")
		s.inSync(s.Lease / 2)
	})
}

// TestH75_FirstReadADayAfterTheStart: a worker that loads nothing ends right after its start, and
// the next one starts more than a day later. Changes after the start were trimmed unread, and no
// load covers them (I5).
func TestH75_FirstReadADayAfterTheStart(t *testing.T) {
	for _, known := range []int{0, 2} { // shards in the ledger when the worker ends
		firstReadADayLater(t, known, fromNow)
		firstReadADayLater(t, known, fromHorizon)
	}
}

func firstReadADayLater(t *testing.T, known int, unloaded func(*engine.Options)) {
	play(t, 10, 2, func(s *scene) {
		s.Source.Fault = func(op, _ string) error {
			if op == "GetRecords" || op == "DescribeStream" && known == 0 {
				return model.Fail(op, cdc.Unavailable)
			}
			return nil
		}
		a := s.Start("a", unloaded)
		s.until(time.Minute, "begun", func() bool { return s.State().Generation > 0 && len(s.Shards()) == known })
		s.sleep(5 * time.Second)
		a.Kill()
		s.sleep(15 * time.Minute)
		s.put("k", "after the start")
		s.Source.Fault = nil
		for range 6 {
			s.sleep(4 * time.Hour)
			s.Source.Stream().Roll(s.only())
		}
		s.sleep(time.Hour)
		s.Start("b", unloaded)
		s.gap(5*time.Minute, "may be lost")
		s.readsOn(5*time.Minute, "k")
	})
}

// perSecond returns a limit for loads.
func perSecond(rows float64) *float64 { return &rows }
