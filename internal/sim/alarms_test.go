package sim

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/virtual"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// judged is a migration without workers: what they would write is made by hand, and the checkers look on.
type judged struct {
	*scene
	truth *truth
	held  *sink.Request // the last request that was held back
}

// judge plays a script in which generation 1 reads shards at one hop. It returns what the checkers say.
func judge(build func(w *virtual.World) *Migration, script func(s *judged)) []string {
	return perform(0, false, build, func(s *scene) {
		j := &judged{scene: s, truth: newTruth(s.Migration)}
		j.truth.loads[1] = true
		j.read()
		script(j)
	}).failures
}

func oneShard(rowKey ...string) func(w *virtual.World) *Migration {
	return func(w *virtual.World) *Migration { return NewMigration(w, 1, rowKey...) }
}

const judgedHop = 500000

// read lets the ledger know the shards of the stream.
func (j *judged) read() {
	for _, sh := range j.Source.Stream().Shards {
		j.truth.ledger[sh.label+"/"+sh.ID] = &seenShard{Shard: checkpoint.Shard{ID: sh.ID, Label: sh.label, Hop: judgedHop}, ranks: map[rank]bool{{1, judgedHop}: true}}
	}
}

// last is the newest change of the stream.
func (j *judged) last() cdc.Change {
	records := j.only().records
	return records[len(records)-1].change
}

// fold is a page of one change.
func (j *judged) fold(c cdc.Change) transform.Batch {
	return transform.Fold(j.Mapping, []cdc.Change{c}, transform.Stamp{Generation: 1, Hop: judgedHop})
}

// write executes mutations as a writer does, on tables of its own.
func (j *judged) write(table sink.Table, rows []transform.RowMutation) {
	for i := range rows {
		if _, err := sink.Execute(j.ctx, table, Target{j.Target}, &rows[i]); err != nil && table != sink.Table(j) {
			j.failf("%v", err)
		}
	}
}

// Apply holds a request back: its sender has no answer.
func (j *judged) Apply(_ context.Context, r *sink.Request) (bool, error) {
	j.held = r
	return false, &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Unknown, Code: "Unavailable"}
}

// arrive executes what was held back.
func (j *judged) arrive() {
	if took, err := (Target{j.Target}).Apply(j.ctx, j.held); err != nil || !took {
		j.failf("what was held back is executed: %v, %v", took, err)
	}
}

// restore sets the target back.
func (j *judged) restore(b backup) {
	j.RestoreTarget(b)
	j.truth.forgetTarget()
}

// repair repairs an item, and tells the truth what was read for it.
func (j *judged) repair(table sink.Table, key string) error {
	_, err := j.repairItem(table, j.Mapping.Keys(item(key, key, "")))
	return err
}

func (j *judged) repairItem(table sink.Table, keys attribute.Item) (sink.Repaired, error) {
	if j.truth.operator == nil {
		j.truth.operator = &operator{given: map[string][]reading{}}
	}
	r := &sink.Repairer{
		Mapping: j.Mapping, Rows: Target{j.Target}, Table: table,
		Item: func(ctx context.Context, keys attribute.Item) (attribute.Item, bool, error) {
			item, id, number, err := j.Source.get(ctx, keys)
			j.truth.operator.given[id] = append(j.truth.operator.given[id], reading{item, number})
			return item, item.Exists(), err
		},
		Current:    func(context.Context) (uint32, error) { return 1, nil },
		Generation: func(context.Context, time.Time) (uint32, error) { return 1, nil },
	}
	return r.Repair(j.ctx, keys)
}

func expect(t *testing.T, failures []string, want string) {
	t.Helper()
	if want == "" && len(failures) > 0 || want != "" && !slices.ContainsFunc(failures, func(f string) bool { return strings.Contains(f, want) }) {
		t.Errorf("the checkers say %q, should say %q", failures, want)
	}
}

