package diag

import (
	"strings"
	"testing"
)

// Of very many findings the first 50 are printed, errors before warnings, and the others are
// counted.
func TestFewFindingsAreWritten(t *testing.T) {
	list := func(warnings, errors int) List {
		var l List
		for i := range warnings + errors {
			l = append(l, &Error{Code: UnknownKey, What: "w", Warning: i < warnings})
		}
		return l
	}
	for _, c := range []struct {
		warnings, errors           int
		writtenErrors, writtenWarn int
		rest                       string
	}{
		{0, 50, 50, 0, ""},
		{20, 30, 30, 20, ""},
		{0, 51, 50, 0, "\nand 1 more errors and 0 more warnings\n"},
		{60, 1, 1, 49, "\nand 0 more errors and 11 more warnings\n"},
		{60, 70, 50, 0, "\nand 20 more errors and 60 more warnings\n"},
	} {
		var text strings.Builder
		if err := list(c.warnings, c.errors).Render(&text); err != nil {
			t.Fatal(err)
		}
		all := text.String()
		if strings.Count(all, "error R1004:") != c.writtenErrors || strings.Count(all, "warning R1004:") != c.writtenWarn || !strings.HasSuffix(all, c.rest) {
			t.Errorf("%+v: %d errors, %d warnings, end %q", c, strings.Count(all, "error R1004:"), strings.Count(all, "warning R1004:"), all[len(all)-60:])
		}
		if c.rest == "" && strings.Contains(all, "\nand ") {
			t.Errorf("%+v: a rest that is none", c)
		}
	}
}

// The commands in a fix use the configuration that the command was given.
func TestHintsCarryFlags(t *testing.T) {
	for text, want := range map[string]string{
		"look at them with `replicator parked list` and `replicator parked show`": "look at them with `replicator parked list -c F` and `replicator parked show -c F`",
		"`replicator plan --print-iam aws` prints it":                             "`replicator plan --print-iam aws -c F` prints it",
		"replicator parked list --table Orders":                                   "replicator parked list --table Orders -c F",
		"`replicator run -c OTHER.yaml`":                                          "`replicator run -c OTHER.yaml`",
		"see `replicator run --help`":                                             "see `replicator run --help`",
		"`replicator version`, and report it":                                     "`replicator version`, and report it",
		"replicator runs elsewhere":                                               "replicator runs elsewhere",
		"replicator does not run, so start it":                                    "replicator does not run, so start it",
	} {
		if got := withFlags(text, " -c F"); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if got := withFlags(text, ""); got != text {
			t.Errorf("%q without flags: %q", text, got)
		}
	}
	l := List{{Code: ItemsParked, What: "w"}}
	if got := l.WithFlags(" -c F"); !strings.Contains(got[0].Fix, "`replicator parked list -c F`") || l[0].Fix != "" {
		t.Errorf("the registered remedy: %q, and of the error itself %q", got[0].Fix, l[0].Fix)
	}
}
