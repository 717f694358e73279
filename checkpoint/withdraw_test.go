package checkpoint_test

import (
	"context"
	"errors"
	"testing"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// A witness is removed from a target table that the mapping no longer writes. A worker that slept
// while another mapping began, which writes the table again, leaves the witness.
func TestTheWithdrawalOfAWitnessChecksTheMapping(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		_, b := p.worker("b")
		of := func(l *checkpoint.Ledger, name string, tables ...string) {
			t.Helper()
			_, _, err := l.CheckMapping(ctx, source, checkpoint.Mapping{Hash: name, Text: name, Tables: tables}, true)
			check(t, err)
		}
		create(t, ctx, a)
		former := newTarget()
		at := checkpoint.Place{Store: former.Memory, Key: witnessKey, Further: "former"}
		beat := func(l *checkpoint.Ledger, at checkpoint.Place) {
			t.Helper()
			if verdict, _, err := l.Beat(ctx, source, at); err != nil || verdict != checkpoint.Fine {
				t.Errorf("verdict %d, %v", verdict, err)
			}
		}
		of(a, "one", "former")
		first := at
		first.Further = ""
		beat(a, first)
		of(a, "two", "new")
		of(b, "three", "other", "former")
		if err := a.Withdraw(ctx, source, at); !errors.Is(err, checkpoint.ErrMappingChanged) {
			t.Errorf("under a mapping that was replaced: %v", err)
		}
		if err := b.Withdraw(ctx, source, at); !errors.Is(err, checkpoint.ErrMappingChanged) {
			t.Errorf("of a table that the mapping writes: %v", err)
		}
		beat(b, at)
		of(b, "four", "new")
		check(t, b.Withdraw(ctx, source, at))
		if _, found, err := checkpoint.ReadWitness(ctx, at); found || err != nil {
			t.Errorf("the witness is there: %v", err)
		}
		of(b, "five", "former")
		beat(b, first) // the earlier witness is forgotten
		beat(b, first)

		// A mapping that begins while the row is being removed finds nothing of the witness either.
		of(b, "six", "new")
		former.OnSwap = func(_ context.Context, _ string, execute func() bool) (bool, error) {
			former.OnSwap = nil
			of(a, "seven", "former")
			return execute(), nil
		}
		check(t, b.Withdraw(ctx, source, at))
		beat(a, first)
		if n := len(table(t, ctx, b).WitnessBeats); n > 0 {
			t.Errorf("%d beats of former tables are kept", n)
		}
	})
}
