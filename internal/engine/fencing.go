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

// Fencing manages the fence of all target tables of one source table.
type Fencing struct {
	*Common
	fence.Fence
	Mapping *transform.Mapping
	Formers *Formers
	// prepare creates the missing parts of a target table. It is nil if this process may not.
	prepare func(ctx context.Context, table string) (made bool, err error)

	mu     sync.Mutex
	marks  map[string]sink.Mark // from the assigner's last read
	looked time.Duration        // when the families were last checked; 0: not under this coordinator lease
}

// Read reads the marks of all targets and keeps them for writers. A writer whose right was proved
// under older marks proves it again before those are dropped.
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

// outdated reports whether stamps belong to other marks than the last ones read.
func (f *Fencing) outdated(stamps sink.Stamps) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return stamps.Below(f.marks)
}

// lookEvery is how often a coordinator checks that the families of published numbers exist. They
// are missing only if the ledger or a target was restored to an earlier state.
const lookEvery = 10 * time.Minute

// OpenFence publishes the first number of each target; until then no worker writes to it. It first
// recreates a target that does not exist.
func (f *Fencing) OpenFence(ctx context.Context) error {
	for _, table := range f.Mapping.Tables() {
		if err := f.Open(ctx, table); err != nil && !f.vanished(ctx, table) {
			return err
		}
	}
	return nil
}

// Keep publishes the first number of each target, and another number if the family of the published
// one is gone.
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

// seen returns when the families were last checked under this lease; 0: not yet.
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

// RaiseAll publishes new numbers before a load of a new generation begins, also in tables that
// former mappings wrote. After that, writes of an earlier generation that are still in flight can
// be rejected by dropping their families.
func (f *Fencing) RaiseAll(ctx context.Context, former ...string) error {
	for _, table := range slices.Concat(f.Mapping.Tables(), former) {
		if _, err := f.Fence.Raise(ctx, table); err != nil {
			return err
		}
	}
	return nil
}

// ClearAll drops the families of former numbers from the targets.
func (f *Fencing) ClearAll(ctx context.Context) error {
	for _, table := range f.Mapping.Tables() {
		if err := f.Clear(ctx, table); err != nil {
			return err
		}
	}
	return nil
}

// renewed makes a target writable that was lost or was written under another ledger. The caller has
// raised the generation and claims the witness afterwards. Only the coordinator may do this (H108).
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

// Former returns the earlier mappings whose rows may still exist in the generation. The record may
// be older than the lease that owns the generation.
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

// vanished reports whether a target table does not exist and this process may create it.
func (f *Fencing) vanished(ctx context.Context, table string) bool {
	if f.prepare == nil || f.Families == nil {
		return false
	}
	_, err := f.Families.ListFamilies(ctx, table)
	var e *sink.Error
	return errors.As(err, &e) && e.Code == "NotFound"
}

// Right is the right of a lease to write rows of one generation, with the stamps under which it was
// last proved.
type Right struct {
	*Fencing
	Renew      func(ctx context.Context) error // writes the lease's row
	Generation uint32
	Former     []sink.Former // whose rows and columns may still exist
	Tables     []string      // to write to; nil: the mapping's

	mu     sync.Mutex
	Stamps sink.Stamps
	Proved bool
}

// Write makes one attempt to make a batch durable, or two if the fence was raised since the right
// was last proved. A writer that has lost the right drops the batch. It may have slept for days,
// and if it only took new stamps, the fence would be useless (H35).
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

// Current returns the stamps. It first proves the right if necessary.
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
	return r.Register.Prove(ctx, tables, func(ctx context.Context) error {
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
