package checkpoint_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

const witnessKey = "\x00witness/T"

func TestH68_H69_Verdicts(t *testing.T) {
	const ours, foreign = "ours", "foreign"
	for _, test := range []struct {
		name       string
		found      bool
		ledger     string
		generation uint32
		beat       uint64
		tableGen   uint32
		mirror     uint64
		want       checkpoint.Verdict
	}{
		{"everything is new", false, "", 0, 0, 5, 0, checkpoint.Fine},
		{"the same", true, ours, 5, 9, 5, 9, checkpoint.Fine},
		{"the first beat without its mirror", true, ours, 5, 1, 5, 0, checkpoint.Fine},
		{"a beat without its mirror", true, ours, 5, 10, 5, 9, checkpoint.Fine},
		{"a raise since the last beat", true, ours, 5, 9, 6, 9, checkpoint.Fine},
		{"H69: target created anew", false, "", 0, 0, 5, 9, checkpoint.TargetLost},
		{"H69: target created anew after one beat", false, "", 0, 0, 5, 1, checkpoint.TargetLost},
		{"H69: target restored", true, ours, 5, 8, 5, 9, checkpoint.TargetLost},
		{"H69: target restored to another generation", true, ours, 4, 3, 5, 9, checkpoint.TargetLost},
		{"H68: ledger begun anew", true, foreign, 5, 9, 5, 0, checkpoint.LedgerBehind},
		{"H68: ledger begun anew, in a higher generation", true, foreign, 5, 9, 7, 0, checkpoint.LedgerBehind},
		{"H68: another ledger with as many beats", true, foreign, 5, 9, 5, 9, checkpoint.LedgerBehind},
		{"H68: ledger restored", true, ours, 5, 11, 5, 9, checkpoint.LedgerBehind},
		{"H68: ledger restored from before a raise", true, ours, 6, 9, 5, 9, checkpoint.LedgerBehind},
		{"H68: ledger restored from before the first beat", true, ours, 5, 2, 5, 0, checkpoint.LedgerBehind},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := checkpoint.Witness{Ledger: test.ledger, Generation: test.generation, Beat: test.beat}
			state := checkpoint.TableState{Generation: test.tableGen, WitnessBeat: test.mirror}
			if got := checkpoint.Judge(w, test.found, ours, state); got != test.want {
				t.Errorf("verdict %d, want %d", got, test.want)
			}
		})
	}
}

// target is a target table's store of witnesses.
type target struct{ *checkpointtest.Memory }

func (s target) beat(t *testing.T, ctx context.Context, l *checkpoint.Ledger, want checkpoint.Verdict) checkpoint.Witness {
	t.Helper()
	verdict, w, err := l.Beat(ctx, source, checkpoint.Place{Store: s.Memory, Key: witnessKey})
	if err != nil || verdict != want {
		t.Fatalf("verdict %d, want %d; %v", verdict, want, err)
	}
	return w
}

// heal does what the coordinator does after a bad verdict.
func (s target) heal(t *testing.T, ctx context.Context, l *checkpoint.Ledger, w checkpoint.Witness) {
	t.Helper()
	_, err := l.Raise(ctx, source, table(t, ctx, l).Generation, checkpoint.DeclaredGap{Reason: "test"}, func(s *checkpoint.TableState) {
		s.Generation = max(s.Generation, checkpoint.NextGeneration(w.Generation, time.Time{}))
	})
	check(t, err)
	check(t, l.Claim(ctx, source, checkpoint.Place{Store: s.Memory, Key: witnessKey}))
}

func newTarget() target { return target{&checkpointtest.Memory{}} }

// snapshot copies the rows of a store; restore writes them into an empty one.
func snapshot(t *testing.T, ctx context.Context, m *checkpointtest.Memory) (restore func()) {
	t.Helper()
	rows, err := m.Read(ctx, "")
	check(t, err)
	return func() {
		m.Clear()
		for _, r := range rows {
			if done, err := m.Swap(ctx, r.Key, 0, r.Counter, r.Data); err != nil || !done {
				t.Fatal(done, err)
			}
		}
	}
}

