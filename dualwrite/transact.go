package dualwrite

import (
	"context"
	"errors"
	"fmt"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// Transactor is a Source that can change several items atomically.
type Transactor interface {
	// Transact makes all changes or none of them. Its errors are the errors of Source.Write. It
	// returns ErrConflict if any condition does not hold.
	Transact(ctx context.Context, changes []Change) error
}

// Transact changes several items of the table atomically, at most as many as TransactWriteItems
// accepts. It reads the items, and writes the items that the function `change` returns for them. If
// another writer was faster, Transact waits and starts again. The function must return as many
// items as it gets, in the same order. If it returns an item that does not exist, Transact removes
// that item. Transact returns the items as they were written.
//
// The write is atomic in DynamoDB. If the row of a new item refuses it, another write of DynamoDB
// gives that item a higher number. Rows are written one after the other, so the outcome in Bigtable
// is PartlyWritten if some rows failed. Errors are *Error, or the errors of `change`. Without a
// version attribute, the error is ErrTransact.
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
	at   int // index of its key
	read attribute.Item
}

// prepare reads the items, and ranks the items that `change` returns. An item that exists neither
// before nor after the change has no part.
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
		if err = w.rank(ctx, &p.Change, p.read); err != nil {
			return nil, &Error{op, NotWritten, NotWritten, false, err}
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// transact writes both stores, and records what was written. The expected numbers show that the
// items had not changed since they were read.
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
		image, outcome, err := w.follow(ctx, p.Change, p.read)
		written[p.at], became[outcome] = image, true
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
