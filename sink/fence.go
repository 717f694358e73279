package sink

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// This file contains the fence.
//
// A write of a paused process, a late retry or a request that the network delayed may be executed
// hours later. No deadline prevents that. So every write to a row of a target table first names a
// family with a number. The write sets a cell in that family and deletes the cell again. After that
// family is dropped, every later request with its number is rejected as a whole. Writes to
// witnesses and to rows of the state table are compare-and-set requests and carry no stamp.
//
// One rule makes the fence correct. A process must read a number *before* it proves its right to
// write, and must use the number only with that proof. A process that reads the number after the
// proof may have lost the right in between. It would then write under a number that was published
// to keep it out. Prove ensures that order, and only Prove makes Stamps that a fenced table
// accepts.
//
// Between reading the number and proving the right, the process records that it may write under the
// number (Gate). A cutover first halts the tables and then lists these records. So a process that
// is missing in the list will still read the halt, and then has no right to write.

// FencePrefix begins the names of the fence's families.
const FencePrefix = OwnPrefix + "_w"

// OwnPrefix begins the names of all replicator's families. No mapping writes to such a family.
const OwnPrefix = "_cdc"

// IsOwn reports whether a family is replicator's: its cells are not item data.
func IsOwn(family string) bool { return strings.HasPrefix(family, OwnPrefix) }

// IsFence reports whether a family belongs to the fence of any ledger.
func IsFence(family string) bool {
	_, _, ok := ParseFence("", family)
	return ok
}

// FenceFamily returns the name of the family with a number. The name depends on the ledger, so the
// numbers of two ledgers do not collide.
func FenceFamily(ledger string, n uint64) string { return fencesOf(ledger) + strconv.FormatUint(n, 10) }

func fencesOf(ledger string) string {
	sum := sha256.Sum256([]byte(ledger))
	return FencePrefix + hex.EncodeToString(sum[:4]) + "_"
}

// ParseFence returns the number in the name of a family, and whether it belongs to the given
// ledger. It returns false if the family does not belong to a fence.
func ParseFence(ledger, family string) (n uint64, own, ok bool) {
	rest, ok := strings.CutPrefix(family, FencePrefix)
	if !ok {
		return 0, false, false
	}
	_, digits, ok := strings.Cut(rest, "_")
	n, err := strconv.ParseUint(digits, 10, 64)
	if !ok || err != nil {
		return 0, false, false
	}
	return n, family == FenceFamily(ledger, n), true
}

// NextFence returns the number to try next. It is above the last number that was tried and above
// every existing number of any ledger. It is at least the number of minutes since 1970, so that it
// does not collide with numbers of a lost ledger.
func NextFence(last uint64, now time.Time, present []string) uint64 {
	next := max(last+1, uint64(max(0, now.Unix()/60)))
	for _, family := range present {
		if n, _, ok := ParseFence("", family); ok { // a number of any ledger counts
			next = max(next, n+1)
		}
	}
	return next
}

// Mark is the ledger's record of the fence of a target table.
type Mark struct {
	// Family is the family of the published number; "" if none was published yet.
	Family string
	Number uint64
	// Withheld reports that no fence can be raised. Then requests carry no stamp.
	Withheld bool
	// Copied is the time of the cells of fast loads in the table, in microseconds; 0 if there was
	// no fast load (Marker). Swept reports that a sweep has removed their outdated cells.
	Copied int64
	Swept  bool
}

// Marks reads the marks of target tables.
type Marks func(ctx context.Context, table string) (Mark, error)

// Stamps are the numbers under which a right to write was proved, for each target table. The zero
// value proves no right.
type Stamps struct {
	marks    map[string]Mark
	read     Marks
	gate     *Gate
	unfenced bool
}

// Prove reads the marks of target tables. It records in the gate that the process may write under
// these marks. Then it calls `right` to prove the right to write to these tables. For a lease,
// `right` must write the lease's row, which shows that the lease is still held. For work without a
// lease, it must check that generation and mapping are unchanged. In both cases, it must also read
// whether the tables are halted. It must read or write the ledger during the call, and not rely on
// an earlier read. Prove returns the error of `right` unchanged. If a table has no number yet, it
// returns ErrNoFence.
func Prove(ctx context.Context, gate *Gate, tables []string, read Marks, right func(ctx context.Context) error) (Stamps, error) {
	s := Stamps{marks: map[string]Mark{}, read: read, gate: gate}
	for _, table := range tables {
		mark, err := read(ctx, table)
		if err != nil {
			return Stamps{}, err
		}
		if mark.Family == "" && !mark.Withheld {
			return Stamps{}, fmt.Errorf("%w: table %s", ErrNoFence, table)
		}
		s.marks[table] = mark
	}
	if err := gate.record(ctx, s.marks); err != nil {
		return Stamps{}, err
	}
	if err := right(ctx); err != nil {
		return Stamps{}, err
	}
	return s, nil
}

