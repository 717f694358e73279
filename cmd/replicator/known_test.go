package main

import (
	"errors"
	"regexp"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/dynamodb-bigtable/replicator/test/known"
)

// TestKnownDefects plays scripts that show defects which are known and not cured yet.
func TestKnownDefects(t *testing.T) {
	t.Parallel()
	play(t, "testdata/known")
}

// defect ISSUE DEFECT RIGHT looks for one of two regular expressions in what the last command
// printed: the defect that an issue will cure, or what will be right.
func defect(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: defect ISSUE DEFECT RIGHT")
	}
	issue, err := strconv.Atoi(args[0])
	ts.Check(err)
	wrong, right := regexp.MustCompile("(?m)"+args[1]), regexp.MustCompile("(?m)"+args[2])
	seen := ts.ReadFile("stdout")
	switch {
	case right.MatchString(seen):
		err = nil
	case wrong.MatchString(seen):
		err = errors.New(args[1])
	default:
		err = errors.New(seen)
	}
	ts.Check(known.Judge(issue, args[1], err))
}
