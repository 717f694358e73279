package engine

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

// Fencing is the fence of the tables that one source table is copied to.
type Fencing struct {
	*Common
	fence.Fence
	Mapping *transform.Mapping
	Formers *Formers
	// prepare makes what is missing of a target table; nil: nobody here may.
	prepare func(ctx context.Context, table string) (made bool, err error)

	mu     sync.Mutex
	marks  map[string]sink.Mark // as the assigner read them last
	looked time.Duration        // when the families themselves were last looked at; 0: not since the coordinator lease was taken
}

// Read reads the marks of all targets, and keeps them for those that write: who was proved under
// others proves his right again, before the old ones are dropped.
func (f *Fencing) Read(ctx context.Context) error {
	marks, read := map[string]sink.Mark{}, fence.Marks(f.Common.Ledger)
	for _, table := range f.Mapping.Tables() {
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

// outdated reports whether stamps are of other marks than were read last.
func (f *Fencing) outdated(stamps sink.Stamps) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return stamps.Below(f.marks)
}

// lookEvery is how often a coordinator looks whether the families of published numbers are there. They
// are, unless the ledger or a target was set back.
const lookEvery = 10 * time.Minute

// OpenFence gives targets their first number: until then nobody writes to them. One that does not exist
// is made anew first.
func (f *Fencing) OpenFence(ctx context.Context) error {
	for _, table := range f.Mapping.Tables() {
		if err := f.Open(ctx, table); err != nil && !f.vanished(ctx, table) {
			return err
		}
	}
	return nil
}

// Keep gives targets their first number, and another one where the family of the published number
// is gone.
func (f *Fencing) Keep(ctx context.Context) error {
	now, last := task.Mono(ctx), f.seen()
	whole := last == 0 || now-last >= lookEvery
	for _, table := range f.Mapping.Tables() {
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
		f.See(max(now, 1))
	}
	return nil
}

// seen is when the families were last looked at under this lease; 0: not yet.
func (f *Fencing) seen() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.looked
}

func (f *Fencing) See(at time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looked = at
}

// RaiseAll publishes new numbers, before a load of a new generation begins, also in tables that
// former mappings wrote. What an earlier generation still has under way can be dropped from then on.
func (f *Fencing) RaiseAll(ctx context.Context, former ...string) error {
	for _, table := range slices.Concat(f.Mapping.Tables(), former) {
		if _, err := f.Fence.Raise(ctx, table); err != nil {
			return err
		}
	}
	return nil
}

// ClearAll drops what former numbers left in the targets.
func (f *Fencing) ClearAll(ctx context.Context) error {
	for _, table := range f.Mapping.Tables() {
		if err := f.Clear(ctx, table); err != nil {
			return err
		}
	}
	return nil
}

// renewed makes a target that was lost, or that was written under another ledger, one to write to:
// after the generation was raised and before the witness is claimed. Nobody but the coordinator does
// that (H108).
func (f *Fencing) renewed(ctx context.Context, table, former string) error {
	made := false
	if f.prepare != nil {
		var err error
		if made, err = f.prepare(ctx, table); err != nil {
			return err
		}
	}
	_, err := f.Common.Ledger.UpdateTarget(ctx, table, func(t *checkpoint.Target) error {
		t.MadeByUs = t.MadeByUs || made
		t.Disown(former, f.Common.Ledger.ID())
		return nil
	})
	if err == nil {
		_, err = f.Fence.Raise(ctx, table)
	}
	return err
}

// Former are the earlier mappings whose rows a generation may meet. The record may be older than
// the lease that the generation is of.
func (f *Fencing) Former(life Lifecycle, state checkpoint.TableState, generation uint32) (all []sink.Former, err error) {
	err = f.Retry(life, "read the former mappings (ReadRows)", func(ctx context.Context) (err error) {
		if state.Generation < generation {
			if state, _, err = f.Common.Ledger.Table(ctx, f.Source); err != nil {
				return err
			}
		}
		all, err = f.Formers.Of(ctx, state)
		return err
	})
	return all, err
}

// vanished reports whether a target table does not exist at all, and may be made here.
func (f *Fencing) vanished(ctx context.Context, table string) bool {
	if f.prepare == nil || f.Families == nil {
		return false
	}
	_, err := f.Families.ListFamilies(ctx, table)
	var e *sink.Error
	return errors.As(err, &e) && e.Code == "NotFound"
}

// Right is the right to write rows of one generation, which a lease gives, with the stamps under
// which it was last proved.
type Right struct {
	*Fencing
	Renew      func(ctx context.Context) error // writes the lease's row
	Generation uint32
	Former     []sink.Former // of which rows and columns may still be there
	Tables     []string      // that are written; nil: the mapping's

	mu     sync.Mutex
	Stamps sink.Stamps
	Proved bool
}

// Write makes one attempt to make a batch durable, or two, if the fence was raised since the right
// was last proved. Whoever has lost the right gives the batch up: he may have slept for days, and a
// sleeper that merely stamps again undoes the fence (H35).
func (r *Right) Write(ctx context.Context, writer *sink.Writer, batch *transform.Batch) error {
	for again := false; ; again = true {
		stamps, err := r.Current(ctx)
		if err == nil {
			err = r.Formers.Inherit(ctx, r.Former, r.Generation, batch)
		}
		if err != nil {
			return err
		}
		err = writer.Write(ctx, stamps, batch)
		if sink.Is(err, sink.Permanent) {
			r.Formers.Lighten(ctx, r.Former, batch)
		}
		if !errors.Is(err, sink.ErrRefenced) {
			return err
		}
		r.mu.Lock()
		r.Proved = false
		r.mu.Unlock()
		if again {
			return err
		}
	}
}

// Current gives the stamps, after a proof if need be.
func (r *Right) Current(ctx context.Context) (sink.Stamps, error) {
	r.mu.Lock()
	stamps, proved := r.Stamps, r.Proved
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
	r.Stamps, r.Proved = stamps, true
	return stamps, nil
}

func (r *Right) prove(ctx context.Context) (sink.Stamps, error) {
	tables := r.Tables
	if tables == nil {
		tables = r.Mapping.Tables()
	}
	return fence.Prove(ctx, r.Common.Ledger, tables, func(ctx context.Context) error {
		if err := r.Renew(ctx); err != nil {
			return err
		}
		state, _, err := r.Common.Ledger.Table(ctx, r.Source)
		switch {
		case err != nil:
			return err
		case state.Generation != r.Generation:
			return sink.ErrFenced
		case state.Halted():
			return sink.ErrFenced
		case state.MappingHash != r.MappingHash:
			return checkpoint.ErrMappingChanged
		}
		return nil
	})
}
