package diag

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite docs/errors.md and the golden files")

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got); regenerate with -update:\n%s", path, diff)
	}
}

func TestErrorsPage(t *testing.T) {
	golden(t, "../../docs/errors.md", document())
}

func TestRender(t *testing.T) {
	remote := errors.New("AccessDeniedException: … is not authorized to perform: dynamodb:GetRecords\x1b[31m\n\tRequestID: 1")
	list := List{
		{Code: SourceDenied, What: "cannot read the stream of table VideoApp", Err: remote, Fix: "allow dynamodb:GetRecords"},
		{Code: UnknownKey, Pos: Position{"replicator.yaml", 12, 5}, What: `unknown key "form" in tables[0]`,
			Cause: "tables[0] takes from, to, start", Fix: `did you mean "from"?`},
		{Code: InvalidValue, Pos: Position{File: "$REPLICATOR_LOG_LEVEL"}, What: "log.level:\n two\tlines"},
		{Code: TombstonesVisible, What: "a warning", Warning: true},
		StreamDisabledError("VideoApp"),
		StreamViewError("VideoApp", "KEYS_ONLY", ""),
		StreamViewError("VideoApp", "NEW_IMAGE", "row keys depend on attributes outside the primary key"),
		{Code: "R9999", What: "a code nobody registered"},
	}
	var text bytes.Buffer
	if err := Render(&text, fmt.Errorf("wrapped: %w", list)); err != nil {
		t.Fatal(err)
	}
	text.WriteString("\nError():\n" + list.Error() + "\n")
	golden(t, "testdata/render.txt", text.String())
}

func TestRenderForeignError(t *testing.T) {
	var text bytes.Buffer
	if err := Render(&text, errors.Join(errors.New("boom"), &Error{Code: TimedOut, What: "waited"})); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"error R1602: waited", "error R1601: unexpected error\n  cause  boom"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, text.String())
		}
	}
	text.Reset()
	if err := Render(&text, nil); err != nil || text.Len() != 0 {
		t.Errorf("Render(nil) wrote %q, %v", text.String(), err)
	}
}

