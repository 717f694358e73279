package pipeline

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// failAt lets the call of a store with the given number fail for good: the ledger is not the one
// that this process was started with.
func failAt(store *checkpointtest.Memory, calls *int, n int) {
	next := func() error {
		if *calls++; *calls == n {
			return checkpoint.ErrLedgerExchanged
		}
		return nil
	}
	store.OnRead = func(context.Context, string) error { return next() }
	store.OnSwap = func(_ context.Context, _ string, execute func() bool) (bool, error) {
		if err := next(); err != nil {
			return false, err
		}
		return execute(), nil
	}
}

// busy prepares a table that has something to do for every step of a pass: a generation that is not
// adopted, a gap that is not declared, one that can be read on, a shard whose children are not
// known, and one whose row says nothing any more.
func busy(ctx context.Context, l *checkpoint.Ledger) (checkpoint.TableState, error) {
	state, err := l.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error {
		s.StreamARN, s.Label, s.Generation, s.Adopted, s.Listed = "arn", "label", 7, 6, 7
		return nil
	})
	ago := func(hours int) time.Time { return listingsBegin.Add(-time.Duration(hours) * time.Hour) }
	for _, s := range []checkpoint.Shard{
		{ID: "gone", State: checkpoint.Gap, Loss: checkpoint.NotFound, Generation: 7, DoneAt: ago(1)},
		{ID: "trimmed", State: checkpoint.Gap, Loss: checkpoint.Trimmed, Generation: 6, DoneAt: ago(1)},
		{ID: "done", State: checkpoint.Done, Generation: 7, DoneAt: ago(1)},
		{ID: "old", State: checkpoint.Done, Generation: 1, DoneAt: ago(90)},
		{ID: "younger", Parent: "old", State: checkpoint.Done, Generation: 1, DoneAt: ago(1)},
		{ID: "open", State: checkpoint.Waiting, Generation: 6},
	} {
		s.Source, s.StreamARN, s.Label, s.Hop = "Orders", "arn", "label", cdc.RootHop
		s.FirstRead = listingsBegin
		err = errors.Join(err, l.CreateShard(ctx, s))
	}
	return state, err
}

