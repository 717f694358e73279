package verify

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// A row is judged once everything committed before its check is applied, plus a margin, because the
// source's clock may be ahead of its last known time. After the end of a stream no more changes
// come.
func TestWhatIsAppliedBeforeASecondLook(t *testing.T) {
	err := virtual.NewWorld(1, enginetest.ListingsBegin, false).Run(time.Hour, func(ctx context.Context) {
		ledger, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "verify", checkpoint.Options{Worker: "w", ID: "l"})
		if err != nil {
			t.Fatal(err)
		}
		at := task.Now(ctx)
		change := func(f func(s *checkpoint.TableState)) {
			if _, err := ledger.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error { f(s); return nil }); err != nil {
				t.Fatal(err)
			}
		}
		change(func(s *checkpoint.TableState) { s.Generation, s.Adopted, s.Listed, s.Label = 2, 2, 2, "L" })
		if err := ledger.CreateShard(ctx, checkpoint.Shard{Source: "Orders", Label: "L", ID: "s", State: checkpoint.Reading, Hop: cdc.RootHop, Generation: 2,
			FirstRead: at, EventTime: at, AppliedTo: at}); err != nil {
			t.Fatal(err)
		}
		rig := enginetest.NewRig(ledger, engine.Spec{Mapping: enginetest.OrdersMapping(t)})
		v := enginetest.PartOf(rig, func(s *engine.Table) *Verifier { return NewVerifier(s, nil, func() int { return 1 }, &SumSlots{}) })
		for before, want := range map[time.Duration]bool{0: false, engine.AppliedSlack - 1: false, engine.AppliedSlack: true, time.Minute: true} {
			if applied, err := v.applied(ctx, at.Add(-before)); err != nil || applied != want {
				t.Errorf("%s before: applied %t, %v", before, applied, err)
			}
		}
		published := at.Add(-time.Minute) // the first message is applied, and four wait
		change(func(s *checkpoint.TableState) { s.Apply = checkpoint.Topic })
		if err := ledger.CreateShard(ctx, checkpoint.Shard{Source: "Orders", Label: "L", ID: "t", State: checkpoint.Reading, Hop: cdc.RootHop, Generation: 2,
			Apply: checkpoint.Topic, Applied: 5, FirstRead: at, EventTime: at, AppliedTo: at}); err != nil {
			t.Fatal(err)
		}
		track := checkpoint.Track{Generation: 2, Label: "L", Shard: "t"}
		if err := ledger.NoteApplied(ctx, "Orders", []checkpoint.Applied{{Track: track, Runs: checkpoint.Runs{{From: 1, To: 1, At: published}}}}); err != nil {
			t.Fatal(err)
		}
		if err := ledger.MergeApplied(ctx, "Orders"); err != nil {
			t.Fatal(err)
		}
		for before, want := range map[time.Duration]bool{0: false, engine.AppliedSlack - 1: false, engine.AppliedSlack: true} {
			if applied, err := v.applied(ctx, published.Add(-before)); err != nil || applied != want {
				t.Errorf("%s before the last message that is applied: applied %t, %v", before, applied, err)
			}
		}
		change(func(s *checkpoint.TableState) { s.StreamEnded = true })
		if applied, err := v.applied(ctx, at.Add(time.Hour)); err != nil || !applied {
			t.Errorf("after the end of the stream: applied %t, %v", applied, err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// empty is a source without items.
type empty struct{ enginetest.Streaming }

func (empty) Get(context.Context, string, attribute.Item) (attribute.Item, bool, error) {
	return attribute.Item{}, false, nil
}

// A row known to differ is compared again, and removed from the record once it is equal. A worker
// whose mapping differs from the table's does not do that, because other rows are equal for it.
func TestWhatDiffersIsTakenBackUnderItsMappingAlone(t *testing.T) {
	for hash, left := range map[string]int{"mine": 0, "another": 1} {
		err := virtual.NewWorld(1, enginetest.ListingsBegin, false).Run(time.Hour, func(ctx context.Context) {
			must := func(err error) {
				if err != nil {
					t.Fatal(err)
				}
			}
			ledger, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "verify", checkpoint.Options{Worker: "w", ID: "l"})
			must(err)
			_, err = ledger.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error {
				s.Generation, s.MappingHash, s.StreamEnded = 2, hash, true
				return nil
			})
			must(err)
			known, err := json.Marshal(verify.Finding{Kind: verify.Extra, Source: "Orders", Table: "orders", Row: "gone"})
			must(err)
			_, err = ledger.Sample(ctx, "Orders", task.Now(ctx), 1, func([]json.RawMessage) []json.RawMessage { return []json.RawMessage{known} })
			must(err)
			rig := enginetest.NewRig(ledger, engine.Spec{Mapping: enginetest.OrdersMapping(t), MappingHash: "mine", Sample: 0.1, SampleEvery: time.Minute})
			rig.Database = empty{}
			target := &sinktest.Memory{}
			target.Create("orders", "d")
			rig.Timing = engine.Timing{}.OrDefault(ledger.Lease())
			rig.Events.Retry = func(_, what string, _ time.Duration, err error) { t.Errorf("%s: %v", what, err) }
			s := enginetest.PartOf(rig, func(e *engine.Table) *Sampler {
				return NewSampler(NewVerifier(e, target, func() int { return 1 }, &SumSlots{}), rig.Spec)
			})
			must(s.compare(engine.Until(ctx)))
			if found, err := ledger.Mismatches(ctx, "Orders"); err != nil || len(found) != left {
				t.Errorf("under mapping %s %d rows are known to differ, want %d: %v", hash, len(found), left, err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// All times of a verify are the source's, whatever this process's clock shows: checks, results, and
// the changes that it waits for.
func TestTheTimeOfAVerifyIsTheSources(t *testing.T) {
	for _, skew := range []time.Duration{-3 * time.Hour, 0, 3 * time.Hour} {
		playScene(t, "ab", func(s *scene) {
			p := s.World.NewProcess("skewed")
			p.Skew(skew)
			ledger, err := checkpoint.Open(p.Context(), s.Store, s.Config.Name, checkpoint.Options{Worker: "skewed", Lease: s.Ledger.Lease(), ReadOnly: true})
			s.Must(err)
			o := s.options()
			of := engine.NewWorker(&engine.Options{Ledger: ledger, Floors: &engine.Floors{}, Database: o.Database, Events: o.Events.OrSilent(), Timing: o.Timing.OrDefault(ledger.Lease())},
				func(error) {})
			v := NewVerifier(engine.NewTable(of, s.spec), s.Target, func() int { return 1 }, &SumSlots{})
			c := v.comparison(engine.Until(p.Context()), s.Table("Orders"), verify.Scope{})
			if at := c.Now(p.Context()); !at.Equal(s.Now().Add(skew)) {
				t.Errorf("before an answer of the source: %s off", at.Sub(s.Now()))
			}
			ledger.Heard(p.Context(), s.Now())
			s.Sleep(time.Minute)
			looks, err := c.Look(p.Context(), verify.Place{Table: "orders", Row: "a"})
			s.Must(err)
			if at := c.Now(p.Context()); !at.Equal(s.Now()) || !looks[0].At.Equal(s.Now()) {
				t.Errorf("a clock that is %s wrong makes it %s and %s", skew, at.Sub(s.Now()), looks[0].At.Sub(s.Now()))
			}
		})
	}
}
