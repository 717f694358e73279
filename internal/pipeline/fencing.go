package pipeline

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// fencing is the fence of the tables that one source table is copied to.
type fencing struct {
	*common
	fence.Fence
	mapping *transform.Mapping
	formers *formers
	// prepare makes what is missing of a target table; nil: nobody here may.
	prepare func(ctx context.Context, table string) (made bool, err error)

	mu     sync.Mutex
	marks  map[string]sink.Mark // as the assigner read them last
	looked time.Duration        // when the families themselves were last looked at; 0: not since the keeper lease was taken
}

// read reads the marks of all targets, and keeps them for those that write: who was proved under
// others proves his right again, before the old ones are dropped.
func (f *fencing) read(ctx context.Context) error {
	marks, read := map[string]sink.Mark{}, fence.Marks(f.ledger)
	for _, table := range f.mapping.Tables() {
		mark, err := read(ctx, table)
		if err != nil {
			return err
		}
		marks[table] = mark
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.marks = marks
	return nil
}

// outdated tells whether stamps are of other marks than were read last.
func (f *fencing) outdated(stamps sink.Stamps) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return stamps.Below(f.marks)
}

// lookEvery is how often a keeper looks whether the families of published numbers are there. They
// are, unless the ledger or a target was set back.
const lookEvery = 10 * time.Minute

// open gives targets their first number: until then nobody writes to them. One that does not exist
// is made anew first.
func (f *fencing) open(ctx context.Context) error {
	for _, table := range f.mapping.Tables() {
		if err := f.Open(ctx, table); err != nil && !f.vanished(ctx, table) {
			return err
		}
	}
	return nil
}

// keep gives targets their first number, and another one where the family of the published number
// is gone.
func (f *fencing) keep(ctx context.Context) error {
	now, last := task.Mono(ctx), f.seen()
	whole := last == 0 || now-last >= lookEvery
	for _, table := range f.mapping.Tables() {
		if err := f.Open(ctx, table); err != nil {
			return err
		}
		if !whole {
			continue
		}
		if err := f.Mend(ctx, table); err != nil {
			return err
		}
	}
	if whole {
		f.see(max(now, 1))
	}
	return nil
}

// seen is when the families were last looked at under this lease; 0: not yet.
func (f *fencing) seen() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.looked
}

func (f *fencing) see(at time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looked = at
}

// raiseAll publishes new numbers, before a load of a new generation begins, also in tables that
// former mappings wrote. What an earlier generation still has under way can be dropped from then on.
func (f *fencing) raiseAll(ctx context.Context, former ...string) error {
	for _, table := range slices.Concat(f.mapping.Tables(), former) {
		if _, err := f.Raise(ctx, table); err != nil {
			return err
		}
	}
	return nil
}

// renewed makes a target that was lost, or that was written under another ledger, one to write to:
// after the generation was raised and before the witness is claimed. Nobody but the keeper does
// that (H108).
func (f *fencing) renewed(ctx context.Context, table, former string) error {
	made := false
	if f.prepare != nil {
		var err error
		if made, err = f.prepare(ctx, table); err != nil {
			return err
		}
	}
	_, err := f.ledger.UpdateTarget(ctx, table, func(t *checkpoint.Target) error {
		t.MadeByUs = t.MadeByUs || made
		t.Disown(former, f.ledger.ID())
		return nil
	})
	if err == nil {
		_, err = f.Raise(ctx, table)
	}
	return err
}

// former are the mappings of before whose rows a generation may meet. The record may be older than
// the lease that the generation is of.
func (f *fencing) former(life lifecycle, state checkpoint.TableState, generation uint32) (all []sink.Former, err error) {
	err = f.retry(life, "read what former mappings wrote", func(ctx context.Context) (err error) {
		if state.Generation < generation {
			if state, _, err = f.ledger.Table(ctx, f.source); err != nil {
				return err
			}
		}
		all, err = f.formers.of(ctx, state)
		return err
	})
	return all, err
}

// vanished tells whether a target table does not exist at all, and may be made here.
func (f *fencing) vanished(ctx context.Context, table string) bool {
	if f.prepare == nil || f.Families == nil {
		return false
	}
	_, err := f.Families.ListFamilies(ctx, table)
	var e *sink.Error
	return errors.As(err, &e) && e.Code == "NotFound"
}

// right is the right to write rows of one generation, which a lease gives, with the stamps under
// which it was last proved.
type right struct {
	*fencing
	renew      func(ctx context.Context) error // writes the lease's row
	generation uint32
	former     []sink.Former // of which rows and columns may still be there
	tables     []string      // that are written; nil: the mapping's

	mu     sync.Mutex
	stamps sink.Stamps
	proved bool
}

// write makes one attempt to make a batch durable, or two, if the fence was raised since the right
// was last proved. Whoever has lost the right gives the batch up: he may have slept for days, and a
// sleeper that merely stamps again undoes the fence (H35).
func (r *right) write(ctx context.Context, writer *sink.Writer, batch *transform.Batch) error {
	for again := false; ; again = true {
		stamps, err := r.current(ctx)
		if err == nil {
			err = r.formers.inherit(ctx, r.former, r.generation, batch)
		}
		if err != nil {
			return err
		}
		err = writer.Write(ctx, stamps, batch)
		if sink.Is(err, sink.Permanent) {
			r.formers.lighten(ctx, r.former, batch)
		}
		if !errors.Is(err, sink.ErrRefenced) {
			return err
		}
		r.mu.Lock()
		r.proved = false
		r.mu.Unlock()
		if again {
			return err
		}
	}
}

// current gives the stamps, after a proof if need be.
func (r *right) current(ctx context.Context) (sink.Stamps, error) {
	r.mu.Lock()
	stamps, proved := r.stamps, r.proved
	r.mu.Unlock()
	if proved && !r.outdated(stamps) {
		return stamps, nil
	}
	stamps, err := r.prove(ctx)
	if err != nil {
		return sink.Stamps{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stamps, r.proved = stamps, true
	return stamps, nil
}

func (r *right) prove(ctx context.Context) (sink.Stamps, error) {
	tables := r.tables
	if tables == nil {
		tables = r.mapping.Tables()
	}
	return fence.Prove(ctx, r.ledger, tables, func(ctx context.Context) error {
		if err := r.renew(ctx); err != nil {
			return err
		}
		state, _, err := r.ledger.Table(ctx, r.source)
		switch {
		case err != nil:
			return err
		case state.Generation != r.generation:
			return sink.ErrFenced
		case state.Halted():
			return sink.ErrFenced
		case state.MappingHash != r.mappingHash:
			return checkpoint.ErrMappingChanged
		}
		return nil
	})
}
