package stream

import (
	"context"
	"errors"
	"slices"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Holds is a function that reports whether a range of a target table has a row.
type Holds func(ctx context.Context, table string, r sink.Range) (bool, error)

// Unknown reports whether a target table has rows of unknown origin. The result `witnessed` is true
// if the table has a witness row of the source table. Then the rows were written under another
// ledger, which counts as lost.
func (holds Holds) Unknown(ctx context.Context, m *transform.Mapping, table string) (unknown, witnessed bool, err error) {
	others := sink.Prefix(transform.WitnessPrefix) // witness rows of other source tables
	for _, r := range []sink.Range{{To: others.From}, {From: others.To}} {
		if unknown, err = holds(ctx, table, r); unknown || err != nil {
			break
		}
	}
	if err != nil || !unknown {
		return false, false, err
	}
	witnessed, err = holds(ctx, table, sink.Single(m.WitnessKey()))
	return !witnessed, witnessed, err
}

// marked returns a Holds that reads target tables, including replicator's own families. A table
// that does not exist has no rows.
func marked(target sink.MarkReader) Holds {
	return func(ctx context.Context, table string, r sink.Range) (bool, error) {
		found := false
		err := target.ReadMarks(ctx, table, r, true, 1, func(sink.Row) error { found = true; return nil })
		var e *sink.Error
		if errors.As(err, &e) && e.Code == "NotFound" {
			return false, nil
		}
		return found, err
	}
}

// Admission decides from the rows in its targets whether a table's first generation may begin.
type Admission struct {
	*engine.Common
	mapping *transform.Mapping
	target  sink.MarkReader // nil if rows are not checked
	adopt   bool
	// stranger returns an error if another migration writes one of the tables.
	stranger func(ctx context.Context, tables ...string) error
}

func NewAdmission(s *engine.Table) *Admission {
	return &Admission{Common: s.Common, mapping: s.Mapping, target: s.Worker.Target, adopt: s.Spec.AdoptRows, stranger: s.Witnesses.Stranger}
}

// admit fails with a *RowsError if an operator must consent first. If another migration writes a
// target table, it fails with a *engine.StrangerError. It runs before any resource or record is
// created for the table.
func (a *Admission) admit(ctx context.Context) error {
	state, _, err := a.Ledger.Table(ctx, a.Source)
	if err != nil || state.Generation > 0 || a.target == nil {
		return err
	}
	if err := a.stranger(ctx, a.mapping.Tables()...); err != nil {
		return err
	}
	var empty, unknown []string
	lost, adopted := false, false
	for _, table := range a.mapping.Tables() {
		rows, witnessed, err := marked(a.target).Unknown(ctx, a.mapping, table)
		if err != nil {
			return err
		}
		// This read must come after the read of the rows. A worker of another source table records
		// the target before it writes rows, so its rows always have a record.
		t, _, err := a.Ledger.Target(ctx, table)
		switch {
		case err != nil:
			return err
		case witnessed:
			lost = true
		case t.MadeByUs:
		case !rows:
			empty = append(empty, table)
		case t.AdoptRows:
			adopted = true
		default:
			unknown = append(unknown, table)
		}
	}
	if len(unknown) > 0 && !a.adopt && !state.AdoptRows {
		return &engine.RowsError{Table: a.Source, Target: unknown[0]}
	}
	for _, table := range empty {
		if err := a.note(ctx, table, func(t *checkpoint.Target) { t.MadeByUs = true }); err != nil {
			return err
		}
	}
	for _, table := range unknown {
		if err := a.note(ctx, table, func(t *checkpoint.Target) { t.AdoptRows = true }); err != nil {
			return err
		}
	}
	if lost && len(unknown) == 0 && !adopted {
		return nil // the next check compares the witness row
	}
	_, err = a.Ledger.UpdateTable(ctx, a.Source, func(s *checkpoint.TableState) error {
		return s.BeginInto(lost || adopted || len(unknown) > 0, a.adopt || adopted)
	})
	return err
}

// AdmitChange checks whether this mapping may replace the former mapping. The new mapping may write
// other target tables. The result `strange` is true if one of these tables has rows of unknown
// origin, and an operator has consented.
func (a *Admission) AdmitChange(ctx context.Context) (strange bool, err error) {
	state, _, err := a.Ledger.Table(ctx, a.Source)
	if err != nil || state.Generation == 0 || state.MappingHash == a.MappingHash || a.target == nil {
		return false, err
	}
	for _, table := range a.mapping.Tables() {
		if slices.Contains(state.Targets, table) || slices.Contains(state.FormerTables(), table) {
			continue
		}
		if err := a.stranger(ctx, table); err != nil {
			return false, err
		}
		rows, witnessed, err := marked(a.target).Unknown(ctx, a.mapping, table)
		if err != nil {
			return false, err
		}
		t, _, err := a.Ledger.Target(ctx, table)
		switch {
		case err != nil:
			return false, err
		case witnessed:
			// This is an earlier target, from a version that did not record targets.
			strange = strange || len(state.Targets) > 0
		case t.MadeByUs:
		case !rows:
			err = a.note(ctx, table, func(t *checkpoint.Target) { t.MadeByUs = true })
		case t.AdoptRows:
			strange = true
		case !a.adopt && !state.AdoptRows:
			err = &engine.RowsError{Table: a.Source, Target: table}
		default:
			strange = true
			err = a.note(ctx, table, func(t *checkpoint.Target) { t.AdoptRows = true })
		}
		if err != nil {
			return false, err
		}
	}
	return strange, nil
}

func (a *Admission) note(ctx context.Context, table string, change func(*checkpoint.Target)) error {
	_, err := a.Ledger.UpdateTarget(ctx, table, func(t *checkpoint.Target) error { change(t); return nil })
	return err
}
