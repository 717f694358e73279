package sim

import (
	"context"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// What comes after a tombstone was collected, which nothing in the target tells of any more.

// A target that was restored holds tombstones of which nothing was written since, and they are collected as others are: by then a repair may have read one, however
// long after. A repair that counts on from what the target did not hold when it was restored is seen.
func TestARepairOfATombstoneThatWasRestored(t *testing.T) {
	for _, held := range []bool{true, false} {
		failures := judge(oneShard(), func(s *judged) {
			target, age := Target{s.Target}, 4*time.Hour
			before := s.backUpTarget()
			s.put("1", "a")
			s.del("1")
			s.write(target, s.fold(s.last()).Rows)
			if held {
				before = s.backUpTarget()
			}
			other := s.backUpTarget()
			s.restore(before)
			s.sleep(2 * time.Hour)
			s.put("1", "b")
			if !held { // as if it were there
				s.RestoreTarget(other)
			}
			if err := s.repair(s, "1"); err == nil {
				s.failf("the repair has an answer")
			}
			s.collect("1", age)
			s.arrive()
		})
		expect(t, failures, map[bool]string{false: "I9"}[held])
	}
}

// So may who has found in it that a parked change is obsolete: its record is forgotten by a request that comes later.
func TestForgottenForATombstoneThatWasRestored(t *testing.T) {
	for _, held := range []bool{true, false} {
		failures := judge(oneShard(), func(s *judged) {
			age, lot := time.Hour, sink.NewParking(Target{s.Target}, "default")
			check := func(err error) {
				if err != nil {
					s.failf("%v", err)
				}
			}
			s.putWith("1", longName, "it cannot be held")
			parked := s.fold(s.last()).Parked[0]
			s.del("1")
			before := s.backUpTarget()
			s.write(Target{s.Target}, s.fold(s.last()).Rows)
			if held {
				before = s.backUpTarget()
			}
			s.restore(before)
			s.sleep(time.Second)
			check(lot.Park(s.ctx, parked)) // late
			if held {
				s.collect("1", age)
			}
			check(lot.Remove(s.ctx, sink.RefOf(parked)))
		})
		expect(t, failures, map[bool]string{false: "I3: the change parked at"}[held])
	}
}

// A load writes a row whose tombstone is collected, and then a repair arrives, whose version outranks the load's. The operator may have read the row before,
// and counts on from the tombstone, or after, and counts on from what the load wrote.
func TestARepairAndALoadAfterATombstone(t *testing.T) {
	for _, c := range []struct{ before, read bool }{{true, true}, {true, false}, {false, true}, {false, false}} {
		failures := judge(oneShard(), func(s *judged) {
			target, age := Target{s.Target}, time.Hour
			repair := func() {
				if err := s.repair(s, "1"); err == nil {
					s.failf("the repair has an answer")
				}
			}
			s.put("1", "a")
			s.del("1")
			s.write(target, s.fold(s.last()).Rows)
			s.put("1", "b")
			if c.before {
				repair()
			}
			s.collect("1", age)
			s.write(target, transform.Load(s.Mapping, s.Source.Items(), 1, s.World.Now()).Rows)
			if !c.before {
				s.put("1", "c") // or there would be nothing to repair
				repair()
			}
			if !c.read {
				clear(s.truth.operator.given)
			}
			s.arrive()
		})
		expect(t, failures, map[bool]string{false: "I9"}[c.read])
	}
}

// A remove that comes again after its tombstone was collected may come in parts: the pages of who reads it again end elsewhere. Each part removes what is not there,
// or what a load or a repair has read since, which the item's next change brings back. What is put where nothing tells of the remove any more is a zombie.
func TestPagesThatEndElsewhereAfterATombstone(t *testing.T) {
	const age = time.Hour
	for name, c := range map[string]struct {
		before  func(s *judged) // before the collection
		between func(s *judged) // between that and what comes again
		after   func(s *judged) // the first part
		zombie  bool
		want    string
	}{
		"over nothing": {},
		"over a load": {between: func(s *judged) {
			s.write(Target{s.Target}, transform.Load(s.Mapping, s.Source.Items(), 1, s.World.Now()).Rows)
		}},
		"then a repair": {after: func(s *judged) { s.mended("1") }},
		"then a repair of before": {
			before: func(s *judged) {
				s.put("1", "restored")
				if err := s.repair(s, "1"); err == nil {
					s.failf("the repair has an answer")
				}
			},
			after: func(s *judged) { s.arrive() },
		},
		"then another read of the item than the repair's": {after: func(s *judged) {
			if err := s.repair(s, "1"); err == nil {
				s.failf("the repair has an answer")
			}
			clear(s.truth.operator.given)
			s.arrive()
		}, want: "I9"},
		"an image": {zombie: true, want: "I8"},
	} {
		failures := judge(oneShard(), func(s *judged) {
			s.TombstoneAge, s.MaxImageAge = age, age/2
			var changes []transform.Batch
			for _, value := range []string{"a", "", "b", ""} {
				if value == "" {
					s.del("1")
				} else {
					s.put("1", value)
				}
				changes = append(changes, s.fold(s.last()))
			}
			removed, put, again := changes[1].Rows, changes[2].Rows, changes[3].Rows
			s.write(Target{s.Target}, again)
			if c.before != nil {
				c.before(s)
			}
			s.collect("1", age)
			s.put("1", "c")
			if c.between != nil {
				c.between(s)
			}
			s.write(Target{s.Target}, removed)
			if c.after != nil {
				c.after(s)
			}
			if !c.zombie { // it is too old to be put
				put[0].Remove, put[0].Cells = true, nil
			}
			s.write(Target{s.Target}, put)
			s.write(Target{s.Target}, again)
			s.write(Target{s.Target}, s.fold(s.last()).Rows)
		})
		t.Run(name, func(t *testing.T) { expect(t, failures, c.want) })
	}
}

// The same in whole runs: a worker goes before it has committed what it applied page by page, and the pages are empty for more than an hour. Who comes after it puts
// what is too old aside, or else it is seen.
func TestReadAgainAfterTombstonesAreGone(t *testing.T) {
	for _, aside := range []bool{true, false} {
		var failures []string
		collected := 0
		for seed := uint64(1); seed <= 4; seed++ {
			p := calmPlan(seed)
			p.tombstoneAge, p.writes = time.Hour, nil
			failures = append(failures, played(p, func(s *simulation, ctx context.Context) {
				s.Source.PageSize = 1
				_ = task.Sleep(ctx, 2*time.Hour)
				key := s.plan.keyOf(0)
				for _, value := range []string{"a", "b", "", "c", ""} {
					if value == "" {
						s.Source.Delete(attribute.NewItem(key))
						continue
					}
					s.Source.Put(attribute.NewItem(append(key, attribute.Attribute{Name: "value", Value: attribute.String(value)})))
				}
				sh := s.Source.Stream().Open()[0]
				for sh.given < len(sh.records) && task.Sleep(ctx, time.Second) == nil {
				}
				_ = task.Sleep(ctx, 5*time.Second)
				if !aside {
					s.MaxImageAge = 0
				}
				s.crew[0].worker.Kill()
				sh.EmptyPages = 19
				_ = task.Sleep(ctx, 3*time.Hour)
				collected += s.World.Injected()["tombstone collected"]
			})...)
		}
		if aside && collected == 0 {
			t.Error("no tombstone was collected")
		}
		expect(t, failures, map[bool]string{false: "I8: row"}[aside])
	}
}

// collect lets an item's tombstone grow old and be collected.
func (j *judged) collect(key string, age time.Duration) {
	j.sleep(age + time.Second)
	for j.row(key) != nil {
		j.Target.Collect("orders", sink.GoneFamily, age)
	}
}

// mended repairs an item whose row is not as it should be.
func (j *judged) mended(key string) {
	before := j.row(key)
	if err := j.repair(Target{j.Target}, key); err != nil || j.row(key) == before {
		j.failf("the repair: %v", err)
	}
}
