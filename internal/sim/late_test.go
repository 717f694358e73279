package sim

import (
	"context"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/internal/virtual"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// What comes late, from before something that the checkers judge by.

// A repair that finds the row as it should be writes nothing. A repair before it, of what the item was for a while, may come just then: the changes that
// brought the item back outrank it, and are still to come.
func TestAnEarlierRepairOfAnItemThatCameBack(t *testing.T) {
	for _, late := range []bool{true, false} {
		failures := judge(oneShard(), func(s *judged) {
			target := Target{s.Target}
			s.put("1", "a")
			parked := transform.Parked{Source: s.Mapping.Source, Key: s.Mapping.ItemKey(s.last().New), Change: s.last()}
			if late {
				s.write(target, s.fold(s.last()).Rows)
			}
			s.put("1", "b")
			if !late {
				s.write(target, s.fold(s.last()).Rows)
			}
			if err := s.repair(s, "1"); late == (err == nil) {
				s.failf("the first repair: %v", err)
			}
			s.put("1", "a")
			s.sleep(time.Second)
			began := s.World.Elapsed()
			if late {
				if err := s.repair(target, "1"); err != nil {
					s.failf("%v", err)
				}
				s.arrive()
			} else { // which a repair is to mend
				keys := s.Mapping.Keys(s.last().New)
				item, id, number, _ := s.Source.get(s.ctx, keys)
				s.truth.operator.given[id] = append(s.truth.operator.given[id], reading{item, number})
			}
			s.truth.operator.s = &simulation{Migration: s.Migration, truth: s.truth}
			s.truth.operator.checkRetried(began, []transform.Parked{parked}, nil)
		})
		expect(t, failures, map[bool]string{false: "I9: item"}[late])
	}
}

// A repair finds that a row holds the values of an image that it has read, and writes nothing. That their cells are to expire at another time comes with the change,
// which is still to be applied. Other values are to be written.
func TestARepairOfWhatExpiresAtAnotherTime(t *testing.T) {
	shape := shapeNamed("mappings/expiring")
	build := func(w *virtual.World) *Migration { return NewMigrationBy(w, 1, shape.mapping, shape.families...) }
	for _, same := range []bool{true, false} {
		failures := judge(build, func(s *judged) {
			s.truth.layout = shape.layout
			s.truth.operator = newOperator(&simulation{Migration: s.Migration, truth: s.truth})
			put := func(user, until string) cdc.Item {
				s.Source.Put(cdc.NewItem([]cdc.Attribute{
					{Name: "id", Value: number("35")}, {Name: "kind", Value: cdc.String("member")}, {Name: "user", Value: cdc.String(user)}, {Name: "until", Value: number(until)},
				}))
				return s.Mapping.Keys(s.last().New)
			}
			keys := put("joe", "1793500000")
			s.write(Target{s.Target}, s.fold(s.last()).Rows)
			parked := transform.Parked{Source: s.Mapping.Source, Key: s.Mapping.ItemKey(keys), Change: s.last()}
			s.sleep(time.Second)
			began := s.World.Elapsed()
			if same {
				put("joe", "1793600000")
				if done, err := s.repairItem(Target{s.Target}, keys); err != nil || done.Written > 0 {
					s.failf("the repair: %v, %v", done, err)
				}
			} else { // it should have been repaired
				put("ann", "1793500000")
				item, id, at, _ := s.Source.get(s.ctx, keys)
				s.truth.operator.given[id] = append(s.truth.operator.given[id], reading{item, at})
			}
			s.truth.operator.checkRetried(began, []transform.Parked{parked}, nil)
		})
		expect(t, failures, map[bool]string{false: "I9: item"}[same])
	}
}

// checkLimit checks the policy as of a run that ends above one parked item.
func (s *judged) checkLimit() {
	run := &simulation{Migration: s.Migration, truth: s.truth}
	run.Policy = policy{maxParked: 1}
	run.checkPolicy()
	for _, f := range run.failures {
		s.failf("%s", f)
	}
}

// A record that comes late, of what a later change had outdone before the target was lost, is counted by nobody, though the target does not tell of the later
// change any more. One of what nothing has outdone is counted.
func TestAnItemThatIsParkedAfterTheTargetWasLost(t *testing.T) {
	for _, outdone := range []bool{true, false} {
		failures := judge(oneShard(), func(s *judged) {
			lot := sink.NewParking(Target{s.Target}, "default")
			check := func(err error) {
				if err != nil {
					s.failf("%v", err)
				}
			}
			s.putWith("2", longName, "it cannot be held")
			other := s.fold(s.last())
			s.write(Target{s.Target}, other.Rows)
			check(lot.Park(s.ctx, other.Parked[0]))
			s.putWith("1", longName, "it cannot be held")
			first := s.fold(s.last()).Parked[0]
			s.put("1", "a")
			if outdone {
				s.write(Target{s.Target}, s.fold(s.last()).Rows)
			}
			s.sleep(time.Second)
			s.LoseTarget()
			s.truth.forgetTarget()
			check(lot.Park(s.ctx, first))
			s.checkLimit()
		})
		expect(t, failures, map[bool]string{false: "I5: 2 items are parked"}[outdone])
	}
}

// Where the ledger and the target are lost at once, the next generation is told by a clock, which may be behind the one that told the generation before. What is
// parked in it is parked, or given up, and what is not is missed.
func TestParkedInAGenerationBelowTheOneBefore(t *testing.T) {
	for _, c := range []struct{ again, removed, givenUp bool }{{again: true}, {}, {again: true, removed: true, givenUp: true}, {again: true, removed: true}} {
		failures := judge(oneShard(), func(s *judged) {
			lot := sink.NewParking(Target{s.Target}, "default")
			s.putWith("1", longName, "it cannot be held")
			park := func(generation uint32) transform.Parked {
				b := transform.Fold(s.Mapping, []cdc.Change{s.last()}, transform.Stamp{Generation: generation, Hop: judgedHop})
				s.truth.ledger[s.only().label+"/"+s.only().ID].ranks[rank{generation, judgedHop}] = true
				s.write(Target{s.Target}, b.Rows)
				if err := lot.Park(s.ctx, b.Parked[0]); err != nil {
					s.failf("%v", err)
				}
				return b.Parked[0]
			}
			park(20)
			s.sleep(time.Second)
			s.LoseLedger()
			s.truth.forgetLedger()
			s.LoseTarget()
			s.truth.forgetTarget()
			s.read()
			if c.again {
				p := park(10)
				s.truth.operator = newOperator(&simulation{Migration: s.Migration, truth: s.truth})
				s.truth.operator.gaveUp[parkedRow{p.Key, string(p.Version)}] = c.givenUp
				if c.removed && lot.Remove(s.ctx, sink.RefOf(p)) != nil {
					s.failf("it stays parked")
				}
			}
			for _, d := range s.truth.unequal(time.Time{}) {
				s.failf("%s", d)
			}
		})
		expect(t, failures, map[bool]string{false: "cannot be held, and is not parked"}[c.again && c.removed == c.givenUp])
	}
}

// A gap is an alarm until something was lost, of the table itself or of what it shares with its neighbour, and until that was lost of which it tells.
func TestAGapBeforeALoss(t *testing.T) {
	with := func(beside beside) uint64 {
		seed := uint64(0)
		for drawNeighbour(seed) != beside {
			seed++
		}
		return seed
	}
	for _, c := range []struct {
		beside beside
		table  string
		fault  string
		fails  bool
		reason string
	}{
		{alone, "Orders", "shard gone", true, "the table has a new stream"}, {alone, "Orders", "new stream", false, "the table has a new stream"},
		{alone, "Orders", "", true, ""}, {alone, "Orders", "process killed", true, ""}, {alone, "Orders", "shard gone", false, ""},
		{ownTarget, "Orders2", "shard gone", true, ""}, {ownTarget, "Orders2", "target lost", true, ""}, {ownTarget, "Orders2", "ledger lost", false, ""},
		{sameTarget, "Orders2", "target lost", false, ""}, {sameTarget, "Orders", "target lost", false, ""},
	} {
		s := newSimulation(newPlan(with(c.beside), SimOptions{}), SimOptions{})
		if c.fault != "" {
			s.World.Inject(c.fault)
		}
		row := &Row{}
		row.set(ledgerFamily, recordColumn, modelCell{0, `{"gap_count":1,"reason":"` + c.reason + `"}`})
		s.checkGap(stateTable, "default/table/"+c.table, &Row{}, row)
		if failed := len(s.report().Failures) > 0; failed != c.fails {
			t.Errorf("%v, after %q: %q", c, c.fault, s.report().Failures)
		}
	}
}

// What an operator has let go may come back by a late request, and is forgotten for a reason then, or not at all.
func TestWhatComesBackAfterTheOperatorLetItGo(t *testing.T) {
	for _, later := range []bool{false, true} {
		failures := judge(oneShard(), func(s *judged) {
			lot := sink.NewParking(Target{s.Target}, "default")
			run := &simulation{Migration: s.Migration, truth: s.truth}
			s.truth.operator = newOperator(run)
			s.putWith("1", longName, "it cannot be held")
			b := s.fold(s.last())
			s.write(Target{s.Target}, b.Rows)
			check := func(err error) {
				if err != nil {
					s.failf("%v", err)
				}
			}
			check(lot.Park(s.ctx, b.Parked[0]))
			check(s.truth.operator.remove(s.ctx, sink.RefOf(b.Parked[0])))
			check(lot.Park(s.ctx, b.Parked[0])) // late
			if later {
				s.sleep(s.Target.LateBy + 2*time.Minute)
			}
			check(lot.Remove(s.ctx, sink.RefOf(b.Parked[0])))
		})
		expect(t, failures, map[bool]string{true: "I3: the change parked at"}[later])
	}
}

// A repair comes late to a target that was restored for as long as one that was begun before may: what comes after that knows how the target is.
func TestARepairLongAfterTheTargetWasRestored(t *testing.T) {
	for _, long := range []bool{false, true} {
		failures := judge(oneShard(), func(s *judged) {
			target := Target{s.Target}
			s.put("1", "a")
			s.write(target, s.fold(s.last()).Rows)
			before := s.backUpTarget()
			s.put("1", "b")
			s.write(target, s.fold(s.last()).Rows)
			s.put("1", "c")
			if err := s.repair(s, "1"); err == nil {
				s.failf("the repair has an answer")
			}
			s.restore(before)
			if long {
				s.sleep(decisionTime + s.Target.LateBy + 2*time.Minute)
			}
			s.arrive()
		})
		expect(t, failures, map[bool]string{true: "I9"}[long])
	}
}

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
			s.sleep(age + time.Second)
			for s.row("1") != nil {
				s.Target.Collect("orders", sink.GoneFamily, age)
			}
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
						s.Source.Delete(cdc.NewItem(key))
						continue
					}
					s.Source.Put(cdc.NewItem(append(key, cdc.Attribute{Name: "value", Value: cdc.String(value)})))
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