// A repair that is late finds, in a target that was restored meanwhile, its row as it was before the repair before it.
func TestARepairAfterAnotherOnARestoredTarget(t *testing.T) {
	for _, restored := range []bool{true, false} {
		failures := judge(oneShard(), func(s *judged) {
			target := Target{s.Target}
			s.put("1", "a")
			s.write(target, s.fold(s.last()).Rows)
			before := s.backUpTarget()
			s.put("1", "b")
			if err := s.repair(target, "1"); err != nil {
				s.failf("%v", err)
			}
			s.put("1", "c")
			if err := s.repair(s, "1"); err == nil {
				s.failf("the second repair has an answer")
			}
			if restored {
				s.restore(before)
			} else {
				s.RestoreTarget(before) // which nobody was told: a repair has skipped a number
			}
			s.arrive()
		})
		expect(t, failures, map[bool]string{false: "I9"}[restored])
	}
}

// What is parked of an item that has no row is forgotten by its next change: by one that was read, also if the stream drops it before anybody has heard
// that it is applied.
func TestSupersededByWhatWasTrimmedMeanwhile(t *testing.T) {
	for _, given := range []bool{true, false} {
		failures := judge(oneShard("value", "pk", "sk"), func(s *judged) {
			lot := sink.NewParking(Target{s.Target}, "default")
			s.putWith("1", "n", "it has no row")
			parked := s.fold(s.last()).Parked[0]
			if err := lot.Park(s.ctx, parked); err != nil {
				s.failf("%v", err)
			}
			s.del("1")
			next := s.fold(s.last()).Astray[0]
			stream := s.Source.Stream()
			at, err := stream.Seek(s.ctx, s.only().ID, cdc.Position{})
			if given && err == nil {
				_, err = stream.Read(s.ctx, at)
			}
			if err != nil {
				s.failf("%v", err)
			}
			s.sleep(cdc.Retention + time.Minute)
			stream.Trim(s.World.Now().Add(-cdc.Retention))
			if err := lot.Supersede(s.ctx, parked.Source, next.Item, next.Version); err != nil {
				s.failf("%v", err)
			}
		})
		expect(t, failures, map[bool]string{false: "I3"}[given])
	}
}

// A put that keeps older cells is made for a row that a load's cells are gone from, and comes late to a target that was set back to the load: what
// the load read has the put's value, and a later time.
func TestALatePutOnALoadedRowThatCameBack(t *testing.T) {
	build := func(w *virtual.World) *Migration {
		m := NewMigrationBy(w, 1, keptRules(), "a", "b", "c")
		return m
	}
	failures := judge(build, func(s *judged) {
		target := Target{s.Target}
		s.putWith("1", "kind", "row", "a", "before")
		first := s.fold(s.last()).Rows
		s.sleep(2 * time.Second)
		s.putWith("1", "kind", "row", "a", "after")
		second := s.fold(s.last()).Rows
		s.sleep(time.Minute)
		s.write(target, transform.Load(s.Mapping, s.Source.Items(), 1, s.World.Now()).Rows)
		loaded := s.backUpTarget()
		s.write(target, first)
		s.write(s, second)
		s.restore(loaded)
		s.arrive()
	})
	expect(t, failures, "")
}

// A load that comes late to an item that cannot be held finds nothing of it when the tombstone is collected that its change has left, and leaves another.
// An image of before the item was removed it must not bring.
func TestALoadAfterATombstone(t *testing.T) {
	for _, bad := range []bool{true, false} {
		failures := judge(oneShard(), func(s *judged) {
			target, age := Target{s.Target}, time.Hour
			if bad {
				s.putWith("1", longName, "it cannot be held")
				s.write(target, s.fold(s.last()).Rows)
			} else {
				s.put("1", "a")
				s.write(s, transform.Load(s.Mapping, s.Source.Items(), 1, s.World.Now()).Rows)
				s.del("1")
				s.write(target, s.fold(s.last()).Rows)
			}
			s.sleep(age + time.Second)
			for s.row("1") != nil {
				s.Target.Collect("orders", sink.GoneFamily, age)
			}
			if bad {
				s.write(target, transform.Load(s.Mapping, s.Source.Items(), 1, s.World.Now()).Rows)
			} else {
				s.arrive()
			}
		})
		expect(t, failures, map[bool]string{false: "I8"}[bad])
	}
}

