package checkpoint

import (
	"context"
	"errors"
	"reflect"
)

// Halt is what a cutover says to those that write rows of a table: it is read with every proof of a
// right, so that after the fence is raised nobody proves one.
type Halt struct {
	// Attempt is the cutover that last halted the table, and On whether it still does.
	Attempt uint32 `json:"attempt,omitempty"`
	On      bool   `json:"on,omitempty"`
	// Over is the last attempt that was cancelled, so that a delayed driver of it halts nothing.
	Over uint32 `json:"over,omitempty"`
	// Switched reports that the application no longer uses the source. It is never reset.
	Switched bool `json:"switched,omitempty"`
	// Done reports that the watch is over: no worker ever starts again.
	Done bool `json:"done,omitempty"`
}

// Halted reports whether nothing of ours may be written for the table.
func (s *TableState) Halted() bool { return s.Halt.On || s.Halt.Switched || s.Halt.Done }

// HaltFor halts the table for an attempt that is not over.
func (s *TableState) HaltFor(attempt uint32) error {
	if attempt <= s.Halt.Over || attempt < s.Halt.Attempt {
		return &CutoverError{"halt the tables for", "another attempt came after it", "see replicator cutover check"}
	}
	s.Halt.Attempt, s.Halt.On = attempt, true
	return nil
}

// Unhalt lets the table go on after an attempt that was cancelled.
func (s *TableState) Unhalt(attempt uint32) error {
	if s.Halt.Switched {
		return &CutoverError{"cancel", "the application has switched", "see replicator cutover check"}
	}
	if attempt >= s.Halt.Attempt {
		s.Halt.On = false
	}
	s.Halt.Over = max(s.Halt.Over, attempt)
	return nil
}

// CutoverLease is the name under which whoever drives a cutover holds a lease, like that of a
// table's coordinator. No table is called so.
const CutoverLease = "/cutover"

func (l *Ledger) cutoverKey() string { return l.name + "/cutover" }

// Cutover reads the cutover of the pipeline; its zero value if there was none.
func (l *Ledger) Cutover(ctx context.Context) (Cutover, error) {
	c, _, _, err := l.cutover(ctx)
	return c, err
}

func (l *Ledger) cutover(ctx context.Context) (Cutover, uint64, bool, error) {
	var c Cutover
	row, found, err := readRow(ctx, l.store, l.cutoverKey())
	if err != nil || !found {
		return c, 0, false, err
	}
	err = decode(row, &c)
	return c, row.Counter, err == nil, err
}

// UpdateCutover changes the record of the cutover. As in UpdateTable the change may be made several
// times, and nothing is written if it leaves the record as it is.
func (l *Ledger) UpdateCutover(ctx context.Context, change func(*Cutover) error) (Cutover, error) {
	for range tries {
		c, counter, found, err := l.cutover(ctx)
		if err != nil {
			return Cutover{}, err
		}
		before := c // changes clone what they change
		if err := change(&c); err != nil {
			return Cutover{}, err
		}
		if found && reflect.DeepEqual(before, c) || !found && c.Attempt == 0 {
			return c, nil
		}
		done, err := l.swap(ctx, l.store, l.cutoverKey(), counter, l.stamp(&c.header, &c))
		if err != nil {
			return Cutover{}, err
		}
		if done {
			return c, nil
		}
	}
	return Cutover{}, ErrConflict
}

// ErrMoved is returned where a cutover has gone on from the step of which a change was to be.
var ErrMoved = errors.New("the cutover has advanced meanwhile")

// InStep changes the record of the cutover if it still stands where c does.
func (l *Ledger) InStep(ctx context.Context, c Cutover, change func(*Cutover) error) (Cutover, error) {
	return l.UpdateCutover(ctx, func(now *Cutover) error {
		if now.Attempt != c.Attempt || now.Step != c.Step {
			return ErrMoved
		}
		return change(now)
	})
}
