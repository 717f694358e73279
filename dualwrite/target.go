package dualwrite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Target is the Bigtable instance.
type Target interface {
	sink.Table
	sink.Looker
	// WitnessStore returns the store of replicator's witness in a target table.
	WitnessStore(table string) checkpoint.Store
}

// target writes the rows of items.
type target struct {
	mapping *transform.Mapping
	store   Target
	source  Source

	mu    sync.Mutex
	marks map[string]seenMark // as last read from the witnesses
}

// seenMark is a mark, and when it was read.
type seenMark struct {
	sink.Mark
	at time.Duration // monotonic
}

// withheldFor is how long a fence counts as withheld after the witness was read. A write without a
// stamp never fails because of the fence. So no failure would make the writer read the witness
// again.
const withheldFor = time.Minute

// Rows returns the requests that an application sends for a change of an item, without the fence.
// The change must have the form in which a stream shows it. With a version attribute, the requests
// are the guard's, at the item's number and without a position. Otherwise the requests set cells at
// the change's time. Errors are ErrUnmappable.
func Rows(m *transform.Mapping, change cdc.Change) ([]sink.Request, error) {
	rows, err := mutations(m, change)
	if err != nil {
		return nil, err
	}
	requests := make([]sink.Request, len(rows))
	for i := range rows {
		if m.VersionAttribute() == "" {
			requests[i] = timed(rows[i])
		} else {
			requests[i] = sink.Guard(rows[i])
		}
	}
	return requests, nil
}

func mutations(m *transform.Mapping, change cdc.Change) ([]transform.RowMutation, error) {
	batch := transform.Fold(m, []cdc.Change{change}, transform.Stamp{DualWrites: m.VersionAttribute() == ""})
	if len(batch.Parked) > 0 {
		return nil, fmt.Errorf("%w: %s", ErrUnmappable, batch.Parked[0].Reason)
	}
	sink.OwnRemoved(m, &batch)
	for i := range batch.Rows {
		batch.Rows[i].Version = batch.Rows[i].Version.Rank().AppliedBy()
	}
	// For a moved item, its new row is written before its old row is removed. A reader in between
	// finds the item twice, not never.
	return slices.Concat(removing(batch.Rows, false), removing(batch.Rows, true)), nil
}

// removing returns the rows that the change removes. If `remove` is false, it returns the other
// rows.
func removing(rows []transform.RowMutation, remove bool) []transform.RowMutation {
	return slices.DeleteFunc(slices.Clone(rows), func(row transform.RowMutation) bool { return row.Remove != remove })
}

// requestTime bounds one request to Bigtable, so that no request waits forever.
const requestTime = 10 * time.Second

// limited makes a request that ends within requestTime.
func limited(ctx context.Context, request func(ctx context.Context) error) error {
	ctx, cancel := task.WithTimeout(ctx, requestTime)
	defer cancel()
	return request(ctx)
}

// unheld is above every version. So no row refuses a request with it.
const unheld = transform.Version("\xff")

// timed returns a write that has no order relative to replicator's writes. It sets the cells of the
// image, and deletes cells of the old image that are not younger than the change.
func timed(row transform.RowMutation) sink.Request {
	row.Timestamped = true
	guard := sink.Guard(row)
	ops := guard.Ops[:0]
	for _, op := range guard.Ops {
		if !sink.IsOwn(op.Family) { // only replicator writes versions
			ops = append(ops, op)
		}
	}
	guard.Ops, guard.Refuse.AtLeast = ops, unheld
	return guard
}

// write sends the requests of a change one after the other. If a row failed, the outcome is that of
// the first such row. It is PartlyWritten if other rows were written before, and NotWritten if no
// request was sent. A refusal is no error, because the row holds the same version or a higher one.
// The result `refused` has the rows of the image that refused it. The outcome does not count them
// as written.
func (t *target) write(ctx context.Context, change cdc.Change) (refused []transform.RowMutation, outcome Outcome, err error) {
	if t.mapping.VersionAttribute() == "" {
		outcome, err = t.writeTimed(ctx, change)
		return nil, outcome, err
	}
	rows, err := mutations(t.mapping, change)
	if err != nil {
		return nil, NotWritten, err
	}
	stamps, err := t.prove(ctx, false, nil)
	if err != nil {
		return nil, NotWritten, err
	}
	for i := range rows {
		applied := false
		execute := func(ctx context.Context) (err error) {
			applied, err = sink.Execute(ctx, stamps, t.store, t.store, &rows[i])
			return err
		}
		err := limited(ctx, execute)
		if sink.Is(err, sink.Permanent) { // the fence may have risen, so that its old family no longer exists
			if stamps, err = t.prove(ctx, true, func(ctx context.Context) error { return t.current(ctx, change) }); err == nil {
				err = limited(ctx, execute)
			}
		}
		if err != nil {
			return refused, outcomeOf(err, i), err
		}
		if !applied && !rows[i].Remove {
			refused = append(refused, rows[i])
		}
	}
	switch len(refused) {
	case 0:
		return nil, Written, nil
	case len(rows):
		return refused, NotWritten, nil
	}
	return refused, PartlyWritten, nil
}

