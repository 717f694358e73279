package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"
	"github.com/dynamodb-bigtable/replicator/test/kit"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// sampler returns a sampler that compares all applied rows every minute; halted receives the error
// that ends the process.
func (s *scene) sampler(halted *error) *Sampler {
	s.spec.Sample, s.spec.SampleEvery = 1, time.Minute
	o := s.options()
	p := engine.NewWorker(&engine.Options{Ledger: o.Ledger, Floors: &engine.Floors{}, Database: o.Database, Events: o.Events.OrSilent(), Timing: o.Timing.OrDefault(o.Ledger.Lease())},
		func(err error) { *halted = err })
	return NewSampler(NewVerifier(engine.NewTable(p, s.spec), s.Target, func() int { return 1 }, &SumSlots{}), s.spec)
}

// applied reports to a sampler that the items with these keys were applied.
func (s *scene) applied(to *Sampler, keys ...string) {
	var items []attribute.Item
	for _, pk := range keys {
		items = append(items, kit.Item(pk))
	}
	b := transform.Load(s.spec.Mapping, items, 5, s.Now())
	to.Sample(&b)()
}

// rounds runs a sampler for a duration.
func (s *scene) rounds(of *Sampler, lasts time.Duration) error {
	drain, cancel := task.WithTimeout(s.Ctx, lasts)
	defer cancel()
	return of.Run(engine.Lifecycle{Drain: drain, Work: s.Ctx})
}

// known returns the rows that are known to differ.
func (s *scene) known() string {
	s.Helper()
	all, err := s.Ledger.Mismatches(s.Ctx, "Orders")
	s.Must(err)
	var kinds []string
	for _, text := range all {
		var f struct{ Kind string }
		s.Must(json.Unmarshal(text, &f))
		kinds = append(kinds, f.Kind)
	}
	return strings.Join(kinds, " ")
}

// During a fast load no sample is compared. Afterwards, rows are compared once they change again.
func TestH146_NoSampleIsComparedDuringAFastLoad(t *testing.T) {
	playScene(t, "ab", func(s *scene) {
		var halted error
		of := s.sampler(&halted)
		s.Damage("orders", "a", "d", "pk", "x")
		for _, copying := range []bool{true, false} {
			s.Change("Orders", func(state *checkpoint.TableState) {
				state.Load = checkpoint.Load{Generation: state.Generation, Number: 1, Parts: 1, Fast: copying}
			})
			s.applied(of, "a", "b")
			s.Must(s.rounds(of, 90*time.Second))
			if known := s.known(); (known == "") != copying {
				t.Errorf("during a fast load %t: %q", copying, known)
			}
		}
	})
}

// A round compares the rows that were applied before it, once. It compares rows that are known to
// differ again, until they are equal. Compared rows are counted once, however often their record is
// retried.
func TestRoundsOfASample(t *testing.T) {
	playScene(t, "abcdef", func(s *scene) {
		var halted error
		of := s.sampler(&halted)
		s.Damage("orders", "b", "d", "pk", "x")
		s.applied(of, "a", "b")
		s.applied(of, "b", "c")
		s.Must(s.rounds(of, 90*time.Second))
		if state := s.Table("Orders").Sampled; s.known() != "different" || s.compared != 3 || state.Compared != 3 || state.Differing != 1 {
			t.Errorf("known are %s; %d rows are told, %+v", s.known(), s.compared, state)
		}
		s.applied(of, "d")
		lost := 0
		s.Store.OnSwap = func(_ context.Context, key string, do func() bool) (bool, error) {
			done := do()
			if lost < 3 && strings.HasSuffix(key, "/table/Orders") {
				lost++
				return false, errors.New("the answer is lost")
			}
			return done, nil
		}
		s.Must(s.rounds(of, 90*time.Second))
		s.Store.OnSwap = nil
		if state := s.Table("Orders").Sampled; s.known() != "different" || s.compared != 5 || state.Compared != 5 || lost == 0 {
			t.Errorf("known are %s; %d rows are told, %+v, %d answers lost", s.known(), s.compared, state, lost)
		}
		s.Damage("orders", "b", "d", "pk", "b")
		s.Must(s.rounds(of, 90*time.Second))
		if state := s.Table("Orders").Sampled; s.known() != "" || state.Compared != 6 || state.Differing != 0 {
			t.Errorf("once it is repaired known are %s; %+v", s.known(), state)
		}
		reads := 0 // with nothing to compare, neither side is read
		s.Source.Fail = func(string) error { reads++; return nil }
		if s.Must(s.rounds(of, 5*time.Minute)); reads > 0 || s.compared != 6 {
			t.Errorf("of nothing %d rows are compared by %d reads", s.compared, reads)
		}
	})
}

