package engine

import (
	"context"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Witnesses manages the witness rows of a source table. Each target table has one; it proves that
// the target and the ledger belong together.
type Witnesses struct {
	*Common
	fencing *Fencing
	mapping *transform.Mapping
	store   func(targetTable string) checkpoint.Store
	shared  bool                     // other migrations may write the target tables
	own     func(source string) bool // reports whether this process was started for a source table
}

// Stranger fails with a *StrangerError if another migration writes one of the target tables, and
// the tables are not declared as shared. After this error, no work that removes rows may begin.
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

// Beat checks that the target tables and the ledger belong together, and updates the witness row of
// each target. If a target and the ledger do not belong together, Beat raises the generation before
// it returns.
func (w *Witnesses) Beat(life Lifecycle) error {
	for _, at := range w.Places() {
		if err := w.BeatAt(life, at); err != nil {
			return err
		}
	}
	return nil
}

// Places returns the places of all witness rows, one for each target table.
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

// Withdraw removes the witnesses from target tables that only former mappings wrote. It removes the
// witness only when no rows of those mappings are left in the target.
func (w *Witnesses) Withdraw(ctx context.Context, state checkpoint.TableState) error {
	for _, name := range state.FormerTables() {
		err := w.Ledger.Withdraw(ctx, w.Source, checkpoint.Place{Store: w.store(name), Key: w.mapping.WitnessKey(), Further: name})
		if err != nil && !w.fencing.Formers.missing(ctx, name) {
			return err
		}
	}
	return nil
}

// table returns the target table of a witness.
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
		// The table had a witness earlier, so it was recreated after this process started.
		verdict, err = checkpoint.TargetLost, nil
	}
	if err != nil || verdict == checkpoint.Fine {
		return err
	}
	gap := checkpoint.DeclaredGap{Kind: checkpoint.KindTargetLost, Reason: "the target table was recreated or restored, so rows are missing"}
	// The new mapping may name another target table, which is empty.
	if state.Reason == checkpoint.ChangedMapping {
		gap.Reason = checkpoint.ChangedMapping + "; its target is another table, or was recreated or restored"
	}
	if verdict == checkpoint.LedgerBehind {
		gap.Kind = checkpoint.KindLedgerLost
		gap.Reason = "the target belongs to another ledger, or to a later state of this ledger"
	}
	now := task.Now(ctx)
	err = w.Raise(life, state.Generation, gap, func(s *checkpoint.TableState) {
		s.Generation = max(s.Generation, checkpoint.NextGeneration(witness.Generation, now))
	})
	if err != nil {
		return err
	}
	// This step is retried alone. A retry of the whole check would find the same difference again,
	// and begin another generation.
	err = w.Retry(life, "prepare the target", func(ctx context.Context) error { return w.fencing.renewed(ctx, w.table(at), witness.Ledger) })
	if err == nil {
		err = w.fence(ctx, &at)
	}
	if err != nil {
		return err
	}
	return w.Ledger.Claim(ctx, w.Source, at)
}

// fence stores the name of the fence's family in the witness row. An application that makes its own
// guarded writes reads the name there.
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