func TestWitnessBeats(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		_, b := p.worker("b")
		create(t, ctx, a)
		s := newTarget()
		for n := range uint64(6) {
			l := []*checkpoint.Ledger{a, b}[n%2]
			w := s.beat(t, ctx, l, checkpoint.Fine)
			if w.Beat != n+1 || w.Ledger != l.ID() || w.Generation != 1 || table(t, ctx, l).WitnessBeat != n+1 {
				t.Fatalf("%+v, mirror %d", w, table(t, ctx, l).WitnessBeat)
			}
		}
	})
}

// The target is lost or restored to an earlier state while the ledger says that all is done. The
// next beat reports that, and the gap stays declared.
func TestH69_TargetLostOrRestored(t *testing.T) {
	for _, restored := range []bool{false, true} {
		virtually(t, func(ctx context.Context, p *place) {
			_, a := p.worker("a")
			create(t, ctx, a, shard("s", ""))
			s := newTarget()
			s.beat(t, ctx, a, checkpoint.Fine)
			restore := snapshot(t, ctx, s.Memory)
			s.beat(t, ctx, a, checkpoint.Fine)
			if restored {
				restore()
			} else {
				s.Clear()
			}
			w := s.beat(t, ctx, a, checkpoint.TargetLost)
			s.beat(t, ctx, a, checkpoint.TargetLost) // asking changed nothing
			s.heal(t, ctx, a, w)
			if w := s.beat(t, ctx, a, checkpoint.Fine); w.Beat != 4 || w.Generation <= 1 {
				t.Errorf("%+v", w)
			}
			if state := p.adopted(ctx, a, 1); !state.NeedsLoad {
				t.Error("the table needs no load")
			}
		})
	}
}

// The ledger is lost, renamed or restored, so its generations would be below those of the rows, and
// every write would be refused as stale. The new generation is above the witness's.
func TestH68_LedgerLostOrRestored(t *testing.T) {
	for _, restored := range []bool{false, true} {
		virtually(t, func(ctx context.Context, p *place) {
			_, a := p.worker("a")
			create(t, ctx, a, shard("s", ""))
			s := newTarget()
			s.beat(t, ctx, a, checkpoint.Fine)
			restore := snapshot(t, ctx, p.store)
			_, err := a.Raise(ctx, source, 1, trimmed, func(s *checkpoint.TableState) { s.Generation = 50_000_000 })
			check(t, err)
			s.beat(t, ctx, a, checkpoint.Fine)
			if restored {
				restore()
			} else {
				p.store.Clear()
			}
			_, b := p.worker("b")
			create(t, ctx, b, shard("s", ""))
			w := s.beat(t, ctx, b, checkpoint.LedgerBehind)
			if w.Generation != 50_000_000 {
				t.Errorf("%+v", w)
			}
			if err := b.Claim(ctx, source, checkpoint.Place{Store: s.Memory, Key: witnessKey}); !errors.Is(err, checkpoint.ErrConflict) {
				t.Errorf("claimed without a raise above the witness: %v", err)
			}
			s.heal(t, ctx, b, w)
			p.adopted(ctx, b, 50_000_000)
			s.beat(t, ctx, b, checkpoint.Fine)
		})
	}
}

// crashAfter ends a machine instead of the next write, once a number of writes were executed on the
// stores.
func (p *place) crashAfter(writes int, kill func(), stores ...*checkpointtest.Memory) {
	for _, m := range stores {
		m.OnSwap = func(ctx context.Context, _ string, execute func() bool) (bool, error) {
			if writes == 0 {
				kill()
				return false, task.NewEvent(ctx).Wait(ctx)
			}
			writes--
			return execute(), nil
		}
	}
}

// Workers end after each write of a beat in turn, repeatedly. That never looks like a target or a
// ledger of another time.
func TestH68_CrashesBetweenBeatAndMirror(t *testing.T) {
	for writes := range 3 {
		virtually(t, func(ctx context.Context, p *place) {
			_, a := p.worker("a")
			create(t, ctx, a)
			s := newTarget()
			for _, name := range []string{"b", "c", "d", "e"} {
				machine, l := p.worker(name)
				p.crashAfter(writes, machine.Kill, p.store, s.Memory)
				machine.Go("beat", func() { s.beat(t, machine.Context(), l, checkpoint.Fine) })
				p.sleep(ctx, time.Second)
				p.store.OnSwap, s.OnSwap = nil, nil
			}
			s.beat(t, ctx, a, checkpoint.Fine)
		})
	}
}