// Prover proves a right to write to target tables, as Prove does.
type Prover func(ctx context.Context, tables []string, right func(ctx context.Context) error) (Stamps, error)

// Unfenced returns stamps for tables that have no fence in any ledger, such as targets in memory
// and in tests.
func Unfenced() Stamps { return Stamps{unfenced: true} }

// The errors of the fence. A retry alone does not fix them.
var (
	// ErrNoFence: the table's coordinator has not published a number yet. No process writes before
	// a number is published.
	ErrNoFence = errors.New("no fence number is published yet")
	// ErrRefenced: a higher number was published since the right to write was proved. The right
	// must be proved again before any write.
	ErrRefenced = errors.New("the fence number rose, so the worker must prove its lease again")
	// ErrUnproved: the caller sent a write without a proof, which is a defect of the program.
	ErrUnproved = errors.New("a write without a proof of its lease")
)

// Outdated reports whether the marks of the tables have changed since the stamps were made.
func (s Stamps) Outdated(ctx context.Context) (bool, error) {
	for _, table := range slices.Sorted(maps.Keys(s.marks)) {
		now, err := s.read(ctx, table)
		if err != nil {
			return false, err
		}
		if s.marks[table].isBelow(now) {
			return true, nil
		}
	}
	return false, nil
}

// Below reports whether `marks` has a newer mark for a table than the stamps have. The map is by
// table.
func (s Stamps) Below(marks map[string]Mark) bool {
	for table, was := range s.marks {
		if now, known := marks[table]; known && was.isBelow(now) {
			return true
		}
	}
	return false
}

func (m Mark) isBelow(now Mark) bool { return now.Number > m.Number || now.Withheld != m.Withheld }

// fenceColumn is the only column of a fence's family. No row keeps a cell there.
const fenceColumn = "f"

// stampOps is the number of operations of a stamp.
const stampOps = 2

// stamp puts the fence's operations before all others, and the set of the cell first of all. There
// are two reasons. Some implementations execute the operations before one with an unknown family.
// Others accept deletes in unknown families.
func (s Stamps) stamp(r *Request) error {
	fence, err := s.fence(r.Table, make([]Op, 0, stampOps))
	if err != nil {
		return err
	}
	if mark := s.marks[r.Table]; mark.Copied > 0 {
		fence = append(fence, mark.unmark(r.Ops)...)
	}
	r.Ops = slices.Insert(r.Ops, 0, fence...)
	return nil
}

// fence appends the fence's operations of a table.
func (s Stamps) fence(table string, ops []Op) ([]Op, error) {
	mark, proved := s.marks[table]
	switch {
	case s.unfenced || mark.Withheld:
		return ops, nil
	case !proved:
		return nil, fmt.Errorf("%w: table %s", ErrUnproved, table)
	}
	return append(ops,
		Op{Kind: SetCell, Family: mark.Family, Qualifier: fenceColumn},
		Op{Kind: DeleteFamily, Family: mark.Family}), nil
}

// size returns how many bytes a stamp adds to a request for a table.
func (s Stamps) size(table string) int64 {
	r := Request{Table: table}
	bare := r.Size()
	if s.stamp(&r) != nil {
		return 0
	}
	return r.Size() - bare
}

// apply stamps a request and sends it. All requests of this package to a Table go through it; a
// test checks that. So this method can count every request in the gate.
func (s Stamps) apply(ctx context.Context, table Table, r Request) (applied bool, err error) {
	if err := s.stamp(&r); err != nil {
		return false, err
	}
	if err := ctx.Err(); err != nil { // nothing is sent, so nothing is in doubt
		return false, classify("CheckAndMutateRow", err)
	}
	if err := s.gate.enter(r.Table); err != nil {
		return false, err
	}
	applied, err = table.Apply(ctx, &r)
	s.gate.leave(r.Table, s.marks[r.Table], err)
	return applied, err
}

// refenced returns ErrRefenced if the fence may be the cause of an error: the table as a whole
// refuses requests, and its mark has changed. Otherwise it returns the error. Only the mark can
// decide, because the service does not say which family is missing.
func (s Stamps) refenced(ctx context.Context, failed error) error {
	if !Is(failed, Permanent) {
		return failed
	}
	return s.decide(ctx, failed)
}

// decide returns ErrRefenced if a mark of the stamps has changed. Otherwise it returns the error.
func (s Stamps) decide(ctx context.Context, failed error) error {
	outdated, err := s.Outdated(ctx)
	switch {
	case err != nil:
		// The cause is unknown, so the caller repeats the write and checks again.
		return &Error{Op: "read the fence's number", Reason: Unknown, Code: "Unavailable"}
	case outdated:
		return ErrRefenced
	}
	return failed
}