func TestMarshalJSON(t *testing.T) {
	got, err := json.Marshal(&Error{Code: TargetDenied, Pos: Position{"f.yaml", 1, 2}, What: "w", Err: errors.New("c"), Fix: "f"})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"severity":"error","code":"R1302","file":"f.yaml","line":1,"column":2,"what":"w","cause":"c","fix":"f","more":"https://github.com/dynamodb-bigtable/replicator/blob/main/docs/errors.md#R1302"}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestExitCode(t *testing.T) {
	usage, failed := &Error{Code: UnknownKey}, &Error{Code: SourceDenied}
	no, late := &Error{Code: NeedsLoad}, &Error{Code: TimedOut}
	for _, c := range []struct {
		name string
		err  error
		want int
	}{
		{"nil", nil, 0},
		{"plain", errors.New("x"), 1},
		{"registered", usage, 2},
		{"explicit status wins", &Error{Code: SourceDenied, Exit: 2}, 2},
		{"wrapped", fmt.Errorf("x: %w", no), 3},
		{"timeout", late, 4},
		{"interrupted", errors.Join(failed, &Error{Code: Interrupted}), 130},
		{"usage before failure", List{failed, usage}, 2},
		{"failure before no", List{no, failed}, 1},
		{"timeout before no", List{no, late}, 4},
		{"a plain error counts as failure", errors.Join(no, errors.New("x")), 1},
		{"warnings alone", List{{Code: TombstonesVisible, Warning: true}}, 0},
		{"unregistered", &Error{Code: "R9999"}, 1},
		{"status outside the set", &Error{Code: SourceDenied, Exit: 77}, 1},
		{"the cause of an error is no second finding", &Error{Code: NeedsLoad, Err: usage}, 3},
	} {
		if got := ExitCode(c.err); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestListErr(t *testing.T) {
	if (List)(nil).Err() != nil || (List{{Warning: true}}).Err() != nil {
		t.Error("a list without errors must be a nil error")
	}
	if (List{{Warning: true}, {Code: Internal}}).Err() == nil {
		t.Error("an error behind a warning is one")
	}
	cause := errors.New("cause")
	err := List{{Code: Internal, Err: cause}}.Err()
	if !errors.Is(err, cause) || !Has(err, Internal) || Has(err, TimedOut) {
		t.Error("the list hides what it carries")
	}
	var e *Error
	if !errors.As(err, &e) || e.Code != Internal {
		t.Error("errors.As does not reach the finding")
	}
}

// If an error that is not a finding wraps another one, it says where that happened. Its words are
// printed too, not only those of the innermost error.
func TestWordsAroundAForeignError(t *testing.T) {
	found := Findings(fmt.Errorf("reading the ledger: %w", errors.New("no such row")))
	if len(found) != 1 || found[0].Code != Internal || !strings.Contains(found[0].Error(), "reading the ledger: no such row") {
		t.Error(found)
	}
}

func TestRegistry(t *testing.T) {
	last := ""
	for _, e := range Entries() {
		if e.Code <= last {
			t.Errorf("%s is out of order after %s, or twice", e.Code, last)
		}
		last = e.Code
		if !regexp.MustCompile(`^R1[0-6]\d\d$`).MatchString(e.Code) {
			t.Errorf("%s belongs to no area", e.Code)
		}
		if e.Title == "" || e.Explain == "" || e.Fix == "" || strings.HasSuffix(e.Fix, ".") || strings.Contains(e.Fix, "\n") {
			t.Errorf("%s: texts missing, or a fix that is not one line without full stop", e.Code)
		}
		if (e.Exit == ExitDone) != strings.HasSuffix(e.Title, "(warning)") {
			t.Errorf("%s: exit status %d; only warnings have 0", e.Code, e.Exit)
		}
		// These may appear later, so a service manager should retry.
		later := e.Code == NoAWSCredentials || e.Code == NoGCPCredentials
		if strings.HasPrefix(e.Code, "R11") && e.Exit != ExitUsage && !later || later && e.Exit != ExitFailed {
			t.Errorf("%s: the local environment is exit status 2, and missing credentials 1", e.Code)
		}
		if (strings.HasPrefix(e.Code, "R12") || strings.HasPrefix(e.Code, "R13")) && e.Exit != ExitFailed && e.Exit != ExitDone {
			t.Errorf("%s: what a remote end refuses is exit status 1", e.Code)
		}
	}
}

// TestEveryCodeRegistered reads the constants from the source, so that no code can be added without
// its entry.
func TestEveryCodeRegistered(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "codes.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	constants := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if ok && len(spec.Values) == 1 {
			if literal, ok := spec.Values[0].(*ast.BasicLit); ok && strings.HasPrefix(literal.Value, `"R1`) {
				constants[strings.Trim(literal.Value, `"`)] = true
			}
		}
		return true
	})
	for code := range constants {
		if _, ok := Lookup(code); !ok {
			t.Errorf("%s has no entry", code)
		}
	}
	if len(constants) != len(Entries()) {
		t.Errorf("%d constants, %d entries", len(constants), len(Entries()))
	}
}

func TestSuggest(t *testing.T) {
	keys := []string{"version", "name", "source", "target", "state", "tables", "backfill", "app_profile", "max_rows_per_second", "from", "to"}
	for word, want := range map[string]string{
		"form":                     "from",
		"tabels":                   "tables",
		"table":                    "tables",
		"Source":                   "source",
		"appProfile":               "app_profile",
		"app-profile":              "app_profile",
		"max_rows":                 "max_rows_per_second",
		"tables_list":              "tables",
		"too":                      "to",
		"xy":                       "",
		"":                         "",
		"completely_other":         "",
		"n":                        "",
		strings.Repeat("a", 1<<20): "",
	} {
		if got := Suggest(word, keys); got != want {
			t.Errorf("Suggest(%.20q) = %q, want %q", word, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"form", "from", 1}, {"kitten", "sitting", 3}, {"ca", "abc", 3}, {"name", "name", 0}} {
		if got := distance(c.a, c.b); got != c.want || distance(c.b, c.a) != c.want {
			t.Errorf("distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// An error has no information of its own if all its parts say only that a service did not answer.
func TestUnanswered(t *testing.T) {
	silent, refused := &Error{Code: TargetUnreachable, What: "w"}, &Error{Code: TargetDenied, What: "w"}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, true},
		{silent, true},
		{context.Canceled, true},
		{errors.New("any"), true},
		{&Error{Code: MappingChanged, What: "w", Err: context.DeadlineExceeded}, true},
		{refused, false},
		{errors.Join(silent, refused), false},
	} {
		if got := Unanswered(c.err); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}