// A round that fails permanently is reported, and the next one compares. A fatal error ends the
// rounds. A drain is no failure, in any wait.
func TestHowRoundsEnd(t *testing.T) {
	gone := &cdc.Error{Op: "GetItem", Reason: cdc.NotFound, Err: errors.New("no such table")}
	playScene(t, "abc", func(s *scene) {
		var halted error
		of := s.sampler(&halted)
		s.applied(of, "a")
		s.Source.Fail = func(string) error { return gone }
		if s.Must(s.rounds(of, 90*time.Second)); strings.Join(s.told, " ") != "compare a sample" || s.compared > 0 {
			t.Errorf("told %q, %d rows are compared", s.told, s.compared)
		}
		s.Source.Fail = nil
		s.applied(of, "b")
		if s.Must(s.rounds(of, 90*time.Second)); s.compared != 1 || len(s.told) != 1 {
			t.Errorf("told %q, %d rows are compared", s.told, s.compared)
		}
		s.applied(of, "a")
		fails := 2 // a temporary failure is retried within the round
		s.Source.Fail = func(string) error {
			if fails--; fails >= 0 {
				return &cdc.Error{Op: "GetItem", Reason: cdc.Unavailable, Err: errors.New("away")}
			}
			return nil
		}
		if s.Must(s.rounds(of, 90*time.Second)); s.compared != 2 || len(s.told) != 3 {
			t.Errorf("told %q, %d rows are compared", s.told, s.compared)
		}
		s.Source.Fail = nil
		s.Damage("orders", "c", "d", "pk", "x")
		s.applied(of, "c")
		of.comparison.Settle, s.told = time.Hour, nil
		began := s.Now()
		if s.Must(s.rounds(of, 90*time.Second)); len(s.told) > 0 || s.Now().Sub(began) > 95*time.Second || s.known() != "" {
			t.Errorf("drained after %s, told %q", s.Now().Sub(began), s.told)
		}
	})
	for _, c := range []struct {
		err     error
		orderly bool
	}{{checkpoint.ErrLedgerExchanged, false}, {checkpoint.ErrMappingChanged, true}} {
		playScene(t, "abc", func(s *scene) {
			var halted error
			of := s.sampler(&halted)
			s.applied(of, "a")
			s.StopWorker()
			s.Sleep(10 * time.Second)
			s.Store.OnRead = func(context.Context, string) error { return c.err }
			began := s.Now()
			err := s.rounds(of, time.Hour)
			if c.orderly && (err != nil || !errors.Is(halted, c.err)) || !c.orderly && !errors.Is(err, c.err) || s.Now().Sub(began) > 2*time.Minute {
				t.Errorf("%v: after %s %v, halted by %v", c.err, s.Now().Sub(began), err, halted)
			}
			s.Store.OnRead = nil
		})
	}
}

// A round compares nothing before it has read which rows are known to differ. It is complete only
// when its outcome is recorded. A fatal error of any of these steps ends the rounds.
func TestARoundHandsOnFailuresOfTheLedger(t *testing.T) {
	away := errors.New("away")
	for name, c := range map[string]struct {
		reads, writes string // part of the keys of the requests that fail
		compared      int64  // rows that were compared when a fatal error ends the rounds
	}{
		"the table's record is read":    {reads: "/table/Orders"},
		"the known rows are read":       {reads: "/sampled/"},
		"the known rows are written":    {writes: "/sampled/", compared: 2},
		"the table's record is written": {writes: "/table/Orders", compared: 2},
	} {
		for _, fatal := range []bool{false, true} {
			playScene(t, "abc", func(s *scene) {
				var halted error
				of := s.sampler(&halted)
				s.Damage("orders", "b", "d", "pk", "x")
				s.applied(of, "a", "b")
				s.StopWorker()
				s.Sleep(10 * time.Second)
				of.comparison.Applied = func(context.Context, time.Time) (bool, error) { return true, nil }
				failures := 0
				fail := func() error {
					if failures++; fatal && failures == 1 {
						return checkpoint.ErrLedgerExchanged
					} else if failures <= 2 {
						return away
					}
					return nil
				}
				s.Store.OnRead = func(_ context.Context, prefix string) error {
					if c.reads != "" && strings.Contains(prefix, c.reads) {
						return fail()
					}
					return nil
				}
				s.Store.OnSwap = func(_ context.Context, key string, execute func() bool) (bool, error) {
					if c.writes != "" && strings.Contains(key, c.writes) {
						if err := fail(); err != nil {
							return false, err
						}
					}
					return execute(), nil
				}
				life, cancel := task.WithTimeout(s.Ctx, 10*time.Minute)
				defer cancel()
				err := of.compare(engine.Lifecycle{Drain: life, Work: s.Ctx})
				s.Store.OnRead, s.Store.OnSwap = nil, nil
				if fatal {
					if !errors.Is(err, checkpoint.ErrLedgerExchanged) || s.compared != c.compared {
						t.Errorf("%s and is replaced: %v, %d rows are compared", name, err, s.compared)
					}
					return
				}
				if state := s.Table("Orders").Sampled; err != nil || failures < 3 || s.compared != 2 || state.Compared != 2 || state.Differing != 1 || s.known() != "different" {
					t.Errorf("%s at the third try: %v, %d rows are compared, %+v, known are %s", name, err, s.compared, state, s.known())
				}
			})
		}
	}
}

