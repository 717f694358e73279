package dualwrite

import (
	"context"
	"errors"
	"fmt"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// Transactor is a Source that changes several items at once.
type Transactor interface {
	// Transact makes all changes or none. The errors are those of Source.Write: ErrConflict if the
	// condition of one does not hold.
	Transact(ctx context.Context, changes []Change) error
}

// Transact changes several items of the table at once, at most as many as TransactWriteItems takes.
// It reads them, and writes what change makes of them, all or none, from the start again, after a
// wait, if another writer was faster. Change returns as many items as it is given, in their order;
// one that does not exist is removed. Items come back as they were written.
//
// DynamoDB's half is atomic. Rows are written one after the other, and so Bigtable is PartlyWritten
// where some failed. Errors are *Error, or those of change; without a version attribute
// ErrTransact.
func (w *Writer) Transact(ctx context.Context, keys []attribute.Item, change func([]attribute.Item) ([]attribute.Item, error)) ([]attribute.Item, error) {
	source, ok := w.source.(Transactor)
	if !ok || w.mapping.VersionAttribute() == "" {
		return nil, &Error{"Transact", NotWritten, NotWritten, false, ErrTransact}
	}
	waits := newWaits(ctx)
	for try := 1; ; try++ {
		parts, err := w.prepare(ctx, keys, change)
		if err != nil {
			return nil, err
		}
		written := make([]attribute.Item, len(keys))
		if len(parts) > 0 {
			err = w.transact(ctx, source, parts, written)
		}
		if try == updateTries || !errors.Is(err, ErrConflict) || waits.rest(ctx) != nil {
			return written, err
		}
	}
}

// part is the change of one item in a transaction.
type part struct {
	Change
	at     int // of which key
	read   attribute.Item
	unseen error // as of rank
}

// prepare reads the items and ranks what is made of them. What does not exist before and after has
// no part.
func (w *Writer) prepare(ctx context.Context, keys []attribute.Item, change func([]attribute.Item) ([]attribute.Item, error)) (parts []part, err error) {
	const op = "Transact"
	read := make([]attribute.Item, len(keys))
	for i, key := range keys {
		if read[i], _, err = w.source.Get(ctx, w.mapping.Keys(key)); err != nil {
			return nil, &Error{op, NotWritten, NotWritten, true, err}
		}
	}
	images, err := change(append([]attribute.Item(nil), read...))
	if err != nil {
		return nil, err
	}
	if len(images) != len(keys) {
		return nil, &Error{op, NotWritten, NotWritten, false, fmt.Errorf("%w: %d items became %d", ErrKey, len(keys), len(images))}
	}
	for i, image := range images {
		p := part{Change: Change{Keys: w.mapping.Keys(keys[i]), Image: image}, at: i, read: read[i]}
		if image.Exists() && !w.mapping.Keys(image).Equal(p.Keys) {
			return nil, &Error{op, NotWritten, NotWritten, false, ErrKey}
		}
		if !image.Exists() && !p.read.Exists() {
			continue
		}
		if p.unseen, err = w.rank(ctx, &p.Change, p.read); err != nil {
			return nil, &Error{op, NotWritten, NotWritten, !errors.Is(err, ErrNumber), err}
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// transact writes both stores, and notes what was written. The numbers that the transaction expects
// say that the items were what was read.
func (w *Writer) transact(ctx context.Context, source Transactor, parts []part, written []attribute.Item) error {
	changes := make([]Change, len(parts))
	for i, p := range parts {
		changes[i] = p.Change
	}
	if err := source.Transact(ctx, changes); err != nil {
		if err = w.resolve(ctx, "Transact", err, changes...); err != nil {
			return err
		}
	}
	var failures []error
	became := map[Outcome]bool{}
	for _, p := range parts {
		written[p.at] = p.Image
		outcome, err := w.follow(ctx, p.Change, p.read, p.unseen)
		became[outcome] = true
		failures = append(failures, err)
	}
	err := errors.Join(failures...)
	if err == nil {
		return nil
	}
	outcome := NotWritten
	switch {
	case became[Written] || became[PartlyWritten]:
		outcome = PartlyWritten
	case became[Unknown]:
		outcome = Unknown
	}
	return &Error{"Transact", Written, outcome, false, err}
}
