package sim

import (
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
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
// parked in it is parked, and what is not is missed.
func TestParkedInAGenerationBelowTheOneBefore(t *testing.T) {
	for _, again := range []bool{true, false} {
		failures := judge(oneShard(), func(s *judged) {
			lot := sink.NewParking(Target{s.Target}, "default")
			s.putWith("1", longName, "it cannot be held")
			park := func(generation uint32) {
				b := transform.Fold(s.Mapping, []cdc.Change{s.last()}, transform.Stamp{Generation: generation, Hop: judgedHop})
				s.truth.ledger[s.only().label+"/"+s.only().ID].ranks[rank{generation, judgedHop}] = true
				s.write(Target{s.Target}, b.Rows)
				if err := lot.Park(s.ctx, b.Parked[0]); err != nil {
					s.failf("%v", err)
				}
			}
			park(20)
			s.sleep(time.Second)
			s.LoseLedger()
			s.truth.forgetLedger()
			s.LoseTarget()
			s.truth.forgetTarget()
			s.read()
			if again {
				park(10)
			}
			for _, d := range s.truth.unequal(time.Time{}) {
				s.failf("%s", d)
			}
		})
		expect(t, failures, map[bool]string{false: "cannot be held, and is not parked"}[again])
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
