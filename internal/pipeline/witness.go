package pipeline

import (
	"context"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// witnesses are the rows that prove that the table's targets and the ledger belong together, one in
// each target table.
type witnesses struct {
	*common
	fencing *fencing
	mapping *transform.Mapping
	store   func(targetTable string) checkpoint.Store
}

// beat checks that the target tables and the ledger belong together, and moves the witness of each
// on. Where they do not, the generation was raised when it returns.
func (w *witnesses) beat(life lifecycle) error {
	for _, at := range w.places() {
		if err := w.beatAt(life, at); err != nil {
			return err
		}
	}
	return nil
}

// places are where the witnesses are, one in each target table.
func (w *witnesses) places() []checkpoint.Place {
	var all []checkpoint.Place
	for i, name := range w.mapping.Tables() {
		at := checkpoint.Place{Store: w.store(name), Key: w.mapping.WitnessKey(), Further: name}
		if i == 0 {
			at.Further = ""
		}
		all = append(all, at)
	}
	return all
}

// withdraw removes the witnesses of target tables that former mappings alone wrote, once nothing
// else of theirs is left there.
func (w *witnesses) withdraw(ctx context.Context, state checkpoint.TableState) error {
	for _, name := range state.FormerTables() {
		err := w.ledger.Withdraw(ctx, w.source, checkpoint.Place{Store: w.store(name), Key: w.mapping.WitnessKey(), Further: name})
		if err != nil && !w.fencing.formers.missing(ctx, name) {
			return err
		}
	}
	return nil
}

// table is the target table of a witness.
func (w *witnesses) table(at checkpoint.Place) string {
	if at.Further == "" {
		return w.mapping.Tables()[0]
	}
	return at.Further
}

func (w *witnesses) beatAt(life lifecycle, at checkpoint.Place) error {
	ctx := life.work
	state, _, err := w.ledger.Table(ctx, w.source)
	if err != nil {
		return err
	}
	if err := w.fence(ctx, &at); err != nil {
		return err
	}
	verdict, witness, err := w.ledger.Beat(ctx, w.source, at)
	if err != nil && w.fencing.seen() == 0 && w.fencing.vanished(ctx, w.table(at)) {
		verdict, err = checkpoint.TargetLost, nil // which nobody made anew when this process began, if it was written before
	}
	if err != nil || verdict == checkpoint.Fine {
		return err
	}
	gap := checkpoint.DeclaredGap{Kind: checkpoint.KindTargetLost, Reason: "the target table was created anew or restored: rows are missing"}
	if state.Reason == checkpoint.ChangedMapping { // perhaps to another table, where nothing was before
		gap.Reason = checkpoint.ChangedMapping + "; its target is another table, or was created anew or restored"
	}
	if verdict == checkpoint.LedgerBehind {
		gap.Kind = checkpoint.KindLedgerLost
		gap.Reason = "the target was written under another ledger, or a later state of this one"
	}
	now := task.Now(ctx)
	err = w.raise(life, state.Generation, gap, func(s *checkpoint.TableState) {
		s.Generation = max(s.Generation, checkpoint.NextGeneration(witness.Generation, now))
	})
	if err != nil {
		return err
	}
	// Repeated by itself: a look at the witness would find the same again, and another generation
	// would begin.
	err = w.retry(life, "make the target ready", func(ctx context.Context) error { return w.fencing.renewed(ctx, w.table(at), witness.Ledger) })
	if err == nil {
		err = w.fence(ctx, &at)
	}
	if err != nil {
		return err
	}
	return w.ledger.Claim(ctx, w.source, at)
}

// fence has the witness name the fence's family, which an application that writes under the guard
// too reads there.
func (w *witnesses) fence(ctx context.Context, at *checkpoint.Place) error {
	if w.mapping.VersionAttribute() == "" {
		return nil
	}
	mark, err := fence.Marks(w.ledger)(ctx, w.table(*at))
	if at.Fence = mark.Family; mark.Withheld {
		at.Fence = checkpoint.NoFence
	}
	return err
}
