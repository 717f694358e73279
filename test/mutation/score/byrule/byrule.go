// Package byrule is called where a bug is planted by rule. A variable of the environment names the
// bug that is awake; all others do what the code says.
package byrule

import (
	"cmp"
	"os"
	"strconv"
)

// Variable is the variable of the environment with the number of the bug that is awake.
const Variable = "REPLICATOR_BUG_BY_RULE"

// awake is read before any instrumented package begins, since they import this one.
var awake, _ = strconv.Atoi(os.Getenv(Variable))

// Is is a condition that has the value said, whatever it is.
func Is(n int, said, v bool) bool {
	if n == awake {
		return said
	}
	return v
}

// Not is a condition that is negated.
func Not(n int, v bool) bool { return v != (n == awake) }

// Less is a < b, or with its bug a <= b.
func Less[T cmp.Ordered](n int, a, b T) bool { return a < b || n == awake && a == b }

// LessEqual is a <= b, or with its bug a < b.
func LessEqual[T cmp.Ordered](n int, a, b T) bool { return a < b || n != awake && a == b }

// Kept says that a statement is not left out.
func Kept(n int) bool { return n != awake }

// Err is an error that is swallowed.
func Err(n int, err error) error {
	if n == awake {
		return nil
	}
	return err
}

// Number is anything that Plus may add to.
type Number interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64
}

// Plus is a number that is one too large.
func Plus[T Number](n int, v T) T {
	if n == awake {
		return v + 1
	}
	return v
}

// Zero is a value that is not set.
func Zero[T any](n int, v T) T {
	if n == awake {
		var zero T
		return zero
	}
	return v
}
