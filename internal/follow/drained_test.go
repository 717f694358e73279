package follow

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// H18: what was found of a table a while ago, and could not be looked at since, does not end the
// run with another one that is drained now.
func TestH18_WhatWasFoundBeforeHoldsStill(t *testing.T) {
	err := virtual.NewWorld(1, time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC), false).Run(time.Hour, func(ctx context.Context) {
		ledger, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "drained", checkpoint.Options{Worker: "w", ID: "l"})
		if err != nil {
			t.Error(err)
			return
		}
		o := &engine.Options{Ledger: ledger, Once: true, Timing: engine.Timing{IdlePages: 2}.OrDefault(ledger.Lease())}
		p := engine.NewWorker(o, nil)
		assigning := func(source string) *Assigner {
			s := engine.NewTable(p, engine.Spec{Mapping: &transform.Mapping{Source: source}})
			p.Completion.Await(source, &s.Wake.Assigner)
			return NewAssigner(s, NewFollower(s, nil, NewSettleRoom(0), nil))
		}
		a, b := assigning("A"), assigning("B")
		read := checkpoint.Shard{Label: "l", ID: "s", State: checkpoint.Reading, Owner: ledger.Worker()}
		v := engine.View{State: checkpoint.TableState{Label: "l", Generation: 1, Adopted: 1, Listed: 1}, Shards: []checkpoint.Shard{read}}
		quiet := func(tb *Assigner) {
			tb.tracker.Read("s", checkpoint.Progress{CaughtUp: true}, task.Mono(ctx)-o.Timing.Idle)
			tb.tracker.Read("s", checkpoint.Progress{CaughtUp: true}, task.Mono(ctx))
		}
		step := func(tb *Assigner, over bool, when string) {
			if got := tb.reportDrained(ctx, v); got != over {
				t.Errorf("%s: over %v", when, got)
			}
		}
		quiet(a)
		step(a, false, "one of two tables is drained")
		err = task.Sleep(ctx, time.Minute)
		quiet(b)
		step(b, false, "the other one is, a minute later")
		step(a, false, "the first one was not read since")
		quiet(a)
		step(a, true, "both are")
		if err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// H18: neither what is trimmed, and is to be declared or read on, nor a copy that goes on is
// drained, though nobody reads the shard at the moment.
func TestH18_WhatIsToGoOnIsNotDrained(t *testing.T) {
	ctx, at := context.Background(), time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	ledger, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "drained", checkpoint.Options{Worker: "w", ID: "l"})
	if err != nil {
		t.Fatal(err)
	}
	tb := assignerOf(enginetest.NewRig(ledger, engine.Spec{Copy: true}))
	begun := checkpoint.TableState{Label: "l", Generation: 2, Adopted: 2, Listed: 1, Load: checkpoint.Load{Generation: 2, StartedAt: at}}
	copied, broken := begun, begun
	copied.Load.DoneAt, broken.NeedsLoad = at, true
	done := checkpoint.Shard{Label: "l", ID: "s", State: checkpoint.Done, Generation: 2, DoneAt: at}
	lost := func(loss checkpoint.Loss, generation uint32) checkpoint.Shard {
		return checkpoint.Shard{Label: "l", ID: "s", State: checkpoint.Gap, Loss: loss, Generation: generation, DoneAt: at}
	}
	for _, c := range []struct {
		name  string
		state checkpoint.TableState
		shard checkpoint.Shard
		want  bool
	}{
		{"a copy that is complete", copied, done, true},
		{"a copy that was begun", begun, done, false},
		{"a gap that is declared", broken, lost(checkpoint.NotFound, 1), true},
		{"a gap that is not declared yet", broken, lost(checkpoint.NotFound, 2), false},
		{"what is left of a trimmed shard", broken, lost(checkpoint.Trimmed, 1), false},
	} {
		if got := tb.drained(engine.View{State: c.state, Shards: []checkpoint.Shard{c.shard}, Listed: at.Add(48 * time.Hour)}, 0); got != c.want {
			t.Errorf("%s: drained %v", c.name, got)
		}
	}
}

// H13: a day after a shard ended its children may be gone, and whoever begins then has not listed
// them either. Nothing is drained before a whole listing shows that there are none: until then what
// they hold may be missing.
func TestH13_WhatFollowsAShardIsListedBeforeItIsDrained(t *testing.T) {
	begin := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	err := virtual.NewWorld(1, begin, false).Run(72*time.Hour, func(ctx context.Context) {
		ledger, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "drained", checkpoint.Options{Worker: "w", ID: "l"})
		if err != nil {
			t.Error(err)
			return
		}
		k := enginetest.NewRig(ledger, engine.Spec{})
		k.Once = true
		tb := assignerOf(k)
		_, err = ledger.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error {
			s.Label, s.Generation, s.Adopted, s.Listed = "l", 1, 1, 1
			return nil
		})
		ended := checkpoint.Shard{Source: "Orders", Label: "l", ID: "s", State: checkpoint.Done, Generation: 1, DoneAt: begin}
		if err = errors.Join(err, ledger.CreateShard(ctx, ended)); err != nil {
			t.Error(err)
			return
		}
		for _, step := range []struct {
			name   string
			at     time.Duration
			listed time.Duration // 0: not by now
			want   bool
		}{
			{"it may have children that are not listed yet", time.Minute, time.Minute, false},
			{"nobody has listed since", 30 * time.Hour, 0, false},
			{"a coordinator that stood still brings an old listing", 31 * time.Hour, 23 * time.Hour, false},
			{"a listing of now has none", 32 * time.Hour, 32 * time.Hour, true},
		} {
			err := task.Sleep(ctx, begin.Add(step.at).Sub(task.Now(ctx)))
			if step.listed > 0 {
				err = errors.Join(err, ledger.NoteOpen(ctx, "Orders", "l", nil, begin.Add(step.listed), map[string]bool{"s": true}))
			}
			ledger.Heard(ctx, task.Now(ctx))
			v, looked := tb.attempt(ctx)
			if err = errors.Join(err, looked); err != nil {
				t.Errorf("%s: %v", step.name, err)
			}
			if got := tb.drained(v, task.Mono(ctx)); got != step.want {
				t.Errorf("%s: drained %v", step.name, got)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}
