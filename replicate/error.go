package replicate

import (
	"errors"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// Error is an error of this package. A call that finds several errors joins them (errors.Join), and
// errors.As finds the first. No text contains item data.
type Error struct {
	Code  string // stable code, such as R1204
	Place string // file:line:column, field of Config, or environment variable; "" if there is none
	What  string // what failed, in one line
	Cause string // why; "" if it is the general cause of the code
	Fix   string // what to do
	More  string // URL of the explanation of the code

	err *diag.Error
}

// Error returns the code, the place, what failed, and the cause, in one line.
func (e *Error) Error() string {
	text := e.Code + ": "
	if e.Place != "" {
		text += e.Place + ": "
	}
	text += e.What
	if e.Cause != "" {
		text += ": " + e.Cause
	}
	return diag.Printable(text)
}

// Unwrap returns the underlying error, or nil.
func (e *Error) Unwrap() error {
	if e.err == nil {
		return nil
	}
	return e.err.Err
}

// public converts an error of the engine. It leaves out warnings.
func public(err error) error {
	if err == nil {
		return nil
	}
	var all []error
	for _, found := range diag.Findings(err) {
		if !found.Warning {
			all = append(all, publicError(found))
		}
	}
	if len(all) == 1 {
		return all[0]
	}
	return errors.Join(all...)
}

// publicError converts one error. Lines of a text that this package has generated mean nothing to
// the caller, so they are left out.
func publicError(e *diag.Error) *Error {
	place := e.Pos
	if place.File == nameOfTables {
		place = diag.Position{File: nameOfTables}
	}
	f := e.Facts()
	p := &Error{Code: f.Code, What: f.What, Cause: f.Cause, Fix: f.Fix, More: f.More, err: e}
	if place != (diag.Position{}) {
		p.Place = place.String()
	}
	return p
}