// A row without a version is extra if replicator owns all rows, according to the configuration or
// to the record at that round.
func TestWhoseRowsASampleFindsExtra(t *testing.T) {
	for name, c := range map[string]struct{ owned, made bool }{"foreign": {}, "by configuration": {owned: true}, "made by us": {made: true}} {
		playScene(t, "abc", func(s *scene) {
			s.spec.Owned = c.owned
			var halted error
			of := s.sampler(&halted)
			s.Change("Orders", func(state *checkpoint.TableState) { state.MadeByUs = c.made })
			s.Damage("orders", "z", "d", "pk", "x")
			s.applied(of, "z")
			s.Must(s.rounds(of, 90*time.Second))
			if want := map[bool]string{false: "foreign", true: "extra"}[c.owned || c.made]; s.known() != want {
				t.Errorf("%s: known are %s", name, s.known())
			}
		})
	}
}

// A round reads at most fifty items and rows a second, and a drain does not wait for them.
func TestARoundIsPaced(t *testing.T) {
	playScene(t, "", func(s *scene) {
		var keys []string
		for i := range 400 {
			keys = append(keys, fmt.Sprint(i))
			s.Must(s.Source.Put(s.Ctx, "Orders", kit.Item(keys[i])))
		}
		s.Load("Orders")
		var halted error
		of := s.sampler(&halted)
		spans := &enginetest.Spans{}
		of.Tracer = spans
		s.applied(of, keys...)
		began := s.Now()
		if s.Must(s.rounds(of, 65*time.Second)); s.Now().Sub(began) > 66*time.Second || s.compared > 0 || len(s.told) > 0 {
			t.Errorf("drained after %s, told %q", s.Now().Sub(began), s.told)
		}
		s.applied(of, keys...)
		began = s.Now()
		life := engine.Until(s.Ctx)
		if err := of.compare(life); err != nil || s.compared != 400 || s.Now().Sub(began) < 14*time.Second || s.Now().Sub(began) > 20*time.Second {
			t.Errorf("%d rows in %s, %v", s.compared, s.Now().Sub(began), err)
		}
		for i, outcome := range []string{"released", "done"} {
			if of := spans.Named("verify sample"); len(of) != 2 || of[i].Last.Outcome != outcome || of[i].Facts.Table != "Orders" || of[i].Last.Rows != 400 || of[i].Err != nil {
				t.Errorf("span %d: %+v", i, of[i])
			}
		}
	})
}

// Nothing is sampled unless both a share and an interval are configured. A round waits at least a
// minute for earlier commits, and at most until the next round.
func TestWhichSamplersThereAre(t *testing.T) {
	playScene(t, "a", func(s *scene) {
		p := engine.NewWorker(&engine.Options{Ledger: s.Ledger, Floors: &engine.Floors{}}, func(error) {})
		for _, c := range []struct {
			share           float64
			every, patience time.Duration
		}{{0, time.Minute, 0}, {1, 0, 0}, {0.1, time.Second, time.Minute}, {0.1, time.Hour, time.Hour}} {
			s.spec.Sample, s.spec.SampleEvery, s.spec.Settle, s.spec.Late = c.share, c.every, 7*time.Second, 8*time.Second
			got := NewSampler(NewVerifier(engine.NewTable(p, s.spec), s.Target, func() int { return 1 }, &SumSlots{}), s.spec)
			if (got == nil) != (c.patience == 0) || got != nil && (got.comparison.Patience != c.patience || got.comparison.Settle != 7*time.Second || got.comparison.Late != 8*time.Second) {
				t.Errorf("%g every %s: %+v", c.share, c.every, got)
			}
			if got != nil && got.cut != uint64(c.share*math.MaxUint64) {
				t.Errorf("%g: up to %d", c.share, got.cut)
			}
		}
	})
}

// Rows with one key in two tables are two rows, also while they wait, and when one of them is found
// equal.
func TestASampleKnowsTables(t *testing.T) {
	s := newSample(t, 1)
	b := s.applied(0, 1)
	other := s.applied(0, 1)
	other.Rows[0].Table = "parts"
	s.Sample(b)()
	s.Sample(other)()
	var tables []string
	for _, p := range s.take() {
		tables = append(tables, p.Table)
	}
	if strings.Join(tables, " ") != "orders parts" {
		t.Errorf("%q wait", tables)
	}
}

// With dual writes, each round reports the rows that were not known to differ. A row counts again only
// after it was equal.
func TestRowsThatDivergeUnderDualWrites(t *testing.T) {
	for late, want := range map[time.Duration][]int64{0: nil, time.Second: {2, 0, 0, 1}} {
		playScene(t, "abc", func(s *scene) {
			s.spec.Late = late
			var halted error
			of := s.sampler(&halted)
			for _, damaged := range []string{"ab", "ab", "", "a"} {
				for _, pk := range []string{"a", "b"} {
					value := pk
					if strings.Contains(damaged, pk) {
						value = "x"
					}
					s.Damage("orders", pk, "d", "pk", value)
				}
				s.applied(of, "a", "b", "c")
				s.Must(s.rounds(of, 90*time.Second))
			}
			if !slices.Equal(s.diverged, want) {
				t.Errorf("%s: %v, want %v", late, s.diverged, want)
			}
		})
	}
}