// A change of a new stream has the number that a remove had in the stream before, and was dropped as from before the start: the tombstone is not its.
func TestATombstoneOfAnotherStream(t *testing.T) {
	for _, ours := range []bool{false, true} {
		failures := judge(oneShard(), func(s *judged) {
			s.put("1", "a")
			s.del("1")
			removed := s.last()
			rows := s.fold(removed).Rows
			if ours {
				s.put("1", "b")
			} else {
				s.Source.EnableStream(1)
				s.put("1", "b")
				s.read()
				s.truth.ledger[s.only().label+"/"+s.only().ID].ranks = map[rank]bool{{2, judgedHop}: true}
			}
			s.write(Target{s.Target}, rows)
			sh := s.only()
			r := &sh.records[len(sh.records)-1]
			r.change.Sequence = removed.Sequence
			s.truth.checkPutAside(checkpoint.Shard{ID: sh.ID, Label: sh.label, Generation: 2, Hop: judgedHop, Position: removed.Sequence}, sh, s.truth.ledger[sh.label+"/"+sh.ID])
		})
		expect(t, failures, map[bool]string{true: "I3"}[ours])
	}
}

// What the checkers find at the second table of a pipeline counts.
func TestTheNeighbourIsChecked(t *testing.T) {
	seed := uint64(0)
	for drawNeighbour(seed) == alone {
		seed++
	}
	s := newSimulation(newPlan(seed, SimOptions{}), SimOptions{})
	if s.bad() {
		t.Fatal(s.report().Failures)
	}
	s.neighbour.violate("I2: its version fell")
	expect(t, s.report().Failures, "I2: its version fell")
	if !s.bad() {
		t.Error("the run goes on")
	}
}

// What a late request reopens after a generation rose is taken in that generation; what was reopened before is to be in it when it counts as adopted.
func TestAShardThatIsReopenedLate(t *testing.T) {
	for _, late := range []bool{true, false} {
		failures := judge(oneShard(), func(s *judged) {
			check := func(err error) {
				if err != nil {
					t.Fatal(err)
				}
			}
			s.truth.ledger = map[string]*seenShard{}
			sh := s.Source.Stream().Shards[0]
			ledger, err := checkpoint.Open(s.ctx, s.Store(), "default", checkpoint.Options{Worker: "a", ID: "ledger-1", Lease: time.Minute})
			check(err)
			state, err := ledger.UpdateTable(s.ctx, s.Source.Name, func(t *checkpoint.TableState) error {
				t.Generation, t.Adopted, t.Label, t.StreamARN = 1, 1, sh.label, s.Source.Stream().ARN
				return nil
			})
			check(err)
			row := checkpoint.Shard{Source: s.Source.Name, StreamARN: state.StreamARN, Label: sh.label, ID: sh.ID, State: checkpoint.Waiting, Hop: judgedHop, Generation: 1}
			check(ledger.CreateShard(s.ctx, row))
			rows, err := ledger.Shards(s.ctx, s.Source.Name)
			check(err)
			lease, err := ledger.Take(s.ctx, rows[0], nil)
			check(err)
			check(lease.Declare(s.ctx, checkpoint.Trimmed, "trimmed"))
			state, err = ledger.Raise(s.ctx, s.Source.Name, 1, checkpoint.Gap{Shard: sh.ID, Reason: "trimmed"}, nil)
			check(err)
			rows, err = ledger.Shards(s.ctx, s.Source.Name)
			check(err)
			s.truth.raised = s.World.Now()
			s.sleep(time.Second)
			check(ledger.Reopen(s.ctx, rows[0], state))
			if !late {
				s.sleep(time.Second)
				s.truth.raised = s.World.Now()
			}
			if is := s.Shards()[0]; is.State != checkpoint.Waiting || is.Generation != state.Generation {
				s.failf("the shard is %s in generation %d", is.State, is.Generation)
			}
			s.truth.checkAdopted(checkpoint.TableState{Label: sh.label, Adopted: state.Generation + 1})
		})
		expect(t, failures, map[bool]string{false: "counts as adopted while shard"}[late])
	}
}