// The same for lost answers: the mirror cannot be written for a while, and the process continues.
func TestH68_MirrorIsNotWrittenForAWhile(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		create(t, ctx, a)
		s := newTarget()
		s.beat(t, ctx, a, checkpoint.Fine)
		p.store.OnSwap = func(context.Context, string, func() bool) (bool, error) { return false, errNoAnswer }
		for range 5 {
			if verdict, _, err := a.Beat(ctx, source, checkpoint.Place{Store: s.Memory, Key: witnessKey}); verdict != checkpoint.Fine || !errors.Is(err, errNoAnswer) {
				t.Fatal(verdict, err)
			}
		}
		p.store.OnSwap = nil
		if w := s.beat(t, ctx, a, checkpoint.Fine); w.Beat != 3 {
			t.Errorf("%+v", w)
		}
	})
}

// A worker ends after each write of a claim in turn. The next one claims again, or finds that the
// witness belongs to this ledger.
func TestH68_CrashInTheMiddleOfAClaim(t *testing.T) {
	for writes := range 3 {
		virtually(t, func(ctx context.Context, p *place) {
			_, a := p.worker("a")
			create(t, ctx, a)
			s := newTarget()
			for range 9 {
				s.beat(t, ctx, a, checkpoint.Fine)
			}
			p.store.Clear()
			_, b := p.worker("b")
			create(t, ctx, b)
			s.beat(t, ctx, b, checkpoint.LedgerBehind)
			_, err := b.Raise(ctx, source, 1, trimmed, nil)
			check(t, err)
			machine, c := p.worker("c")
			p.crashAfter(writes, machine.Kill, p.store, s.Memory)
			machine.Go("claim", func() { _ = c.Claim(machine.Context(), source, checkpoint.Place{Store: s.Memory, Key: witnessKey}) })
			p.sleep(ctx, time.Second)
			p.store.OnSwap, s.OnSwap = nil, nil
			_, d := p.worker("d")
			if writes < 2 { // the mirror, then the witness
				s.heal(t, ctx, d, s.beat(t, ctx, d, checkpoint.LedgerBehind))
			}
			s.beat(t, ctx, d, checkpoint.Fine)
		})
	}
}

// A coordinator is paused between its reads, long enough for another to take over and beat. Its
// reads then come from two times and prove nothing, so it must not declare a gap.
func TestH69_CoordinatorStandsStillBetweenItsReads(t *testing.T) {
	for _, beats := range []int{1, 2, 5} {
		virtually(t, func(ctx context.Context, p *place) {
			_, a := p.worker("a")
			_, b := p.worker("b")
			create(t, ctx, a)
			s := newTarget()
			s.beat(t, ctx, a, checkpoint.Fine)
			stores := []*checkpointtest.Memory{p.store, s.Memory}
			for n := range 2 * len(stores) { // before each read of either
				reads := 0
				for _, m := range stores {
					m.OnRead = func(ctx context.Context, _ string) error {
						if reads++; reads != n+1 {
							return nil
						}
						for range beats {
							s.beat(t, ctx, b, checkpoint.Fine)
						}
						return nil
					}
				}
				verdict, w, err := a.Beat(ctx, source, checkpoint.Place{Store: s.Memory, Key: witnessKey})
				if verdict != checkpoint.Fine && err == nil {
					t.Errorf("%d beats before read %d: verdict %d on %+v", beats, n+1, verdict, w)
				}
				if err != nil && !errors.Is(err, checkpoint.ErrConflict) {
					t.Error(err)
				}
				p.store.OnRead, s.OnRead = nil, nil
				s.beat(t, ctx, a, checkpoint.Fine)
			}
		})
	}
}

