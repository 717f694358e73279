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

// The fence.
//
// A paused process, a late retry or a request that the network kept may execute hours later, and no
// deadline bounds that. So every write of ours to a row of a target table names first a family with
// a number: it sets a cell there and deletes it again. Dropping that family rejects, whole,
// whatever executes afterwards and was stamped with its number. Witnesses and rows of the state
// table are compared and set, and carry no stamp.
//
// The rule that makes it right: a number is read *before* the right to write is proved, and used
// with that proof alone. Who reads it afterwards may have lost the right in between, and would
// write under a number that was published to keep him out. Prove holds to that order, and nothing
// else makes Stamps that a fenced table takes.

// FencePrefix is what the names of the fence's families begin with.
const FencePrefix = OwnPrefix + "_w"

// OwnPrefix is what the names of all families begin with that are ours. No mapping writes to such a
// family.
const OwnPrefix = "_cdc"

// IsOwn reports whether a family is ours: its cells are no data of an item.
func IsOwn(family string) bool { return strings.HasPrefix(family, OwnPrefix) }

// IsFence reports whether a family is one of the fence, of whatever ledger.
func IsFence(family string) bool {
	_, _, ok := ParseFence("", family)
	return ok
}

// FenceFamily is the name of the family with a number: the ledger's name is in it, so that no
// ledger meets the number of another.
func FenceFamily(ledger string, n uint64) string { return fencesOf(ledger) + strconv.FormatUint(n, 10) }

func fencesOf(ledger string) string {
	sum := sha256.Sum256([]byte(ledger))
	return FencePrefix + hex.EncodeToString(sum[:4]) + "_"
}

// ParseFence is the number in the name of a family, and whether it is of the given ledger; false if
// it is none of a fence.
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

// NextFence is the number to try next: above the last one that was tried, above every one that is
// present, of whatever ledger, and no less than the minutes since 1970, so that a ledger that was
// lost leaves no number to meet.
func NextFence(last uint64, now time.Time, present []string) uint64 {
	next := max(last+1, uint64(max(0, now.Unix()/60)))
	for _, family := range present {
		if n, _, ok := ParseFence("", family); ok { // of whatever ledger
			next = max(next, n+1)
		}
	}
	return next
}

// Mark is what the ledger says of the fence of a target table.
type Mark struct {
	// Family is the one of the published number; "" if none was published yet.
	Family string
	Number uint64
	// Withheld: no fence can be kept, and requests carry no stamp.
	Withheld bool
}

// Marks reads the marks of target tables.
type Marks func(ctx context.Context, table string) (Mark, error)

// Stamps are the numbers under which a right to write was proved, for each target table that it is
// about. The zero value is no right at all.
type Stamps struct {
	marks    map[string]Mark
	read     Marks
	unfenced bool
}

// Prove reads the marks of target tables and then proves a right to write to them: that a lease is
// held still, by a write of its row; or for what has no lease, that generation and mapping are
// those under which it is to write. Right must read or write the ledger when it is called. Its
// error is returned as it is. ErrNoFence: a table has no number yet.
func Prove(ctx context.Context, tables []string, read Marks, right func(ctx context.Context) error) (Stamps, error) {
	s := Stamps{marks: map[string]Mark{}, read: read}
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
	if err := right(ctx); err != nil {
		return Stamps{}, err
	}
	return s, nil
}

// Unfenced are stamps for tables of which no ledger keeps a fence: targets in memory, and those of
// tests.
func Unfenced() Stamps { return Stamps{unfenced: true} }

// The errors of the fence. None is repeated as it is.
var (
	// ErrNoFence: the table's coordinator has not published a number yet; nobody writes before.
	ErrNoFence = errors.New("no fence number is published yet")
	// ErrRefenced: a higher number was published since the right to write was proved. Nothing may
	// be written before it is proved again.
	ErrRefenced = errors.New("the fence number rose, so the worker must prove its lease again")
	// ErrUnproved: a write without a proof, which is a mistake of the caller.
	ErrUnproved = errors.New("a write without a proof of its lease")
)

// Outdated reports whether the marks of the tables have changed since the stamps were given.
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

// Below tells whether marks, by table, are others than those of the stamps, as far as they know the
// same tables.
func (s Stamps) Below(marks map[string]Mark) bool {
	for table, was := range s.marks {
		if now, known := marks[table]; known && was.isBelow(now) {
			return true
		}
	}
	return false
}

func (m Mark) isBelow(now Mark) bool { return now.Number > m.Number || now.Withheld != m.Withheld }

// fenceColumn is the one column of a fence's family. No row keeps a cell there.
const fenceColumn = "f"

// stamp puts the fence's operations before all others. To set the cell is the very first: some
// implementations keep what stands before an unknown family, and take a delete in one.
func (s Stamps) stamp(r *Request) error {
	mark, proved := s.marks[r.Table]
	switch {
	case s.unfenced || mark.Withheld:
		return nil
	case !proved:
		return fmt.Errorf("%w: table %s", ErrUnproved, r.Table)
	}
	r.Ops = slices.Insert(r.Ops, 0,
		Op{Kind: SetCell, Family: mark.Family, Qualifier: fenceColumn},
		Op{Kind: DeleteFamily, Family: mark.Family})
	return nil
}

// size is how many bytes a stamp adds to a request for a table.
func (s Stamps) size(table string) int64 {
	r := Request{Table: table}
	bare := r.Size()
	if s.stamp(&r) != nil {
		return 0
	}
	return r.Size() - bare
}

// apply stamps a request and sends it. It is the one way from this package to a Table: a test looks
// for others.
func (s Stamps) apply(ctx context.Context, table Table, r Request) (applied bool, err error) {
	if err := s.stamp(&r); err != nil {
		return false, err
	}
	return table.Apply(ctx, &r)
}

// refenced is ErrRefenced if an error may be the fence's: the table refuses as a whole, and its
// mark has changed since. Else it is the error. The service does not say which family is missing.
func (s Stamps) refenced(ctx context.Context, failed error) error {
	if !Is(failed, Permanent) {
		return failed
	}
	outdated, err := s.Outdated(ctx)
	switch {
	case err != nil:
		// It is not known which of the two it is, so the caller repeats the write and asks again.
		return &Error{Op: "read the fence's number", Reason: Unknown, Code: "Unavailable"}
	case outdated:
		return ErrRefenced
	}
	return failed
}
