// Package known marks the tests of known defects. A cure makes them fail, so that no mark stays.
package known

import (
	"fmt"
	"testing"
)

// Expect returns nil where the right value holds, and otherwise an error that says what was seen.
func Expect(holds bool, format string, args ...any) error {
	if holds {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// Judge compares what a test saw with the description of the defect that an issue will cure. Right
// is nil where the product is right. Judge returns an error if the defect is cured, or shows
// otherwise.
func Judge(issue int, defect string, right error) error {
	switch {
	case right == nil:
		return fmt.Errorf("cured: remove the mark of issue %d and state the right value; the defect was: %s", issue, defect)
	case right.Error() != defect:
		return fmt.Errorf("the defect of issue %d shows in another way:\n  %v\ndescribed:\n  %s", issue, right, defect)
	}
	return nil
}

// Defect fails the test unless Judge finds the defect as it is described.
func Defect(t testing.TB, issue int, defect string, right error) {
	t.Helper()
	if err := Judge(issue, defect, right); err != nil {
		t.Error(err)
	}
}
