// Package diag holds the errors of the program: what, why, fix, code.
//
//	error R1204: cannot read the stream of table VideoApp
//	  cause  AccessDeniedException: … is not authorized to perform: dynamodb:GetRecords on …
//	  fix    allow dynamodb:GetRecords on the stream to the identity shown above
//	  more   https://github.com/dynamodb-bigtable/replicator/blob/main/docs/errors.md#R1204
//
// Every code is registered in codes.go with its explanation, its general remedy and its exit
// status; docs/errors.md is generated from there. A code must never be reused or change its
// meaning, because runbooks and alert rules refer to codes.
//
// No text in an Error may contain item data (attribute values or keys), because errors are copied
// into logs and tickets.
package diag

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Exit statuses of the program. Errors of the local configuration or environment are ExitUsage.
// Refusals by remote services are ExitFailed. Missing credentials are also ExitFailed, because they
// may become available later. A service manager does not restart a process that ended with
// ExitUsage.
const (
	ExitDone        = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitNo          = 3 // the command's answer is "no"
	ExitTimeout     = 4
	ExitInterrupted = 130 // 128 + SIGINT, as shells report it
)

// Position is a place in a configuration source. Line and Column count from 1; columns are
// characters. For an environment variable or a flag, Line and Column are 0, and File is its name.
type Position struct {
	File         string
	Line, Column int
}

// String returns file:line:column, or only the file if there is no line.
func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return p.File + ":" + strconv.Itoa(p.Line) + ":" + strconv.Itoa(p.Column)
}

// Error is one finding for the operator. Only Code and What are required. If Fix or Exit is empty,
// the text or status that is registered for the code is shown. The same holds for the cause, if
// Cause and Err are empty.
type Error struct {
	Code  string   // "R1204"; one of the constants of this package
	Pos   Position // place in the configuration, or zero
	What  string   // what failed, in one line, without the cause
	Cause string   // why, as verbatim as possible; if empty, the text of Err
	Fix   string   // instruction for the operator, with the exact command if there is one
	Exit  int      // exit status; 0 means the status registered for the code
	Err   error    // underlying error, for errors.Is and errors.As; may be nil

	// Warning marks a finding that does not stop the program.
	Warning bool
}

// Error returns the finding in one line: code, position, what failed and why.
func (e *Error) Error() string {
	text := e.Code + ": " + e.headline()
	if cause := e.reason(); cause != "" {
		text += ": " + oneLine(cause)
	}
	return text
}

// Unwrap returns the underlying error, or nil.
func (e *Error) Unwrap() error { return e.Err }

// exitStatus returns the error's exit status, or else the status that is registered for its code.
// For a warning it returns 0.
func (e *Error) exitStatus() int {
	if e.Warning {
		return ExitDone
	}
	if e.Exit != 0 {
		return e.Exit
	}
	if entry, ok := Lookup(e.Code); ok {
		return entry.Exit
	}
	return ExitFailed
}

// render writes the four lines, each with a newline. If a cause or a fix has several lines, the
// later lines are indented below the first. The lines also keep their own indentation, because a
// fix may be YAML. Characters that a terminal would interpret are escaped, because causes come from
// remote services.
func (e *Error) render(w io.Writer) error {
	word := "error"
	if e.Warning {
		word = "warning"
	}
	cause := e.reason()
	if cause == "" {
		cause = registered(e.Code).Title
	}
	_, err := fmt.Fprintf(w, "%s %s: %s\n  cause  %s\n  fix    %s\n  more   %s\n",
		word, e.Code, e.headline(), indented(cause), indented(e.remedy()), More(e.Code))
	return err
}

// Facts holds the parts of an Error, for programs.
type Facts struct {
	Severity string `json:"severity"`
	Code     string `json:"code"`
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Column   int    `json:"column,omitempty"`
	What     string `json:"what"`
	Cause    string `json:"cause,omitempty"`
	Fix      string `json:"fix"`
	More     string `json:"more"`
}

// Facts returns the parts of the error. Empty parts are filled from the registry.
func (e *Error) Facts() Facts {
	severity := "error"
	if e.Warning {
		severity = "warning"
	}
	return Facts{severity, e.Code, e.Pos.File, e.Pos.Line, e.Pos.Column, withoutPasswords(e.What), e.reason(), e.remedy(), More(e.Code)}
}

// MarshalJSON returns Facts as JSON, for `-o json`.
func (e *Error) MarshalJSON() ([]byte, error) { return json.Marshal(e.Facts()) }

// More returns the address of the code's explanation.
func More(code string) string { return Document("errors.md") + "#" + code }

// Document returns the address of a document, by its path below the folder docs.
func Document(path string) string {
	return "https://github.com/dynamodb-bigtable/replicator/blob/main/docs/" + path
}

// BadUsage returns an error in the command line itself.
func BadUsage(what, fix string) error { return &Error{Code: Usage, What: what, Fix: fix} }

func (e *Error) headline() string {
	what := oneLine(withoutPasswords(e.What))
	if e.Pos != (Position{}) {
		what = oneLine(e.Pos.String()) + ": " + what
	}
	return what
}

func (e *Error) reason() string {
	if e.Cause == "" && e.Err != nil {
		return withoutPasswords(e.Err.Error())
	}
	return withoutPasswords(e.Cause)
}

func (e *Error) remedy() string {
	if e.Fix != "" {
		return e.Fix
	}
	return registered(e.Code).Fix
}

// List is a list of findings, in the order in which they were found.
type List []*Error

