package checkpoint

import (
	"context"
	"errors"
	"reflect"
)

// Halt is a cutover's request to all processes that write rows of a table. A process reads the
// request each time it proves its right to write. So once the fence is raised, no process can prove
// that right any more.
type Halt struct {
	// Attempt is the attempt that last halted the table. On reports whether the table is still
	// halted.
	Attempt uint32 `json:"attempt,omitempty"`
	On      bool   `json:"on,omitempty"`
	// Over is the last cancelled attempt. A delayed driver of that attempt can no longer halt the
	// table.
	Over uint32 `json:"over,omitempty"`
	// Near is the attempt that is about to freeze the application, or has frozen it. Every shard is
	// then read more often.
	Near uint32 `json:"near,omitempty"`
	// Switched reports that the application no longer uses the source. It is never reset.
	Switched bool `json:"switched,omitempty"`
	// Done reports that the watch for stragglers is over. After that, no worker starts on the
	// table.
	Done bool `json:"done,omitempty"`
}

// Halted reports whether replicator must not write rows of the table.
func (s *TableState) Halted() bool { return s.Halt.On || s.Halt.Switched || s.Halt.Done }

// FreezeNear reports whether an attempt is about to freeze the application, or has frozen it.
func (s *TableState) FreezeNear() bool { return s.Halt.Near > s.Halt.Over }

// Approach records which attempt is about to freeze the application; 0 means that none is. It fails
// if that attempt was cancelled.
func (s *TableState) Approach(attempt uint32) error {
	if attempt > 0 && attempt <= s.Halt.Over {
		return &CutoverError{"begin the freeze of", "the attempt was cancelled", "see replicator cutover check"}
	}
	s.Halt.Near = attempt
	return nil
}

// HaltFor halts the table for an attempt. It fails if that attempt was cancelled or a later one has
// halted the table.
func (s *TableState) HaltFor(attempt uint32) error {
	if attempt <= s.Halt.Over || attempt < s.Halt.Attempt {
		return &CutoverError{"halt the tables for", "a later attempt has begun", "see replicator cutover check"}
	}
	s.Halt.Attempt, s.Halt.On = attempt, true
	return nil
}

// Unhalt resumes the table after a cancelled attempt.
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

// CutoverLease is the name of the lease that the driver of a cutover holds. It works like a table's
// coordinator lease, and no table can have this name.
const CutoverLease = "/cutover"

func (l *Ledger) cutoverKey() string { return l.name + "/cutover" }

// Cutover reads the cutover of the pipeline. It is the zero value if there was none.
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

// UpdateCutover changes the record of the cutover. Like UpdateTable it may call change several
// times, and it writes nothing if change leaves the record as it is.
func (l *Ledger) UpdateCutover(ctx context.Context, change func(*Cutover) error) (Cutover, error) {
	for range tries {
		c, counter, found, err := l.cutover(ctx)
		if err != nil {
			return Cutover{}, err
		}
		before := c // changes clone the parts that they change
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

// ErrMoved is returned if the cutover has already left the step to which a change belongs.
var ErrMoved = errors.New("the cutover has advanced meanwhile")

// InStep changes the record of the cutover if it is still in the attempt and step of c.
func (l *Ledger) InStep(ctx context.Context, c Cutover, change func(*Cutover) error) (Cutover, error) {
	return l.UpdateCutover(ctx, func(now *Cutover) error {
		if now.Attempt != c.Attempt || now.Step != c.Step {
			return ErrMoved
		}
		return change(now)
	})
}
