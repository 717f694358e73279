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
	// prepare creates the missing parts of a target table. It is nil if this process may not create
	// them.
	prepare func(ctx context.Context, table string) (made bool, err error)

	mu    sync.Mutex
	marks map[string]sink.Mark // marks by target table, as the assigner last read them
	// looked is the time at which the families were last checked under this coordinator lease; 0 if
	// never.
	looked time.Duration
}

// Read reads the marks of all targets and stores them for writers. If marks have changed, a writer
// must prove its right again, before the families of the old marks are dropped.
func (f *Fencing) Read(ctx context.Context) error {
	ctx = f.Patient(ctx)
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

// outdated reports whether stamps belong to marks that Read has replaced since.
func (f *Fencing) outdated(stamps sink.Stamps) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return stamps.Below(f.marks)
}

// lookEvery is the time between two checks that the families of published numbers exist. A family
// is missing only if the ledger or a target was restored to an earlier state.
const lookEvery = 10 * time.Minute

// OpenFence publishes the first fence number of each target. Before that, no worker writes to the
// target. OpenFence first recreates targets that do not exist.
func (f *Fencing) OpenFence(ctx context.Context) error {
	for _, table := range f.Mapping.Tables() {
		if err := f.Open(ctx, table); err != nil && !f.vanished(ctx, table) {
			return err
		}
	}
	return nil
}

// Keep publishes the first fence number of each target that has none. If the family of a published
// number is missing, it publishes another number.
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

// seen returns the time at which the families were last checked under this lease; 0 if never.
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

// RaiseAll publishes new fence numbers before the load of a new generation begins. It includes
// target tables that only former mappings wrote. When the families of the former numbers are then
// dropped, in-flight writes of earlier generations are rejected.
func (f *Fencing) RaiseAll(ctx context.Context, former ...string) error {
	for _, table := range slices.Concat(f.Mapping.Tables(), former) {
		if _, err := f.Fence.Raise(ctx, table); err != nil {
			return err
		}
	}
	return nil
}

// ClearAll drops the families of former fence numbers from the targets.
func (f *Fencing) ClearAll(ctx context.Context) error {
	for _, table := range f.Mapping.Tables() {
		if err := f.Clear(ctx, table); err != nil {
			return err
		}
	}
	return nil
}

// renewed makes a target writable again after it was lost or was written under another ledger. The
// caller must have raised the generation, and must claim the witness row afterwards. Only the
// coordinator may call it (H108).
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
		if former != "" && !made {
			t.Inherit()
		}
		return nil
	})
	if err == nil {
		_, err = f.Fence.Raise(ctx, table)
	}
	return err
}

// Former returns earlier mappings with rows that may still exist in the generation. If the record
// is older than the generation, Former reads it again.
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

// vanished reports whether a target table does not exist and this process is allowed to create it.
func (f *Fencing) vanished(ctx context.Context, table string) bool {
	if f.prepare == nil || f.Families == nil {
		return false
	}
	_, err := f.Families.ListFamilies(ctx, table)
	var e *sink.Error
	return errors.As(err, &e) && e.Code == "NotFound"
}

// Right is the right of a lease's owner to write rows of one generation. It holds the stamps with
// which the right was last proved.
type Right struct {
	*Fencing
	Renew      func(ctx context.Context) error // writes the lease's row
	Generation uint32
	Former     []sink.Former // former mappings with rows or columns that may still exist
	Marker     sink.Marker   // of the fast load whose rows are written; zero for other writes
	Tables     []string      // target tables to write to; nil for those of the mapping

	mu     sync.Mutex
	Stamps sink.Stamps
	Proved bool
}

// Write makes one attempt to make a batch durable. If the fence was raised since the right was last
// proved, it makes a second attempt, after the right is proved again. A writer that has lost the
// right, such as one that slept for days, must drop the batch. With new stamps but no new proof,
// the fence would not stop it (H35).
func (r *Right) Write(ctx context.Context, writer *sink.Writer, batch *transform.Batch) error {
	return r.attempt(ctx, func(stamps sink.Stamps) error {
		err := r.Formers.Inherit(ctx, r.Former, r.Generation, batch)
		if err != nil {
			return err
		}
		if r.Marker == (sink.Marker{}) {
			err = writer.Write(ctx, stamps, batch)
		} else {
			err = writer.Copy(ctx, stamps, r.Marker, batch)
		}
		if sink.Is(err, sink.Permanent) {
			r.Formers.Lighten(ctx, r.Former, batch)
		}
		return err
	})
}

// Clean makes one attempt to execute the entries of a sweep, and a second one like Write.
func (r *Right) Clean(ctx context.Context, writer *sink.Writer, table string, entries []sink.Entry) error {
	return r.attempt(ctx, func(stamps sink.Stamps) error {
		return writer.Clean(ctx, stamps, r.Source, table, entries)
	})
}

// attempt makes one attempt with the current stamps, and another one if the fence was raised.
func (r *Right) attempt(ctx context.Context, write func(stamps sink.Stamps) error) error {
	for again := false; ; again = true {
		stamps, err := r.Current(ctx)
		if err != nil {
			return err
		}
		if err = write(stamps); !errors.Is(err, sink.ErrRefenced) {
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

// Current returns the stamps. If necessary, it first proves the right again.
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
	stamps, err := r.Register.Prove(ctx, tables, func(ctx context.Context) error {
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
	if errors.Is(err, checkpoint.ErrHalted) {
		err = sink.ErrFenced
	}
	return stamps, err
}
