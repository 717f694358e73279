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
func busy(ctx context.Context, l *checkpoint.Ledger) error {
	_, err := l.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error {
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
	return err
}

// callsFail calls a step again and again, each time with another call to the ledger that fails for
// good, until none does. What a step of the keeper finds out about its ledger is what the step must
// end with, at whichever of its calls that is: what could not be read is not what is not there, and
// a pass that could not note something has not noted it. Prepare, if not nil, changes the ledger of
// busy before.
func callsFail(t *testing.T, prepare func(ctx context.Context, l *checkpoint.Ledger) error, step func(ctx context.Context, k *rig, state checkpoint.TableState) error) {
	t.Helper()
	for n := 1; ; n++ {
		calls := 0
		err := virtual.NewWorld(1, listingsBegin, false).Run(48*time.Hour, func(ctx context.Context) {
			store := &checkpointtest.Memory{}
			ledger, err := checkpoint.Open(ctx, store, "fails", checkpoint.Options{Worker: "w", ID: "l"})
			if err != nil {
				t.Error(err)
				return
			}
			err = busy(ctx, ledger)
			if prepare != nil && err == nil {
				err = prepare(ctx, ledger)
			}
			state, _, errState := ledger.Table(ctx, "Orders")
			if err = errors.Join(err, errState); err != nil {
				t.Error(err)
			}
			stream := &pagedStream{pages: [][]cdc.Shard{{{ID: "open"}, {ID: "done", Closed: true}, {ID: "new"}}}}
			o := &Options{Ledger: ledger, Floors: &Floors{}, Open: func(string) cdc.Source { return stream }, Database: heldUpBy("arn", "label"),
				Witness: func(string) checkpoint.Store { return store }, Timing: Timing{}.orDefault(ledger.Lease()), Events: Events{}.orSilent()}
			k := &rig{Options: o, Table: Table{Mapping: ordersMapping(t)}}
			failAt(store, &calls, n)
			if err := step(ctx, k, state); calls >= n && !errors.Is(err, checkpoint.ErrLedgerExchanged) {
				t.Errorf("call %d: ended with %v", n, err)
			} else if calls < n && err != nil {
				t.Errorf("of %d calls none failed: %v", calls, err)
			}
		})
		if err != nil {
			t.Fatalf("call %d: %v", n, err)
		}
		if calls < n {
			return
		}
		if n == 300 {
			t.Fatal("it does not end")
		}
	}
}

// heldUpBy is a database in which every table has the stream.
func heldUpBy(arn, label string) Database {
	return answering{described: backfill.Description{Name: "Orders", StreamARN: arn, StreamLabel: label, StreamEnabled: true, ViewType: "NEW_AND_OLD_IMAGES", At: listingsBegin}}
}