// The row of a shard without its place is made by a late request, when its parent has been listed after all, and has a row. What a shard that is there takes
// from its parent is asked as before.
func TestAShardWithoutItsPlaceIsMadeLate(t *testing.T) {
	for _, late := range []bool{true, false} {
		failures := judge(oneShard(), func(s *judged) {
			s.truth.ledger = map[string]*seenShard{}
			parent := s.only()
			sh := s.Source.Stream().Roll(parent)
			ledger, err := checkpoint.Open(s.ctx, s.Store(), "default", checkpoint.Options{Worker: "a", ID: "ledger-1", Lease: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			s.sleep(time.Hour)
			row := func(of *Shard) checkpoint.Shard {
				return checkpoint.Shard{Source: s.Source.Name, Label: of.label, ID: of.ID, Parent: of.Parent, State: checkpoint.Waiting, Hop: judgedHop, Generation: 1}
			}
			child, now := row(sh), s.World.Now()
			_, err = ledger.UpdateTable(s.ctx, s.Source.Name, func(t *checkpoint.TableState) error {
				t.Generation, t.Adopted, t.Label, t.Since, t.NeedsLoad = 1, 1, sh.label, start, true
				t.Gaps = []checkpoint.Gap{{At: now, Shard: sh.ID, Reason: "it has no place"}}
				return nil
			})
			if err == nil {
				err = ledger.CreateShard(s.ctx, row(parent))
			}
			if late {
				child.CoveredTo = now
			}
			if err == nil {
				err = ledger.CreateShard(s.ctx, child)
			}
			if err != nil {
				t.Fatal(err)
			}
			if !late {
				child.CoveredTo = now
				s.truth.checkProgress(child, s.truth.ledger[sh.label+"/"+sh.ID])
			}
		})
		expect(t, failures, map[bool]string{false: "is covered to"}[late])
	}
}

// What is first read of a shard may be dated before what was trimmed of it until then; what was not trimmed counts.
func TestATimeThatWasTrimmed(t *testing.T) {
	for _, trimmed := range []bool{true, false} {
		failures := judge(oneShard(), func(s *judged) {
			s.Source.TimeRunsBack = true
			s.put("1", "a")
			s.put("1", "b")
			sh := s.only()
			sh.records[1].change.Time = sh.records[0].change.Time.Add(-time.Second)
			if trimmed {
				sh.trimmed = 1
			}
			c := sh.records[1].change
			row := checkpoint.Shard{ID: sh.ID, Label: sh.label, State: checkpoint.Reading, Position: c.Sequence, EventTime: c.Time, Applied: 1}
			s.truth.checkProgress(row, s.truth.ledger[sh.label+"/"+sh.ID])
		})
		expect(t, failures, map[bool]string{false: "says that it is applied up to"}[trimmed])
	}
}

// A row that a late request brings back after it was removed is no item more than the policy allows.
func TestAParkedItemThatComesBackLate(t *testing.T) {
	for _, late := range []bool{true, false} {
		s := newSimulation(newPlan(1, SimOptions{}), SimOptions{})
		s.Policy = policy{maxParked: 1}
		for _, item := range []string{"one", "other"} {
			row := &Row{}
			row.set(sink.ParkedFamily, sink.ParkedColumn, modelCell{0, `{"key":"` + item + `"}`})
			s.Target.tables[stateTable].put("default/parked/Orders/"+item+"/1", row)
		}
		s.truth.struckOff["default/parked/Orders/other/1"] = late
		s.checkPolicy()
		expect(t, s.report().Failures, map[bool]string{false: "I5: 2 items are parked"}[late])
	}
}

// What a shard holds that the first listing left out, beside its child, is from before that listing. Anything later is owed.
func TestAShardThatTheFirstListingLeftOut(t *testing.T) {
	for _, c := range []struct {
		name       string
		own, child time.Duration // when the rows of the shard and its child were made, after the first listing; 0 for never
		at         time.Duration // when the change was
		overlooked bool
	}{
		{"never listed", 0, time.Second, -time.Minute, true},
		{"listed after its child", time.Hour, time.Second, -time.Minute, true},
		{"listed before its child", time.Second, time.Hour, -time.Minute, false},
		{"without a child", 0, 0, -time.Minute, false},
		{"changed later", 0, time.Second, time.Minute, false},
	} {
		failures := judge(oneShard(), func(s *judged) {
			sh, listed := s.Source.Stream().Shards[0], s.World.Now()
			s.truth.listed[sh.label], s.truth.ledger = listed, map[string]*seenShard{}
			if c.own > 0 {
				s.truth.ledger[sh.label+"/"+sh.ID] = &seenShard{Shard: checkpoint.Shard{ID: sh.ID, Label: sh.label}, made: listed.Add(c.own)}
			}
			if c.child > 0 {
				s.truth.ledger[sh.label+"/child"] = &seenShard{Shard: checkpoint.Shard{ID: "child", Parent: sh.ID, Label: sh.label}, made: listed.Add(c.child)}
			}
			if is := s.truth.overlooked(Write{Shard: sh, At: listed.Add(c.at)}); is != c.overlooked {
				s.failf("%s: %v", c.name, is)
			}
		})
		expect(t, failures, "")
	}
}

// Who counts parked items may see one that was removed and one that came after that, where a read is of several moments, and in no other case.
func TestParkedItemsThatWereNeverThereAtOnce(t *testing.T) {
	for _, c := range []struct {
		torn    bool
		ago     time.Duration // of the removal
		excused bool
	}{{true, tornBy / 2, true}, {true, tornBy, false}, {false, tornBy / 2, false}} {
		p := newPlan(1, SimOptions{})
		p.policy, p.rates["reads torn"] = policy{maxParked: 1}, map[bool]float64{true: 0.1}[c.torn]
		s := newSimulation(p, SimOptions{})
		parked := func(item string) (string, *Row) {
			row := &Row{}
			row.set(sink.ParkedFamily, sink.ParkedColumn, modelCell{0, `{"key":"` + item + `"}`})
			return "default/parked/Orders/" + item + "/1", row
		}
		key, row := parked("one")
		s.truth.watch(stateTable, key, row, &Row{})
		for item := range s.truth.unparkedAt {
			s.truth.unparkedAt[item] -= c.ago
		}
		key, row = parked("other")
		s.Target.tables[stateTable].put(key, row)
		s.watchBoth(stateTable, key, &Row{}, row)
		if excused := s.excused(sink.ErrParkedLimit); excused != c.excused {
			t.Errorf("reads of several moments %v, one removed %s ago: excused %v", c.torn, c.ago, excused)
		}
	}
}

// The end of each stream may be told twice: as such, and when the service forgets the stream.
func TestEndsAreCountedByStream(t *testing.T) {
	for _, again := range []bool{true, false} {
		s := newSimulation(newPlan(1, SimOptions{}), SimOptions{})
		s.Source.DisableStream()
		if again {
			s.Source.EnableStream(1)
			s.Source.DisableStream()
		}
		row := &Row{}
		row.set(ledgerFamily, recordColumn, modelCell{0, `{"gaps":[{"reason":"the stream is disabled"},{"reason":"the stream is gone"},{"reason":"the stream is disabled"}]}`})
		s.Target.tables[stateTable].put("default/table/"+s.Source.Name, row)
		s.checkEnds()
		expect(t, s.report().Failures, map[bool]string{false: "I5: the end of the stream is declared 3 times"}[again])
	}
}
