package checkpoint

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
)

// Verdict is what a witness says of a target and a ledger.
type Verdict uint8

// The verdicts.
const (
	// Fine: they belong together.
	Fine Verdict = iota
	// TargetLost: the target was created anew, or restored from before the ledger's last beat (H69).
	TargetLost
	// LedgerBehind: the target was written under another ledger, or a later state of this one (H68).
	LedgerBehind
)

// Witness is the one row of ours per source table in its target table.
type Witness struct {
	header
	Ledger string `json:"ledger"`
	// Pipeline is the ledger's name, for people; "" if an earlier version wrote it.
	Pipeline   string `json:"pipeline,omitempty"`
	Generation uint32 `json:"generation"`
	Beat       uint64 `json:"beat"`
	// Fence is the family that every write to the target table names first, for an application that writes the table too, under
	// the same guard (package dualwrite); "" if none is published yet, or nobody but the
	// ledger's workers writes, and NoFence if none can be had.
	Fence string `json:"fence,omitempty"`
}

// counter is what the witness's row is compared and set by. Rows of two ledgers never have the same one: a beat that executes late, after the
// target was exchanged for another pipeline's, must not take that witness for the one it read. Nor has one ledger the same counter twice,
// because beats rise through every loss of the target. 63 bits leave room for the beats above each ledger's beginning.
func (w Witness) counter() uint64 {
	sum := sha256.Sum256([]byte(w.Ledger))
	return binary.BigEndian.Uint64(sum[:])>>1 + w.Beat
}

// Judge compares a witness with the ledger's record. Without a witness and without a beat in the ledger everything is new.
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
	return Fine // the same beat, or one more: the worker ended between the beat and its mirror
}

// Place is where a witness is kept.
type Place struct {
	Store Store
	Key   string // of its row
	// Further names the target table if it is not the first of the source table, and is empty if it is.
	Further string
	// Fence is what the witness is to say of the fence.
	Fence string
}

// NoFence is what a witness says of a fence that is withheld: writes carry no number.
const NoFence = "-"

// ReadWitness reads the witness at a place, as an application does that writes the target too.
func ReadWitness(ctx context.Context, at Place) (w Witness, found bool, err error) {
	w, _, found, err = readWitness(ctx, at)
	return w, found, err
}

// Beat checks the witness of a source table and, if it is fine, moves it on and mirrors that in the ledger. Otherwise it changes
// nothing and returns the verdict and the witness: the caller raises the generation (above the witness's) and then Claims.
func (l *Ledger) Beat(ctx context.Context, source string, at Place) (Verdict, Witness, error) {
	return l.witness(ctx, source, at, false)
}

// Claim makes the witness this ledger's own after the generation was raised.
func (l *Ledger) Claim(ctx context.Context, source string, at Place) error {
	_, _, err := l.witness(ctx, source, at, true)
	return err
}

// Withdraw removes the witness of a source table from a target table that it is not copied to any
// more, and what the ledger knows of it. One of another ledger stays. It fails with
// ErrMappingChanged if another mapping has begun meanwhile, which may write the table again.
func (l *Ledger) Withdraw(ctx context.Context, source string, at Place) error {
	w, row, found, err := readWitness(ctx, at)
	if err != nil || !found || w.Ledger != l.id {
		return err
	}
	table, _, err := l.Table(ctx, source) // after the witness: a beat since then has another counter
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

// forgetWitness forgets that the witness of a target table was seen at a beat, wherever that is kept
// by now. Otherwise a mapping that writes the table again would take it for lost.
func (s *TableState) forgetWitness(table string, beat uint64) {
	if len(s.Targets) > 0 && s.Targets[0] == table && s.WitnessBeat <= beat {
		s.WitnessBeat = 0
	}
	if _, mirrored := s.WitnessBeats[table]; mirrored {
		s.WitnessBeats = maps.Clone(s.WitnessBeats)
		delete(s.WitnessBeats, table)
	}
}

// Look judges the witness of a source table, and changes nothing, whatever it finds: for readers, while no coordinator beats. It fails with ErrConflict if one does.
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

// readWitness reads the witness at a place, and gives the row that it is.
func readWitness(ctx context.Context, at Place) (w Witness, row Row, found bool, err error) {
	if row, found, err = readRow(ctx, at.Store, at.Key); err == nil && found {
		err = decode(row, &w)
	}
	return w, row, found, err
}

// mirrored is the record of the source table as the target table's witness sees it: WitnessBeat is its own.
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
		// It was ours since this process started. Two live pipelines would take it from each other for ever.
		return Fine, w, ErrForeignPipeline
	}
	if verdict := Judge(w, found, l.id, table); verdict != Fine && !claim {
		return verdict, w, l.unchanged(ctx, table, at)
	}
	if claim && w.Generation > table.Generation {
		return LedgerBehind, w, fmt.Errorf("%w: the witness is of generation %d, the table of %d", ErrConflict, w.Generation, table.Generation)
	}
	// The ledger's mirror first: the witness is never more than one beat ahead of it, or it would look as if the ledger had been
	// set back.
	if err := l.mirror(ctx, source, at, w.Beat); err != nil {
		return Fine, w, err
	}
	next := Witness{Ledger: l.id, Pipeline: l.name, Generation: table.Generation, Beat: max(w.Beat, table.WitnessBeat) + 1, Fence: at.Fence}
	done, err := l.exchange(ctx, at.Store, at.Key, row.Counter, next.counter(), l.stamp(&next.header, &next))
	if err != nil {
		return Fine, w, err
	}
	if !done {
		return Fine, w, ErrConflict // another coordinator of ours beat first, or another pipeline: the next beat tells
	}
	l.mu.Lock()
	l.claimed[held] = true
	l.mu.Unlock()
	return Fine, next, l.mirror(ctx, source, at, next.Beat)
}

// mirror notes in the ledger how far the witness has come.
func (l *Ledger) mirror(ctx context.Context, source string, at Place, beat uint64) error {
	_, err := l.UpdateTable(ctx, source, func(s *TableState) error {
		if err := l.checkHash(*s); err != nil {
			return err // or a coordinator that slept would make a witness where a former mapping's was removed
		}
		if at.Further == "" {
			s.WitnessBeat = max(s.WitnessBeat, beat)
			return nil
		}
		beats := maps.Clone(s.WitnessBeats) // the record that was read may be looked at elsewhere
		if beats == nil {
			beats = map[string]uint64{}
		}
		beats[at.Further] = max(beats[at.Further], beat)
		s.WitnessBeats = beats
		return nil
	})
	return err
}

// unchanged fails with ErrConflict if the table's record has moved on since it was read as before. The witness was read in
// between: a verdict on it against a record of another time is worth nothing. A worker that stood still there for longer
// than a lease would declare a gap that is none.
func (l *Ledger) unchanged(ctx context.Context, before TableState, at Place) error {
	now, err := l.mirrored(ctx, before.Source, at)
	if err == nil && (now.WitnessBeat != before.WitnessBeat || now.Generation != before.Generation) {
		err = fmt.Errorf("%w: another worker wrote the witness meanwhile", ErrConflict)
	}
	return err
}