// The same if another coordinator has raised the generation and claimed the witness, and ended
// before the ledger recorded that beat.
func TestH69_CoordinatorStandsStillWhileTheWitnessIsClaimed(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		_, b := p.worker("b")
		create(t, ctx, a)
		s := newTarget()
		s.beat(t, ctx, a, checkpoint.Fine)
		s.OnRead = func(ctx context.Context, _ string) error {
			s.OnRead = nil
			_, err := b.Raise(ctx, source, 1, trimmed, nil)
			p.store.OnSwap = func(context.Context, string, func() bool) (bool, error) { return false, errNoAnswer }
			if claimed := b.Claim(ctx, source, checkpoint.Place{Store: s.Memory, Key: witnessKey}); !errors.Is(claimed, errNoAnswer) {
				t.Errorf("claimed: %v", claimed)
			}
			p.store.OnSwap = nil
			return err
		}
		verdict, w, err := a.Beat(ctx, source, checkpoint.Place{Store: s.Memory, Key: witnessKey})
		if !errors.Is(err, checkpoint.ErrConflict) {
			t.Errorf("verdict %d on %+v, %v", verdict, w, err)
		}
		s.beat(t, ctx, a, checkpoint.Fine)
	})
}

// Another coordinator beats between a coordinator's reads and its write. The write fails, and the
// ledger does not record a beat.
func TestWitnessSomebodyElseBeats(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		create(t, ctx, a)
		s := newTarget()
		s.beat(t, ctx, a, checkpoint.Fine)
		s.OnSwap = func(_ context.Context, key string, execute func() bool) (bool, error) {
			s.OnSwap = nil
			rows, err := s.Read(ctx, key)
			check(t, err)
			if done, err := s.Swap(ctx, key, rows[0].Counter, 1, []byte(`{"format":1,"ledger":"other","generation":1,"beat":1}`)); err != nil || !done {
				t.Fatal(done, err)
			}
			return execute(), nil
		}
		if _, _, err := a.Beat(ctx, source, checkpoint.Place{Store: s.Memory, Key: witnessKey}); !errors.Is(err, checkpoint.ErrConflict) {
			t.Errorf("%v", err)
		}
		if state := table(t, ctx, a); state.WitnessBeat != 1 {
			t.Errorf("the mirror is at %d", state.WitnessBeat)
		}
	})
}

// TestH68_AWitnessThatWasNotWrittenIsNotOurs: a worker never had the witness if another pipeline
// prevented its first beat. The generation rises, as for any witness of another ledger. That does
// not show that two pipelines take the witness from each other, for which the worker would end.
func TestH68_AWitnessThatWasNotWrittenIsNotOurs(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		create(t, ctx, a)
		other := openOn(t, ctx, &checkpointtest.Memory{}, "other", lease)
		create(t, ctx, other)
		s := newTarget()
		s.OnSwap = func(_ context.Context, _ string, execute func() bool) (bool, error) {
			s.OnSwap = nil
			s.beat(t, ctx, other, checkpoint.Fine)
			return execute(), nil
		}
		at := checkpoint.Place{Store: s.Memory, Key: witnessKey}
		if _, _, err := a.Beat(ctx, source, at); !errors.Is(err, checkpoint.ErrConflict) {
			t.Errorf("the beat that was forestalled: %v", err)
		}
		s.beat(t, ctx, a, checkpoint.LedgerBehind)
	})
}

// A beat executes late, after the target was replaced by that of another pipeline with as many
// beats. It does not replace that witness. Nor does a beat that was sent before the target was lost
// replace the new witness.
func TestH68_LateBeatOnAnotherWitness(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		create(t, ctx, a)
		b, err := checkpoint.Open(ctx, p.store, "other", checkpoint.Options{Worker: "b", ID: "other"})
		check(t, err)
		create(t, ctx, b)
		s, others := newTarget(), newTarget()
		for range 3 {
			s.beat(t, ctx, a, checkpoint.Fine)
			others.beat(t, ctx, b, checkpoint.Fine)
		}
		var late func() bool
		s.OnSwap = func(_ context.Context, _ string, execute func() bool) (bool, error) {
			late = execute
			return false, errNoAnswer
		}
		if _, _, err := a.Beat(ctx, source, checkpoint.Place{Store: s.Memory, Key: witnessKey}); !errors.Is(err, errNoAnswer) {
			t.Fatal(err)
		}
		s.OnSwap = nil
		rows, err := others.Read(ctx, "")
		check(t, err)
		s.Clear()
		for _, r := range rows {
			if done, err := s.Swap(ctx, r.Key, 0, r.Counter, r.Data); err != nil || !done {
				t.Fatal(done, err)
			}
		}
		if late() {
			t.Error("the late beat fell on the other pipeline's witness")
		}
		s.Clear()
		for range 3 { // as many beats as when the late one was sent
			s.heal(t, ctx, a, s.beat(t, ctx, a, checkpoint.TargetLost))
			if late() {
				t.Error("the late beat fell on a witness that was written after it")
			}
			s.Clear()
		}
	})
}

