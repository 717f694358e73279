package checkpoint

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
)

// Verdict is the result of comparing a target's witness with the ledger.
type Verdict uint8

// The verdicts.
const (
	// Fine means that ledger and target belong together.
	Fine Verdict = iota
	// TargetLost means that the target was recreated, or restored to a state before the ledger's
	// last beat (H69).
	TargetLost
	// LedgerBehind means that the target was written under another ledger, or under a later state
	// of this one (H68).
	LedgerBehind
)

// Witness is the row that replicator keeps for each source table in its target table.
type Witness struct {
	header
	Ledger string `json:"ledger"`
	// Pipeline is the ledger's name, for display; "" if an earlier version wrote it.
	Pipeline   string `json:"pipeline,omitempty"`
	Generation uint32 `json:"generation"`
	Beat       uint64 `json:"beat"`
	// Fence is the family that every write to the target table names first. An application that
	// also writes the table reads the fence here (package dualwrite). Fence is "" if no fence is
	// published yet, or if only the ledger's workers write. It is NoFence if no fence can be
	// raised.
	Fence string `json:"fence,omitempty"`
}

// counter returns the counter for the compare-and-set of the witness's row. Rows of two ledgers
// never have the same counter. So a late beat does not replace another pipeline's witness after the
// target was exchanged. One ledger never uses a counter twice, because its beats rise even when the
// target is lost. The hash in the counter has only 63 bits, so that the sum with the beat cannot
// overflow.
func (w Witness) counter() uint64 {
	sum := sha256.Sum256([]byte(w.Ledger))
	return binary.BigEndian.Uint64(sum[:])>>1 + w.Beat
}

// Judge compares a witness with the ledger's record. If there is neither a witness nor a beat in
// the ledger, both are new.
func Judge(w Witness, found bool, ledger string, table TableState) Verdict {
	switch {
	case !found && table.WitnessBeat == 0:
		return Fine
	case !found:
		return TargetLost
	case w.Ledger != ledger || w.Generation > table.Generation || w.Beat > table.WitnessBeat+1:
		return LedgerBehind
	case w.Beat < table.WitnessBeat:
		return TargetLost
	}
	return Fine // the same beat, or one more: the worker ended before it mirrored the beat
}

// Place is the location of a witness.
type Place struct {
	Store Store
	Key   string // of the witness's row
	// Further names the target table if it is not the first target of the source table; otherwise
	// it is empty.
	Further string
	// Fence is the value for the witness's Fence.
	Fence string
}

// NoFence is the value of Witness.Fence if the fence is withheld: writes name no fence.
const NoFence = "-"

// ReadWitness reads the witness at a place. Applications that also write the target use it.
func ReadWitness(ctx context.Context, at Place) (w Witness, found bool, err error) {
	w, _, found, err = readWitness(ctx, at)
	return w, found, err
}

// Beat checks the witness of a source table. If the verdict is Fine, it raises the witness's beat
// and mirrors it in the ledger. Otherwise it changes nothing and returns the verdict and the
// witness. The caller must then raise the generation above the witness's generation and call Claim.
func (l *Ledger) Beat(ctx context.Context, source string, at Place) (Verdict, Witness, error) {
	return l.witness(ctx, source, at, false)
}

// Claim makes the witness belong to this ledger after the generation was raised.
func (l *Ledger) Claim(ctx context.Context, source string, at Place) error {
	_, _, err := l.witness(ctx, source, at, true)
	return err
}

// Withdraw removes the witness of a source table from a target table to which the source is no
// longer copied, and its beat from the ledger. It does not remove a witness of another ledger. It
// fails with ErrMappingChanged if another mapping has begun meanwhile, because the new mapping may
// write the table again.
func (l *Ledger) Withdraw(ctx context.Context, source string, at Place) error {
	w, row, found, err := readWitness(ctx, at)
	if err != nil || !found || w.Ledger != l.id {
		return err
	}
	table, _, err := l.Table(ctx, source) // read after the witness: a later beat has another counter
	if err == nil {
		err = l.checkHash(table)
	}
	if err == nil && slices.Contains(table.Targets, at.Further) {
		err = ErrMappingChanged
	}
	if err != nil {
		return err
	}
	done, err := l.exchange(ctx, at.Store, at.Key, row.Counter, 0, nil)
	if err == nil && !done {
		err = ErrConflict
	}
	if err != nil {
		return err
	}
	_, err = l.UpdateTable(ctx, source, func(s *TableState) error { s.forgetWitness(at.Further, w.Beat); return nil })
	return err
}

// forgetWitness removes the mirrored beat of a target table's witness from the record. Otherwise a
// later mapping that writes the table again would judge the target as lost.
func (s *TableState) forgetWitness(table string, beat uint64) {
	if len(s.Targets) > 0 && s.Targets[0] == table && s.WitnessBeat <= beat {
		s.WitnessBeat = 0
	}
	if _, mirrored := s.WitnessBeats[table]; mirrored {
		s.WitnessBeats = maps.Clone(s.WitnessBeats)
		delete(s.WitnessBeats, table)
	}
}

