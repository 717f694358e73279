package engine

import (
	"context"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Witnesses are the rows that prove that the table's targets and the ledger belong together, one in
// each target table.
type Witnesses struct {
	*Common
	fencing *Fencing
	mapping *transform.Mapping
	store   func(targetTable string) checkpoint.Store
	shared  bool                     // other migrations may write the target tables
	own     func(source string) bool // whether this process was started for a source table
}

// Stranger fails with a *StrangerError if another migration writes one of the target tables, and
// they are not declared shared. Nothing that removes rows may begin then.
func (w *Witnesses) Stranger(ctx context.Context, tables ...string) error {
	if w.shared {
		return nil
	}
	for _, name := range tables {
		at := checkpoint.Witnesses{Target: name, Store: w.store(name), Prefix: transform.WitnessPrefix, Source: transform.WitnessSource}
		other, found, err := w.Ledger.Stranger(ctx, at, w.own)
		if err != nil && !w.fencing.Formers.missing(ctx, name) {
			return err
		}
		if found {
			return &StrangerError{w.Source, other}
		}
	}
	return nil
}

// Beat checks that the target tables and the ledger belong together, and moves the witness of each
// on. Where they do not, the generation was raised when it returns.
func (w *Witnesses) Beat(life Lifecycle) error {
	for _, at := range w.Places() {
		if err := w.BeatAt(life, at); err != nil {
			return err
		}
	}
	return nil
}

// Places are where the witnesses are, one in each target table.
func (w *Witnesses) Places() []checkpoint.Place {
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

// Withdraw removes the witnesses of target tables that former mappings alone wrote, once nothing
// else of theirs is left there.
func (w *Witnesses) Withdraw(ctx context.Context, state checkpoint.TableState) error {
	for _, name := range state.FormerTables() {
		err := w.Ledger.Withdraw(ctx, w.Source, checkpoint.Place{Store: w.store(name), Key: w.mapping.WitnessKey(), Further: name})
		if err != nil && !w.fencing.Formers.missing(ctx, name) {
			return err
		}
	}
	return nil
}

// table is the target table of a witness.
func (w *Witnesses) table(at checkpoint.Place) string {
	if at.Further == "" {
		return w.mapping.Tables()[0]
	}
	return at.Further
}

func (w *Witnesses) BeatAt(life Lifecycle, at checkpoint.Place) error {
	ctx := life.Work
	state, _, err := w.Ledger.Table(ctx, w.Source)
	if err != nil {
		return err
	}
	if err := w.fence(ctx, &at); err != nil {
		return err
	}
	verdict, witness, err := w.Ledger.Beat(ctx, w.Source, at)
	if err != nil && w.fencing.seen() == 0 && w.fencing.vanished(ctx, w.table(at)) {
		verdict, err = checkpoint.TargetLost, nil // which nobody made anew when this process began, if it was written before
	}
	if err != nil || verdict == checkpoint.Fine {
		return err
	}
	gap := checkpoint.DeclaredGap{Kind: checkpoint.KindTargetLost, Reason: "the target table was recreated or restored, so rows are missing"}
	if state.Reason == checkpoint.ChangedMapping { // perhaps to another table, where nothing was before
		gap.Reason = checkpoint.ChangedMapping + "; its target is another table, or was recreated or restored"
	}
	if verdict == checkpoint.LedgerBehind {
		gap.Kind = checkpoint.KindLedgerLost
		gap.Reason = "the target belongs to another ledger, or to a later state of this one"
	}
	now := task.Now(ctx)
	err = w.Raise(life, state.Generation, gap, func(s *checkpoint.TableState) {
		s.Generation = max(s.Generation, checkpoint.NextGeneration(witness.Generation, now))
	})
	if err != nil {
		return err
	}
	// Repeated by itself: a look at the witness would find the same again, and another generation
	// would begin.
	err = w.Retry(life, "prepare the target", func(ctx context.Context) error { return w.fencing.renewed(ctx, w.table(at), witness.Ledger) })
	if err == nil {
		err = w.fence(ctx, &at)
	}
	if err != nil {
		return err
	}
	return w.Ledger.Claim(ctx, w.Source, at)
}

// fence has the witness name the fence's family, which an application that writes under the guard
// too reads there.
func (w *Witnesses) fence(ctx context.Context, at *checkpoint.Place) error {
	if w.mapping.VersionAttribute() == "" {
		return nil
	}
	mark, err := fence.Marks(w.Ledger)(ctx, w.table(*at))
	if at.Fence = mark.Family; mark.Withheld {
		at.Fence = checkpoint.NoFence
	}
	return err
}
