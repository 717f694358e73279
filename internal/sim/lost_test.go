package sim

import (
	"context"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/internal/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// TestNobodyComesBackToALedgerThatIsExchanged: who is away until the ledger is exchanged stays away, whatever else happens to the crew.
func TestNobodyComesBackToALedgerThatIsExchanged(t *testing.T) {
	began := false
	Simulate(1, SimOptions{sabotage: func(s *simulation) {
		began = true
		s.loseLedger(nil)
		until := s.World.Elapsed() + s.Target.LateBy + 2*time.Minute
		s.allDown(event{}, time.Second)
		for _, m := range s.crew {
			if m.away < until {
				t.Errorf("%s is away until %s, and the ledger is exchanged at %s", m.worker.Name(), m.away, until)
			}
		}
		s.failures = append(s.failures, "over")
	}})
	if !began {
		t.Error("nothing was played")
	}
}

// TestTargetIsNotLostWhileItsWitnessCanBeRemade: of a loss that the first beat, executed again, would hide nobody could be told.
func TestTargetIsNotLostWhileItsWitnessCanBeRemade(t *testing.T) {
	var early, late int
	Simulate(1, SimOptions{sabotage: func(s *simulation) {
		s.Target.Twice = 0.01
		s.World.Go("loss", func(ctx context.Context) {
			until := func(ok func() bool) {
				for !ok() && task.Sleep(ctx, time.Second) == nil {
				}
			}
			until(func() bool { return s.Target.Row(s.Mapping.Table, s.Mapping.WitnessKey()) != nil })
			s.loseTarget(event{})
			early = s.World.Injected()["target lost"]
			until(func() bool { return !s.canBeRemade() })
			s.loseTarget(event{})
			late = s.World.Injected()["target lost"]
			s.failures = append(s.failures, "over")
		})
	}})
	if early != 0 || late != 1 {
		t.Errorf("the target was lost %d times while its witness was as it was made, and %d times until after that", early, late)
	}
}

// TestTargetIsNotRestoredWhileItsWitnessCanBeRemade: a backup of before there was a witness is a target that is lost.
func TestTargetIsNotRestoredWhileItsWitnessCanBeRemade(t *testing.T) {
	for _, after := range []time.Duration{2 * time.Minute, time.Hour} {
		restored, remade := 0, false
		Simulate(1, SimOptions{Without: []string{"target restored"}, sabotage: func(s *simulation) {
			s.Target.Twice = 0.01
			s.restoreTarget(event{long: float64(after) / float64(10*time.Hour)})
			s.World.After(after, func() { remade = s.canBeRemade() })
			s.World.After(after+2*time.Second, func() {
				restored = s.World.Injected()["target restored"]
				s.failures = append(s.failures, "over")
			})
		}})
		if early := after < time.Hour; remade != early || restored != map[bool]int{false: 1}[early] {
			t.Errorf("after %s: the witness can be made again %v, and the target was restored %d times", after, remade, restored)
		}
	}
}

// TestCheckpointAfterATombstoneIsGone: a remove may have left nothing when the checkpoint passes it, if its tombstone is old enough to be collected.
func TestCheckpointAfterATombstoneIsGone(t *testing.T) {
	for _, age := range []time.Duration{0, time.Hour} {
		w := virtual.NewWorld(1, start, false)
		m := NewMigration(w, 1)
		m.TombstoneAge = age
		err := w.Run(longest, func(ctx context.Context) {
			m.Source.Put(item("k", "k", "v"))
			m.Source.Delete(item("k", "k", "v"))
			_ = task.Sleep(ctx, 2*time.Hour)
			sh := m.Source.Stream().Shards[0]
			first, last := sh.records[0].change.Sequence, sh.records[1].change.Sequence
			m.checkApplied(checkpoint.Shard{Label: sh.label, ID: sh.ID, Hop: 1, Position: last}, first)
		})
		if err != nil {
			t.Fatal(err)
		}
		if broken := len(m.Broken()) > 0; broken != (age == 0) {
			t.Errorf("where tombstones are kept for %s: %v", age, m.Broken())
		}
	}
}

// TestCheckpointOfANewStream: what a row holds of the stream before, at a hop that the new one has not reached, is not the change that a checkpoint passes.
func TestCheckpointOfANewStream(t *testing.T) {
	for _, applied := range []bool{true, false} {
		failures := judge(oneShard(), func(s *judged) {
			target := Target{s.Target}
			s.put("1", "a")
			before := transform.Fold(s.Mapping, []cdc.Change{s.last()}, transform.Stamp{Generation: 1, Hop: judgedHop + 1})
			s.truth.ledger[s.only().label+"/"+s.only().ID].ranks[rank{1, judgedHop + 1}] = true
			s.write(target, before.Rows)
			s.Source.EnableStream(1)
			s.read()
			s.put("1", "b")
			sh := s.only()
			s.truth.ledger[sh.label+"/"+sh.ID].ranks[rank{2, judgedHop}] = true
			if applied {
				s.write(target, transform.Fold(s.Mapping, []cdc.Change{s.last()}, transform.Stamp{Generation: 2, Hop: judgedHop}).Rows)
			}
			s.checkApplied(checkpoint.Shard{Label: sh.label, ID: sh.ID, Generation: 2, Hop: judgedHop, Position: s.last().Sequence}, cdc.SequenceNumber{})
		})
		expect(t, failures, map[bool]string{false: "I3"}[applied])
	}
}

// TestLedgerAndTargetOfOneBeat: of backups of the target and of the ledger that are of one beat nothing tells that rows are missing, and no ledger is set back to
// that after the target was. One that is set back alone is, however short ago that was, and so is one to which the target does not belong.
func TestLedgerAndTargetOfOneBeat(t *testing.T) {
	for name, c := range map[string]struct {
		target   bool          // is set back as well
		after    time.Duration // how much later the backup of the ledger is made
		unwatch  bool          // it is set back all the same
		restored int
		want     string
	}{
		"both of one beat":              {true, 20 * time.Minute, false, 0, ""},
		"which nobody prevents":         {true, 20 * time.Minute, true, 1, "I"},
		"the ledger alone":              {false, 20 * time.Minute, false, 1, ""},
		"the ledger is two beats later": {true, 2*time.Hour + 20*time.Minute, false, 1, ""},
	} {
		p := calmPlan(3)
		p.poll, p.list, p.writes = time.Minute, time.Hour, nil
		restored := 0
		failures := played(p, func(s *simulation, ctx context.Context) {
			beat := func() uint64 { return s.State().WitnessBeat }
			until := func(ok func() bool) {
				for !ok() && task.Sleep(ctx, time.Second) == nil {
				}
			}
			until(func() bool { return s.World.Elapsed() > 2*time.Hour })
			was := beat()
			until(func() bool { return beat() > was })
			_ = task.Sleep(ctx, time.Minute)
			const hours = 4
			rows := s.backUpTarget()
			for range p.keys {
				s.write()
			}
			_ = task.Sleep(ctx, c.after)
			ledger := &ledgerBackup{s.Target.Snapshot(stateTable), s.World.Now()}
			_ = task.Sleep(ctx, hours*time.Hour)
			was = beat()
			until(func() bool { return beat() > was })
			if c.target {
				s.World.Inject("target restored")
				s.RestoreTarget(rows)
				s.truth.forgetTarget()
			}
			if c.unwatch {
				s.Target.lost = simEpoch
			}
			s.loseLedger(ledger)
			_ = task.Sleep(ctx, time.Hour)
			restored = s.World.Injected()["ledger restored"]
		})
		if restored != c.restored {
			t.Errorf("%s: the ledger was restored %d times", name, restored)
		}
		t.Run(name, func(t *testing.T) { expect(t, failures, c.want) })
	}
}