// Look judges the witness of a source table without changing anything. Readers use it while no
// coordinator runs. It fails with ErrConflict if a coordinator beats meanwhile.
func (l *Ledger) Look(ctx context.Context, source string, at Place) (Verdict, error) {
	table, err := l.mirrored(ctx, source, at)
	if err != nil {
		return Fine, err
	}
	w, _, found, err := readWitness(ctx, at)
	if err != nil {
		return Fine, err
	}
	verdict := Judge(w, found, l.id, table)
	if verdict == Fine {
		return Fine, nil
	}
	return verdict, l.unchanged(ctx, table, at)
}

// readWitness reads the witness at a place, and its row.
func readWitness(ctx context.Context, at Place) (w Witness, row Row, found bool, err error) {
	if row, found, err = readRow(ctx, at.Store, at.Key); err == nil && found {
		err = decode(row, &w)
	}
	return w, row, found, err
}

// mirrored returns the record of the source table with WitnessBeat set to the beat of this target
// table's witness.
func (l *Ledger) mirrored(ctx context.Context, source string, at Place) (TableState, error) {
	table, _, err := l.Table(ctx, source)
	if at.Further != "" {
		table.WitnessBeat = table.WitnessBeats[at.Further]
	}
	return table, err
}

func (l *Ledger) witness(ctx context.Context, source string, at Place, claim bool) (Verdict, Witness, error) {
	held := source + "/" + at.Further
	l.mu.Lock()
	mine := l.claimed[held]
	l.mu.Unlock()
	table, err := l.mirrored(ctx, source, at)
	if err != nil {
		return Fine, Witness{}, err
	}
	w, row, found, err := readWitness(ctx, at)
	if err != nil {
		return Fine, Witness{}, err
	}
	if found && mine && w.Ledger != l.id {
		// This process has claimed the witness before. Two live pipelines would take the witness
		// from each other endlessly.
		return Fine, w, ErrForeignPipeline
	}
	if verdict := Judge(w, found, l.id, table); verdict != Fine && !claim {
		return verdict, w, l.unchanged(ctx, table, at)
	}
	if claim && w.Generation > table.Generation {
		return LedgerBehind, w, fmt.Errorf("%w: the witness is of generation %d, the table of %d", ErrConflict, w.Generation, table.Generation)
	}
	// Write the ledger's mirror first, so the witness is never more than one beat ahead. Otherwise
	// the ledger would look as if it had been restored to an older state.
	if err := l.mirror(ctx, source, at, w.Beat); err != nil {
		return Fine, w, err
	}
	next := Witness{Ledger: l.id, Pipeline: l.name, Generation: table.Generation, Beat: max(w.Beat, table.WitnessBeat) + 1, Fence: at.Fence}
	done, err := l.exchange(ctx, at.Store, at.Key, row.Counter, next.counter(), l.stamp(&next.header, &next))
	if err != nil {
		return Fine, w, err
	}
	if !done {
		return Fine, w, ErrConflict // another coordinator or pipeline was faster; the next beat shows which
	}
	l.mu.Lock()
	l.claimed[held] = true
	l.mu.Unlock()
	return Fine, next, l.mirror(ctx, source, at, next.Beat)
}

// mirror records the witness's beat in the ledger.
func (l *Ledger) mirror(ctx context.Context, source string, at Place, beat uint64) error {
	_, err := l.UpdateTable(ctx, source, func(s *TableState) error {
		if err := l.checkHash(*s); err != nil {
			return err // otherwise a delayed coordinator could recreate a former mapping's removed witness
		}
		if at.Further == "" {
			s.WitnessBeat = max(s.WitnessBeat, beat)
			return nil
		}
		beats := maps.Clone(s.WitnessBeats) // other code may hold the record that was read
		if beats == nil {
			beats = map[string]uint64{}
		}
		beats[at.Further] = max(beats[at.Further], beat)
		s.WitnessBeats = beats
		return nil
	})
	return err
}

// unchanged returns ErrConflict if the table's record has changed since the caller read it. The
// argument `before` is the record that the caller read. The witness was read in between. A verdict
// that compares the witness with an outdated record is invalid. Without this check, a worker that
// was suspended there for longer than a lease could declare a false gap.
func (l *Ledger) unchanged(ctx context.Context, before TableState, at Place) error {
	now, err := l.mirrored(ctx, before.Source, at)
	if err == nil && (now.WitnessBeat != before.WitnessBeat || now.Generation != before.Generation) {
		err = fmt.Errorf("%w: another worker wrote the witness meanwhile", ErrConflict)
	}
	return err
}