// Err returns the list as an error, or nil if it holds only warnings. A List must not be stored
// directly in an error variable: even if empty, it would not equal nil.
func (l List) Err() error {
	for _, e := range l {
		if !e.Warning {
			return l
		}
	}
	return nil
}

// Error returns the findings, one per line.
func (l List) Error() string {
	lines := make([]string, len(l))
	for i, e := range l {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap lets errors.Is and errors.As look into every finding.
func (l List) Unwrap() []error {
	errs := make([]error, len(l))
	for i, e := range l {
		errs[i] = e
	}
	return errs
}

// mostRendered is the maximum number of findings that are written. With more, the first findings
// would scroll out of sight.
const mostRendered = 50

// Few returns the findings to write, in their order, and a line with the number of the other
// findings. The line is "" if there are no others. If there are too many findings, warnings are
// left out first.
func (l List) Few() (few List, rest string) {
	if len(l) <= mostRendered {
		return l, ""
	}
	errors, warnings := 0, 0
	for _, e := range l {
		if !e.Warning {
			errors++
		}
	}
	room := max(mostRendered-errors, 0) // room for warnings
	errors = 0
	for _, e := range l {
		switch {
		case e.Warning && room > 0:
			room--
			few = append(few, e)
		case e.Warning:
			warnings++
		case errors < mostRendered:
			errors++
			few = append(few, e)
		}
	}
	return few, fmt.Sprintf("and %d more errors and %d more warnings", len(l)-len(few)-warnings, warnings)
}

// Render writes the findings, separated by empty lines. If there are too many, it writes only those
// that Few returns, and the number of the others.
func (l List) Render(w io.Writer) error {
	few, rest := l.Few()
	if rest != "" {
		rest = "\n" + rest + "\n"
	}
	if err := few.render(w); err != nil {
		return err
	}
	_, err := io.WriteString(w, rest)
	return err
}

func (l List) render(w io.Writer) error {
	for i, e := range l {
		if i > 0 {
			if _, err := io.WriteString(w, "\n"); err != nil {
				return err
			}
		}
		if err := e.render(w); err != nil {
			return err
		}
	}
	return nil
}

// Render writes any error in the four-line form. It writes every Error in the tree of err. Other
// errors in the tree are written as unexpected internal errors. A nil err writes nothing.
func Render(w io.Writer, err error) error { return Findings(err).Render(w) }

// Findings returns the Errors in the tree of err. After them it returns all other errors in the
// tree, as unexpected internal errors.
func Findings(err error) List {
	findings, foreign := collect(err)
	for _, plain := range foreign {
		findings = append(findings, &Error{Code: Internal, What: "unexpected error", Err: plain})
	}
	return findings
}

// ExitCode returns the exit status for err: 0 for nil, and 1 for an error that contains no Error.
// If err contains several Errors, the order of precedence is: interruption, bad usage, failure,
// timeout, the answer "no". The answer is last, so that a script never takes a failed run for an
// answer. Rows that differ are an answer even if a timeout ended the comparison.
func ExitCode(err error) int {
	findings, foreign := collect(err)
	seen, differs := map[int]bool{}, false
	for _, e := range findings {
		seen[e.exitStatus()] = true
		differs = differs || e.Code == RowsDiffer && e.exitStatus() == ExitNo
	}
	if differs {
		delete(seen, ExitTimeout)
	}
	if len(foreign) > 0 {
		seen[ExitFailed] = true
	}
	for _, status := range []int{ExitInterrupted, ExitUsage, ExitFailed, ExitTimeout, ExitNo} {
		if seen[status] {
			return status
		}
		delete(seen, status)
	}
	delete(seen, ExitDone)
	if len(seen) > 0 {
		return ExitFailed // an undocumented status is a bug, and must not look like success
	}
	return ExitDone
}

// Has reports whether err carries an Error with the code.
func Has(err error, code string) bool {
	findings, _ := collect(err)
	for _, e := range findings {
		if e.Code == code {
			return true
		}
	}
	return false
}

// Unanswered reports whether err says only that services did not answer, or that calls were
// interrupted. After the end of a context, such an error has no other information.
func Unanswered(err error) bool {
	for _, e := range Findings(err) {
		switch e.Code {
		case SourceUnreachable, TargetUnreachable, Internal:
			continue
		}
		if !errors.Is(e, context.Canceled) && !errors.Is(e, context.DeadlineExceeded) {
			return false
		}
	}
	return true
}

// collect gathers the Errors in the tree of err in depth-first order, and the branches without an
// Error. It does not descend below an Error: the error that an Error wraps is its cause, and not a
// second finding.
func collect(err error) (found List, foreign []error) {
	if err == nil {
		return nil, nil
	}
	if e, ok := err.(*Error); ok {
		return List{e}, nil
	}
	switch wrapper := err.(type) {
	case interface{ Unwrap() []error }:
		for _, branch := range wrapper.Unwrap() {
			f, o := collect(branch)
			found, foreign = append(found, f...), append(foreign, o...)
		}
		return found, foreign
	case interface{ Unwrap() error }:
		if f, _ := collect(errors.Unwrap(err)); len(f) > 0 {
			return f, nil
		}
	}
	return nil, []error{err}
}

func oneLine(s string) string { return Printable(strings.Join(strings.Fields(s), " ")) }

func indented(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	for i, line := range lines {
		lines[i] = Printable(strings.TrimRight(strings.ReplaceAll(line, "\t", "  "), " \r"))
	}
	return strings.Join(lines, "\n         ")
}
