// Package planted is what instrumented code calls at each point where a bug is planted (see internal/mutants/mechanical). Nothing in the
// tree calls it. A variable of the environment says which bug is awake, by its number; all others do what the code says. With number 0
// none is awake, and each point can note that it was executed, and whether its bug would have made a difference to the value there.
package planted

import (
	"cmp"
	"os"
	"reflect"
	"strconv"
	"sync/atomic"
	"time"
)

// Variable is the variable of the environment with the number of the bug that is awake.
const Variable = "REPLICATOR_PLANTED"

// awake is read before any other package of ours begins, since they import this one.
var awake, _ = strconv.Atoi(os.Getenv(Variable))

// notes has two bits for each point: executed, and different if awake. It is nil unless Watch was called.
var notes []atomic.Uint32

const (
	executed = 1 << iota
	different
)

// Watch has points note what happens to them. It must be called before instrumented code runs.
func Watch(points int) { notes = make([]atomic.Uint32, points+1) }

// Notes gives the numbers of the points that were executed since the last call, and of those whose bug would have made a difference.
func Notes() (ran, differ []int) {
	for n := range notes {
		note := notes[n].Swap(0)
		if note&executed != 0 {
			ran = append(ran, n)
		}
		if note&different != 0 {
			differ = append(differ, n)
		}
	}
	return ran, differ
}

func special(n int) bool { return n == awake || notes != nil }

// choose is the rest of every point: is and would are what the code says, and what the bug says.
func choose[T any](n int, is, would T, same bool) T {
	if notes != nil {
		note := uint32(executed)
		if !same {
			note |= different
		}
		if have := notes[n].Load(); have|note != have {
			notes[n].Or(note)
		}
	}
	if n == awake {
		return would
	}
	return is
}

// Not is a condition that is negated.
func Not(n int, v bool) bool {
	if !special(n) {
		return v
	}
	return choose(n, v, !v, false)
}

// Is is a condition that counts as said.
func Is(n int, said, v bool) bool {
	if !special(n) {
		return v
	}
	return choose(n, v, said, v == said)
}

// Less is a < b, or with its bug a <= b.
func Less[T cmp.Ordered](n int, a, b T) bool {
	if !special(n) {
		return a < b
	}
	return choose(n, a < b, a <= b, a != b)
}

// LessEqual is a <= b, or with its bug a < b.
func LessEqual[T cmp.Ordered](n int, a, b T) bool {
	if !special(n) {
		return a <= b
	}
	return choose(n, a <= b, a < b, a != b)
}

// Before is a.Before(b), or with its bug true for equal instants too.
func Before(n int, a, b time.Time) bool {
	if !special(n) {
		return a.Before(b)
	}
	return choose(n, a.Before(b), !a.After(b), !a.Equal(b))
}

// After is a.After(b), or with its bug true for equal instants too.
func After(n int, a, b time.Time) bool { return Before(n, b, a) }

// Kept tells that a statement is not left out.
func Kept(n int) bool { return !special(n) || choose(n, true, false, false) }

// Early tells that a statement comes before the one it follows; where it stands, Kept has the same number.
func Early(n int) bool { return n == awake }

// Err is an error that is swallowed.
func Err(n int, err error) error {
	if !special(n) {
		return err
	}
	return choose(n, err, nil, err == nil)
}

// Number is what Plus may be added to.
type Number interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64
}

// Plus is a number that is too large, or too small by wrapping.
func Plus[T Number](n int, v, by T) T {
	if !special(n) {
		return v
	}
	return choose(n, v, v+by, false)
}

// Zero is a value that is lost.
func Zero[T any](n int, v T) T {
	if !special(n) {
		return v
	}
	var zero T
	return choose(n, v, zero, reflect.ValueOf(&v).Elem().IsZero())
}

// Either is a value in whose place another stands.
func Either[T any](n int, v, other T) T {
	if !special(n) {
		return v
	}
	return choose(n, v, other, reflect.DeepEqual(v, other))
}

// Min is the smallest value, or with its bug the largest.
func Min[T cmp.Ordered](n int, first T, others ...T) T {
	lowest, highest := first, first
	for _, o := range others {
		lowest, highest = min(lowest, o), max(highest, o)
	}
	if !special(n) {
		return lowest
	}
	return choose(n, lowest, highest, lowest == highest)
}

// Max is the largest value, or with its bug the smallest.
func Max[T cmp.Ordered](n int, first T, others ...T) T {
	lowest, highest := first, first
	for _, o := range others {
		lowest, highest = min(lowest, o), max(highest, o)
	}
	if !special(n) {
		return highest
	}
	return choose(n, highest, lowest, lowest == highest)
}

// Most is a list, or with its bug all of it but the last.
func Most[S ~[]E, E any](n int, list S) S {
	if !special(n) {
		return list
	}
	return choose(n, list, list[:max(0, len(list)-1)], len(list) == 0)
}
