package checkpoint

import (
	"context"
	"time"
)

// TableFreeze is the record of the freezes of one source table by its resource policy. It is never
// removed, so that a process that slept cannot write it again.
type TableFreeze struct {
	header
	Source string `json:"source"`
	FreezeState

	counter uint64
}

// FreezeState is the state of the last freeze of a table. Any process can continue it.
type FreezeState struct {
	Attempt uint32 `json:"attempt"` // of the cutover
	Sid     string `json:"sid"`     // of the statement in the policy
	// Rehearse reports that the statement denies the writes of the probe's role only.
	Rehearse bool `json:"rehearse,omitempty"`
	// Text and Revision are the policy before the last freeze request. They are for people.
	Text     string `json:"text,omitempty"`
	Revision string `json:"revision,omitempty"`
	// Open reports that the probe's writes were let through before the first freeze request.
	Open bool `json:"open,omitempty"`
	// Signed is when the last freeze request was signed, also of former attempts, in the source's
	// time.
	Signed time.Time `json:"signed,omitzero"`
	Ends   bool      `json:"ends,omitempty"` // the statement is to be removed
	Over   bool      `json:"over,omitempty"` // no freeze request can be executed any more
}

func (l *Ledger) freezeKey(source string) string { return l.name + "/freeze/" + source }

// TableFreeze reads the record of the freezes of a source table. It is the zero value if there was
// none.
func (l *Ledger) TableFreeze(ctx context.Context, source string) (f TableFreeze, err error) {
	row, found, err := readRow(ctx, l.store, l.freezeKey(source))
	if err != nil || !found {
		return TableFreeze{Source: source}, err
	}
	err = decode(row, &f)
	f.Source, f.counter = source, row.Counter
	return f, err
}

// SaveTableFreeze writes a record that the caller has read or written. It repeats the identical
// write until its outcome is known or ctx ends. It fails with ErrMoved, and writes nothing, if
// another process has written the record since.
func (l *Ledger) SaveTableFreeze(ctx context.Context, f *TableFreeze) error {
	return l.save(ctx, l.freezeKey(f.Source), &f.counter, l.stamp(&f.header, f), ErrMoved)
}

// CutoverDenial describes the freezes of a cutover by the resource policies of its source tables.
type CutoverDenial struct {
	// Left reports that a policy may have a statement that denies writes, or may still get it by a
	// late request.
	Left bool `json:"left,omitempty"`
	// Rehearsed is the last attempt that has put a statement into the policies and taken it out, as
	// a rehearsal. Begins and Ends are how long the last put and the last removal took to have an
	// effect.
	Rehearsed uint32        `json:"rehearsed,omitempty"`
	Begins    time.Duration `json:"begins,omitempty"`
	Ends      time.Duration `json:"ends,omitempty"`
	// Opened reports, in the record of a rollback, that its driver has begun to take the statements
	// of the cutover out. Again is the last cancelled rollback that has put statements again, or has
	// tried; 0 if the statements are those of the cutover itself.
	Opened bool   `json:"opened,omitempty"`
	Again  uint32 `json:"again,omitempty"`
}