func (t *target) writeTimed(ctx context.Context, change cdc.Change) (Outcome, error) {
	requests, err := Rows(t.mapping, change)
	if err != nil {
		return NotWritten, err
	}
	sent := 0
	for i := range requests {
		if len(requests[i].Ops) == 0 {
			continue
		}
		err := limited(ctx, func(ctx context.Context) error { _, err := t.store.Apply(ctx, &requests[i]); return err })
		if err != nil {
			return outcomeOf(err, sent), err
		}
		sent++
	}
	return Written, nil
}

// outcomeOf returns the outcome of a change after one of its rows has failed. The argument
// `written` is how many other rows were written before.
func outcomeOf(err error, written int) Outcome {
	if written > 0 {
		return PartlyWritten
	}
	if sink.Is(err, sink.Permanent) || sink.Is(err, sink.Rejected) || errors.Is(err, ErrNotReady) || errors.Is(err, ErrOvertaken) {
		return NotWritten
	}
	return Unknown
}

// current checks that the item has not changed since the write began. Only then may the write get a
// new stamp. A sweep may have compared the row with the source after the earlier number was read.
func (t *target) current(ctx context.Context, change cdc.Change) error {
	found, exists, err := t.source.Get(ctx, change.Keys)
	if err == nil && (exists != change.New.Exists() || exists && !found.Equal(change.New)) {
		err = ErrOvertaken
	}
	return err
}

// prove returns the stamps of the fence, from the witnesses or from the last read of them.
func (t *target) prove(ctx context.Context, anew bool, right func(context.Context) error) (sink.Stamps, error) {
	if right == nil {
		right = func(context.Context) error { return nil } // DynamoDB has just accepted the write
	}
	read := func(ctx context.Context, table string) (sink.Mark, error) {
		t.mu.Lock()
		seen, known := t.marks[table]
		t.mu.Unlock()
		fresh := !seen.Withheld || task.Mono(ctx)-seen.at < withheldFor
		if known && fresh && !anew {
			return seen.Mark, nil
		}
		return t.read(ctx, table)
	}
	stamps, err := sink.Prove(ctx, sink.ApplicationGate(), t.mapping.Tables(), read, right)
	if errors.Is(err, sink.ErrNoFence) {
		err = fmt.Errorf("%w: %w", ErrNotReady, err)
	}
	return stamps, err
}

// read reads the fence's family from the witness in a target table.
func (t *target) read(ctx context.Context, table string) (sink.Mark, error) {
	at := checkpoint.Place{Store: t.store.WitnessStore(table), Key: t.mapping.WitnessKey()}
	var witness checkpoint.Witness
	var found bool
	err := limited(ctx, func(ctx context.Context) (err error) {
		witness, found, err = checkpoint.ReadWitness(ctx, at)
		return err
	})
	if err != nil {
		return sink.Mark{}, err
	}
	if !found {
		return sink.Mark{}, fmt.Errorf("%w: table %s has no witness of %s", ErrNotReady, table, t.mapping.Source)
	}
	mark := sink.Mark{Family: witness.Fence}
	if witness.Fence == checkpoint.NoFence {
		mark = sink.Mark{Withheld: true}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.marks == nil {
		t.marks = map[string]seenMark{}
	}
	if mark.Family != "" || mark.Withheld {
		t.marks[table] = seenMark{mark, task.Mono(ctx)}
	}
	return mark, nil
}

// highest returns the highest version of the item that the rows hold; "" if they hold none.
func (t *target) highest(ctx context.Context, rows []transform.RowMutation) (top transform.Version, err error) {
	for _, at := range rows {
		at.Families, at.Columns = nil, nil // read only its version
		err := limited(ctx, func(ctx context.Context) error {
			row, err := t.store.Look(ctx, &at, 0)
			top = max(top, row.HeldBy(at.Owner))
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return top, nil
}
