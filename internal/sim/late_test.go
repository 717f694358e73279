package sim

import (
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
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
			put := func(user, until string) attribute.Item {
				s.Source.Put(attribute.NewItem([]attribute.Attribute{
					{Name: "id", Value: number("35")}, {Name: "kind", Value: attribute.String("member")}, {Name: "user", Value: attribute.String(user)}, {Name: "until", Value: number(until)},
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

// A root that listings left out at first is written down by the keeper between the look that admitted a load and the note that it began: it will have been read when
// the load ends. One that was known before that is waited for.
func TestARootThatIsFoundWhileALoadBegins(t *testing.T) {
	for _, late := range []bool{true, false} {
		failures := judge(func(w *virtual.World) *Migration { return NewMigration(w, 2) }, func(s *judged) {
			s.truth.ledger = map[string]*seenShard{}
			ledger, err := checkpoint.Open(s.ctx, s.Store(), "default", checkpoint.Options{Worker: "a", ID: "ledger-1", Lease: time.Minute})
			check := func(err error) {
				if err != nil {
					t.Fatal(err)
				}
			}
			check(err)
			stream := s.Source.Stream()
			create := func(sh *Shard) {
				check(ledger.CreateShard(s.ctx, checkpoint.Shard{Source: s.Source.Name, StreamARN: stream.ARN, Label: sh.label, ID: sh.ID, State: checkpoint.Waiting, Hop: judgedHop, Generation: 1}))
			}
			update := func(change func(*checkpoint.TableState)) {
				_, err := ledger.UpdateTable(s.ctx, s.Source.Name, func(t *checkpoint.TableState) error { change(t); return nil })
				check(err)
			}
			first, other := stream.Shards[0], stream.Shards[1]
			other.Hidden = true
			_, err = stream.ListPage(s.ctx, "", "")
			check(err)
			create(first)
			update(func(t *checkpoint.TableState) {
				t.Generation, t.Adopted, t.Listed, t.Label, t.StreamARN = 1, 1, 1, stream.Label, stream.ARN
			})
			rows, err := ledger.Shards(s.ctx, s.Source.Name)
			check(err)
			lease, err := ledger.Take(s.ctx, rows[0], nil)
			check(err)
			at, err := stream.Seek(s.ctx, first.ID, cdc.Position{})
			check(err)
			page, err := stream.Read(s.ctx, at)
			check(err)
			check(lease.Commit(s.ctx, checkpoint.Progress{FirstRead: page.At, ReadAt: page.At, CaughtUp: true}))
			if !late {
				create(other)
			}
			s.sleep(2 * time.Second)
			began := s.World.Now().Truncate(time.Second)
			s.sleep(time.Second)
			if late {
				create(other)
			}
			update(func(t *checkpoint.TableState) { t.Load = checkpoint.Load{Generation: 1, StartedAt: began} })
		})
		expect(t, failures, map[bool]string{false: "I1: the load begins before root"}[late])
	}
}
