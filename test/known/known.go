// Package known marks the tests of known defects. Once a defect is fixed, its marked test fails, so
// that the mark is removed.
package known

import (
	"fmt"
	"testing"
)

// Expect returns nil if the right value holds, and otherwise an error that describes what was seen.
func Expect(holds bool, format string, args ...any) error {
	if holds {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// Judge compares a test's result with the description of a known defect. Right is nil if the
// product behaves correctly. Judge returns an error if the defect is fixed or shows in another way.
func Judge(issue int, defect string, right error) error {
	switch {
	case right == nil:
		return fmt.Errorf("cured: remove the mark of issue %d and state the right value; the defect was: %s", issue, defect)
	case right.Error() != defect:
		return fmt.Errorf("the defect of issue %d shows in another way:\n  %v\ndescribed:\n  %s", issue, right, defect)
	}
	return nil
}

// Defect fails the test unless Judge finds the defect as described.
func Defect(t testing.TB, issue int, defect string, right error) {
	t.Helper()
	if err := Judge(issue, defect, right); err != nil {
		t.Error(err)
	}
}