// What a step of the keeper finds out about its ledger is what the step ends with, at whichever of
// its calls that is: what could not be read is not what is not there, and a pass that could not
// note something has not noted it.
func TestAPassEndsWithWhatItFindsOut(t *testing.T) {
	const lostTarget, beginningLoad, endingLoad = "a target that was lost", "a load that begins", "a load that ends"
	mapping := ordersMapping(t)
	for name, step := range map[string]func(ctx context.Context, k *rig, state checkpoint.TableState) error{
		"a complete pass": func(ctx context.Context, k *rig, _ checkpoint.TableState) error {
			return k.reconciler().complete(until(ctx))
		},
		"a small pass": func(ctx context.Context, k *rig, _ checkpoint.TableState) error {
			return k.reconciler().small(until(ctx))
		},
		"a look at the source": func(ctx context.Context, k *rig, _ checkpoint.TableState) error { return k.table().sameSource(ctx) },
		"a pass of a named table that was dropped": func(ctx context.Context, k *rig, _ checkpoint.TableState) error {
			k.Database = dropped{}
			return k.reconciler().complete(until(ctx))
		},
		"a new stream": func(ctx context.Context, k *rig, _ checkpoint.TableState) error {
			k.Database = heldUpBy("arn2", "label2")
			k.Open = func(arn string) cdc.Source {
				if arn == "arn" {
					return endedStream{}
				}
				return &pagedStream{pages: [][]cdc.Shard{{{ID: "n"}}}}
			}
			return k.reconciler().complete(until(ctx))
		},
		"a stream that is gone": func(ctx context.Context, k *rig, state checkpoint.TableState) error {
			k.Open = func(string) cdc.Source { return endedStream{} }
			_, err := k.reconciler().list(until(ctx), state)
			return err
		},
		lostTarget: func(ctx context.Context, k *rig, _ checkpoint.TableState) error {
			return k.reconciler().witnesses.beat(until(ctx))
		},
		"a shard whose parent nobody has listed": func(ctx context.Context, k *rig, _ checkpoint.TableState) error {
			k.Open = func(string) cdc.Source {
				return &pagedStream{pages: [][]cdc.Shard{{{ID: "open"}, {ID: "x", Parent: "nobody"}}}}
			}
			return k.reconciler().complete(until(ctx))
		},
		beginningLoad: func(ctx context.Context, k *rig, state checkpoint.TableState) error {
			return k.table().keeper.conductor.seal(until(ctx), view{state: state})
		},
		endingLoad: func(ctx context.Context, k *rig, state checkpoint.TableState) error {
			return k.table().keeper.conductor.complete(until(ctx), state, unpaced{})
		},
	} {
		for n := 1; ; n++ {
			calls := 0
			err := virtual.NewWorld(1, listingsBegin, false).Run(48*time.Hour, func(ctx context.Context) {
				store := &checkpointtest.Memory{}
				ledger, err := checkpoint.Open(ctx, store, "fails", checkpoint.Options{Worker: "w", ID: "l"})
				if err != nil {
					t.Error(err)
					return
				}
				state, err := busy(ctx, ledger)
				if name == lostTarget {
					_, errBeat := ledger.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error { s.WitnessBeat = 5; return nil })
					err = errors.Join(err, errBeat)
				}
				if name == beginningLoad {
					var errAsked error
					state, errAsked = ledger.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error {
						s.Adopted, s.Load.AskedAt = s.Generation, listingsBegin
						return nil
					})
					err = errors.Join(err, errAsked)
				}
				if name == endingLoad { // in the next generation, of which nothing is lost
					_, errNext := ledger.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error {
						s.Generation, s.Load = 8, checkpoint.Load{Generation: 8, Number: 1, Parts: 1, StartedAt: listingsBegin}
						return nil
					})
					var errAdopt error
					state, errAdopt = ledger.Adopt(ctx, "Orders")
					part, errPart := ledger.TakePart(ctx, checkpoint.Part{Source: "Orders", Generation: 8, Number: 1, Phase: checkpoint.PhaseCopy, Total: 1})
					if err = errors.Join(err, errNext, errAdopt, errPart); err == nil {
						err = part.Finish(ctx, checkpoint.PartProgress{Items: 7})
					}
				}
				if err != nil {
					t.Error(err)
				}
				stream := &pagedStream{pages: [][]cdc.Shard{{{ID: "open"}, {ID: "done", Closed: true}, {ID: "new"}}}}
				o := &Options{Ledger: ledger, Floors: &Floors{}, Open: func(string) cdc.Source { return stream }, Database: heldUpBy("arn", "label"),
					Witness: func(string) checkpoint.Store { return store }, Timing: Timing{}.orDefault(ledger.Lease()), Events: Events{}.orSilent()}
				k := &rig{Options: o, Table: Table{Mapping: mapping}}
				failAt(store, &calls, n)
				if err := step(ctx, k, state); calls >= n && !errors.Is(err, checkpoint.ErrLedgerExchanged) {
					t.Errorf("%s, call %d: ended with %v", name, n, err)
				} else if calls < n && err != nil {
					t.Errorf("%s: of %d calls none failed: %v", name, calls, err)
				}
			})
			if err != nil {
				t.Fatalf("%s, call %d: %v", name, n, err)
			}
			if calls < n {
				break
			}
			if n == 300 {
				t.Fatalf("%s does not end", name)
			}
		}
	}
}

// unpaced keeps no pace.
type unpaced struct{}

func (unpaced) SavePace(context.Context, checkpoint.Pace) error { return nil }

// heldUpBy is a database in which every table has the stream.
func heldUpBy(arn, label string) Database {
	return answering{described: backfill.Description{Name: "Orders", StreamARN: arn, StreamLabel: label, StreamEnabled: true, ViewType: "NEW_AND_OLD_IMAGES", At: listingsBegin}}
}
