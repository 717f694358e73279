package load

import (
	"context"
	"testing"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// The witnesses of former tables are withdrawn only with the pass that found nothing to do, because
// until then rows of their mappings are left there. Nothing is withdrawn for a pass that is not
// over or waits for an operator.
func TestWhenWitnessesAreWithdrawn(t *testing.T) {
	for name, c := range map[string]struct {
		counts    checkpoint.Counts
		finished  bool
		waiting   bool
		withdrawn bool
	}{
		"it found nothing":    {checkpoint.Counts{Seen: 1, Left: 1}, true, false, true},
		"it put a row":        {checkpoint.Counts{Put: 1}, true, false, false},
		"it removed a row":    {checkpoint.Counts{Removed: 1}, true, false, false},
		"it left one":         {checkpoint.Counts{Unexplained: 1}, true, false, false},
		"put and left":        {checkpoint.Counts{Put: 1, Unexplained: 1}, true, false, false},
		"put and removed":     {checkpoint.Counts{Put: 1, Removed: 1}, true, false, false},
		"it is not over":      {checkpoint.Counts{}, false, false, false},
		"it waits for a word": {checkpoint.Counts{}, false, true, false},
	} {
		loads(t, func(ctx context.Context, s *loadScene) {
			s.sealed(ctx, 1)
			s.change(ctx, func(state *checkpoint.TableState) {
				state.Load.DoneAt = task.Now(ctx)
				state.Load.Sweep = checkpoint.Sweep{Pass: 1, Parts: 1, Approved: true, BegunAt: task.Now(ctx), Ranges: []checkpoint.SweepRange{{Table: "orders"}}}
				if c.waiting {
					state.Load.Sweep = checkpoint.Sweep{BegunAt: task.Now(ctx), Waiting: true}
				}
				state.Former = []checkpoint.Former{{Hash: "h", Tables: []string{"former"}, Generation: 1}}
			})
			if c.finished {
				s.finish(ctx, checkpoint.PartProgress{Counts: c.counts})
			}
			looks, witness := 0, s.Witness
			former := &checkpointtest.Memory{OnRead: func(_ context.Context, prefix string) error {
				if prefix != transform.WitnessPrefix { // the search for other migrations
					looks++
				}
				return nil
			}}
			s.Witness = func(table string) checkpoint.Store {
				if table == "former" {
					return former
				}
				return witness(table)
			}
			s.Reset()
			began := task.Mono(ctx)
			s.check(s.step(ctx))
			if withdrawn := looks > 0; withdrawn != c.withdrawn || task.Mono(ctx) != began {
				t.Errorf("%s: withdrawn %v after %s, %+v", name, withdrawn, task.Mono(ctx)-began, s.state(ctx).Load.Sweep)
			}
		})
	}
}

// If appliers write the rows, the fence is raised once more before the sweep. Until the load was
// sealed, they wrote messages of earlier generations under its number.
func TestTheFenceBeforeASweep(t *testing.T) {
	for mode, raised := range map[checkpoint.Mode]bool{checkpoint.Direct: false, checkpoint.Topic: true} {
		loads(t, func(ctx context.Context, s *loadScene) {
			s.Mode = mode
			s.Reset()
			s.sealed(ctx, 1)
			s.change(ctx, func(state *checkpoint.TableState) { state.Load.DoneAt, state.Apply = task.Now(ctx), mode })
			var did []string
			s.target.Did = &did
			s.check(s.step(ctx))
			if s.state(ctx).Load.Sweep.Parts == 0 || (len(did) > 0) != raised {
				t.Errorf("%s: %q, %+v", mode, did, s.state(ctx).Load.Sweep)
			}
		})
	}
}

// dropped is a target in which one table no longer exists.
type dropped struct {
	sink.MarkReader
	table string
}

func (d dropped) SampleKeys(ctx context.Context, table string) ([]string, error) {
	if table == d.table {
		return nil, &sink.Error{Op: "SampleRowKeys", Reason: sink.Permanent, Code: "NotFound"}
	}
	return d.MarkReader.SampleKeys(ctx, table)
}

// A deleted table of a former mapping has nothing to sweep. A missing table of the present mapping
// is a failure, not an empty table.
func TestASweepOfATableThatIsDeleted(t *testing.T) {
	for gone, fails := range map[string]bool{"former": false, "orders": true, "no answer": true} {
		loads(t, func(ctx context.Context, s *loadScene) {
			c := s.conductor()
			c.target = dropped{s.target, gone}
			if gone == "no answer" {
				c.target = unanswered{s.target}
			}
			ranges, err := c.ranges(ctx, s.sealed(ctx, 1), nil, []string{"former"})
			if (err != nil) != fails || !fails && (len(ranges) == 0 || ranges[0].Table != "orders" || len(ranges) > mostSweepParts) {
				t.Errorf("%s is gone: %+v, %v", gone, ranges, err)
			}
		})
	}
}

// unanswered is a target that does not answer.
type unanswered struct{ sink.MarkReader }

func (unanswered) SampleKeys(context.Context, string) ([]string, error) {
	return nil, &sink.Error{Op: "SampleRowKeys", Reason: sink.Unknown, Code: "Unavailable"}
}

// While another migration writes the target table, neither a pass of a sweep nor a first load
// begins. Both name that migration, an operator's resume does not end the wait, and both continue
// once it has left, or the target is declared shared.
func TestNothingThatRemovesBeginsBesideAnotherMigration(t *testing.T) {
	for _, shared := range []bool{false, true} {
		for name, prepare := range map[string]func(ctx context.Context, s *loadScene){
			"a first load": func(ctx context.Context, s *loadScene) {
				s.change(ctx, func(state *checkpoint.TableState) { state.Load.AskedAt = task.Now(ctx) })
			},
			"a sweep": func(ctx context.Context, s *loadScene) {
				s.sealed(ctx, 1)
				s.change(ctx, func(state *checkpoint.TableState) { state.Load.DoneAt = task.Now(ctx) })
			},
		} {
			loads(t, func(ctx context.Context, s *loadScene) {
				s.Spec.Shared = shared
				s.Reset()
				other, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "two", checkpoint.Options{Worker: "v", ID: "other"})
				s.check(err)
				at := checkpoint.Place{Store: s.Witness("orders"), Key: transform.WitnessKeyOf("Returns")}
				_, _, err = other.Beat(ctx, "Returns", at)
				s.check(err)
				prepare(ctx, s)
				begun := func() bool {
					return s.state(ctx).Load.Sweep.Parts > 0 || s.state(ctx).Load.Generation > 0 && s.state(ctx).Load.DoneAt.IsZero()
				}
				for range 3 {
					s.check(s.step(ctx))
					_, err = s.Ledger.ResumeLoad(ctx, "Orders", checkpoint.PausedByOperator)
					s.check(err)
				}
				const why = checkpoint.PausedForStranger + `migration "two" copies table Returns into target table orders`
				if begun() != shared || (s.state(ctx).Load.Paused == why) == shared {
					t.Errorf("%s, shared %v: begun %v, paused for %q", name, shared, begun(), s.state(ctx).Load.Paused)
				}
				if shared {
					return
				}
				s.check(other.Withdraw(ctx, "Returns", at))
				s.check(s.step(ctx))
				s.check(s.step(ctx))
				if !begun() || s.state(ctx).Load.Paused != "" {
					t.Errorf("%s, alone: begun %v, paused for %q", name, begun(), s.state(ctx).Load.Paused)
				}
			})
		}
	}
}
