// Package byrule has the functions that an instrumented program calls where a bug is planted by
// rule. An environment variable selects the active bug. All other calls behave as the original
// code.
package byrule

import (
	"cmp"
	"os"
	"strconv"
)

// Variable is the environment variable with the number of the active bug.
const Variable = "REPLICATOR_BUG_BY_RULE"

// awake is read before any instrumented package is initialised, because they import this one.
var awake, _ = strconv.Atoi(os.Getenv(Variable))

// Is returns v, or with its bug always the value said.
func Is(n int, said, v bool) bool {
	if n == awake {
		return said
	}
	return v
}

// Not returns v, or with its bug its negation.
func Not(n int, v bool) bool { return v != (n == awake) }

// Less returns a < b, or with its bug a <= b.
func Less[T cmp.Ordered](n int, a, b T) bool { return a < b || n == awake && a == b }

// LessEqual returns a <= b, or with its bug a < b.
func LessEqual[T cmp.Ordered](n int, a, b T) bool { return a < b || n != awake && a == b }

// Kept reports whether to execute a statement. With its bug the statement is left out.
func Kept(n int) bool { return n != awake }

// Err returns err, or with its bug nil.
func Err(n int, err error) error {
	if n == awake {
		return nil
	}
	return err
}

// Number is any type to which Plus can add.
type Number interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64
}

// Plus returns v, or with its bug a number that is one too large.
func Plus[T Number](n int, v T) T {
	if n == awake {
		return v + 1
	}
	return v
}

// Zero returns v, or with its bug the zero value.
func Zero[T any](n int, v T) T {
	if n == awake {
		var zero T
		return zero
	}
	return v
}