// Two live pipelines on one target would take it from each other forever, so the one that had it
// stops.
func TestH68_ForeignPipeline(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		create(t, ctx, a)
		s := newTarget()
		s.beat(t, ctx, a, checkpoint.Fine)
		other, err := checkpoint.Open(ctx, p.store, "other", checkpoint.Options{Worker: "b", ID: "other"})
		check(t, err)
		create(t, ctx, other)
		w := s.beat(t, ctx, other, checkpoint.LedgerBehind)
		s.heal(t, ctx, other, w)
		s.beat(t, ctx, other, checkpoint.Fine)
		for range 2 {
			if _, _, err := a.Beat(ctx, source, checkpoint.Place{Store: s.Memory, Key: witnessKey}); !errors.Is(err, checkpoint.ErrForeignPipeline) {
				t.Errorf("beat: %v", err)
			}
			if err := a.Claim(ctx, source, checkpoint.Place{Store: s.Memory, Key: witnessKey}); !errors.Is(err, checkpoint.ErrForeignPipeline) {
				t.Errorf("claim: %v", err)
			}
		}
		s.beat(t, ctx, other, checkpoint.Fine)
	})
}

// TestH68_FurtherTargetOfAnotherPipeline: this process may have owned the first target's witness,
// but a further target's witness may belong to another ledger from the start.
func TestH68_FurtherTargetOfAnotherPipeline(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		create(t, ctx, a)
		first, second := newTarget(), newTarget()
		other := openOn(t, ctx, &checkpointtest.Memory{}, "other", lease)
		create(t, ctx, other)
		second.beat(t, ctx, other, checkpoint.Fine)
		first.beat(t, ctx, a, checkpoint.Fine)
		verdict, _, err := a.Beat(ctx, source, checkpoint.Place{Store: second.Memory, Key: witnessKey, Further: "second"})
		if err != nil || verdict != checkpoint.LedgerBehind {
			t.Errorf("verdict %d, %v", verdict, err)
		}
	})
}

// The witness of a further target table beats independently: its loss is reported, and the first
// table's witness is unchanged.
func TestH69_WitnessOfAFurtherTarget(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		create(t, ctx, a)
		first, second := newTarget(), newTarget()
		at := checkpoint.Place{Store: second.Memory, Key: witnessKey, Further: "second"}
		beat := func(want checkpoint.Verdict) checkpoint.Witness {
			t.Helper()
			verdict, w, err := a.Beat(ctx, source, at)
			if err != nil || verdict != want {
				t.Fatalf("verdict %d, want %d; %v", verdict, want, err)
			}
			return w
		}
		for range 3 {
			first.beat(t, ctx, a, checkpoint.Fine)
		}
		for n := range uint64(2) {
			if w := beat(checkpoint.Fine); w.Beat != n+1 {
				t.Fatalf("%+v", w)
			}
		}
		restore := snapshot(t, ctx, second.Memory)
		beat(checkpoint.Fine)
		beat(checkpoint.Fine)
		restore()
		beat(checkpoint.TargetLost)
		second.Clear()
		w := beat(checkpoint.TargetLost)
		_, err := a.Raise(ctx, source, table(t, ctx, a).Generation, checkpoint.DeclaredGap{Reason: "test"}, nil)
		check(t, err)
		check(t, a.Claim(ctx, source, at))
		if w = beat(checkpoint.Fine); w.Beat != 6 || w.Generation != table(t, ctx, a).Generation {
			t.Fatalf("%+v", w)
		}
		first.beat(t, ctx, a, checkpoint.Fine)
		if state := table(t, ctx, a); state.WitnessBeat != 4 || state.WitnessBeats["second"] != 6 {
			t.Fatalf("%d, %v", state.WitnessBeat, state.WitnessBeats)
		}
		// Another worker, which has cached nothing, reads the same.
		_, b := p.worker("b")
		if state := table(t, ctx, b); state.WitnessBeats["second"] != 6 {
			t.Errorf("the ledger holds %v", state.WitnessBeats)
		}
	})
}
