package checkpoint

import (
	"context"
	"maps"
	"reflect"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Writer is the record of a process that may write rows of target tables. The process writes the
// record before it reads whether the tables are halted. A cutover halts the tables first and reads
// these records afterwards, so it finds every process that can still write.
//
// A process that has an answer to each of its requests removes its record when it ends. The rights
// in any other record remain until their numbers are dropped, because the age of a record proves
// nothing. A running process writes its record again every hour (RefreshWriter). Records that were
// not written for a day are joined into one record (JoinWriters).
type Writer struct {
	header
	Worker  string `json:"worker"`
	Process About  `json:"process,omitzero"`
	// Goodbye is the number of the cutover attempt for which the process has stopped its writes.
	// Each of its requests has an answer, or is named as a doubt in Targets. The process sends no
	// further request unless that attempt is cancelled.
	Goodbye uint32 `json:"goodbye,omitempty"`
	// Goodbyes are these numbers for the cutovers of named groups, by Cutover.Row.
	Goodbyes map[string]uint32 `json:"goodbyes,omitempty"`
	// At is when the record was last written, on the writer's clock.
	At time.Time `json:"at,omitzero"`
	// Targets are the target tables, by name.
	Targets map[string]Writing `json:"targets"`
}

// Writing describes under which numbers of the fence a process may write to a target table. It also
// describes which of its requests are in doubt: they never got a definite answer.
type Writing struct {
	// Number is the highest number under which the process may write; 0 if there is none.
	Number uint64 `json:"number,omitempty"`
	// Unfenced reports that the process may write without a number, because the fence is withheld.
	Unfenced bool `json:"unfenced,omitempty"`
	// Doubt is the highest number under which a request is in doubt; 0 if there is none.
	Doubt uint64 `json:"doubt,omitempty"`
	// UnfencedDoubt reports that a request without a number is in doubt.
	UnfencedDoubt bool `json:"unfenced_doubt,omitempty"`
}

// SaidGoodbye reports whether the process has closed its gate for an attempt of a cutover.
func (w *Writer) SaidGoodbye(c Cutover) bool {
	said := w.Goodbye
	if c.Row != "" {
		said = w.Goodbyes[c.Row]
	}
	return said == c.Attempt
}

// Covers reports whether w already contains all rights and doubts that `other` has.
func (w Writing) Covers(other Writing) bool { return w.with(other) == w }

// with returns the union of w and `other`.
func (w Writing) with(other Writing) Writing {
	return Writing{
		Number: max(w.Number, other.Number), Unfenced: w.Unfenced || other.Unfenced,
		Doubt: max(w.Doubt, other.Doubt), UnfencedDoubt: w.UnfencedDoubt || other.UnfencedDoubt,
	}
}

// inDoubt reports whether a request has no definite answer.
func (w Writing) inDoubt() bool { return w.Doubt > 0 || w.UnfencedDoubt }

func (l *Ledger) writerPrefix() string { return l.name + "/writer/" }

// Writers reads the records of all processes that may write, by name.
func (l *Ledger) Writers(ctx context.Context) ([]Writer, error) {
	rows, err := l.store.Read(ctx, l.writerPrefix())
	if err != nil {
		return nil, err
	}
	return l.writers.decode(l.writerPrefix(), rows)
}

// EnterWriter adds the given rights to this process's record, and returns the record. It writes
// nothing if the record already has these rights.
func (l *Ledger) EnterWriter(ctx context.Context, targets map[string]Writing) (Writer, error) {
	return l.updateWriter(ctx, l.worker, task.Now(ctx), func(w *Writer) {
		w.Process = l.about
		for table, more := range targets {
			w.Targets[table] = w.Targets[table].with(more)
		}
	})
}

// NoteWriter adds doubts to this process's record and returns the record. It adds only doubts about
// targets that the record names. If attempt is not 0, the record also says goodbye to that attempt
// of the cutover with the given row.
func (l *Ledger) NoteWriter(ctx context.Context, row string, attempt uint32, doubts map[string]Writing) (Writer, error) {
	return l.updateWriter(ctx, l.worker, task.Now(ctx), func(w *Writer) {
		for table, more := range doubts {
			if was, known := w.Targets[table]; known {
				w.Targets[table] = was.with(more)
			}
		}
		switch {
		case row == "":
			w.Goodbye = max(w.Goodbye, attempt)
		case attempt > w.Goodbyes[row]:
			w.Goodbyes = maps.Clone(w.Goodbyes)
			if w.Goodbyes == nil {
				w.Goodbyes = map[string]uint32{}
			}
			w.Goodbyes[row] = attempt
		}
	})
}

// LeaveWriter removes this process's record, because the process sends no more requests. The
// argument `doubts` holds the requests that never got a definite answer. If there are any, the
// record remains and holds them.
func (l *Ledger) LeaveWriter(ctx context.Context, doubts map[string]Writing) error {
	_, err := l.updateWriter(ctx, l.worker, task.Now(ctx), func(w *Writer) {
		for table, more := range doubts {
			w.Targets[table] = w.Targets[table].with(more)
		}
		maps.DeleteFunc(w.Targets, func(_ string, t Writing) bool { return !t.inDoubt() })
	})
	return err
}

// ForgetWriters removes from all records all numbers below the given number of each target table.
// The drops of these numbers must be in force, so that Bigtable executes no request under them. It
// writes each record once, so a cutover with many targets does not compete with itself.
func (l *Ledger) ForgetWriters(ctx context.Context, below map[string]uint64) error {
	all, err := l.Writers(ctx)
	if err != nil {
		return err
	}
	dropped := func(target string, t Writing) bool {
		return t.Number < below[target] && !t.Unfenced && !t.UnfencedDoubt
	}
	for i := range all {
		left := maps.Clone(all[i].Targets)
		if maps.DeleteFunc(left, dropped); len(left) == len(all[i].Targets) {
			continue
		}
		_, err := l.updateWriter(ctx, all[i].Worker, all[i].At, func(w *Writer) { maps.DeleteFunc(w.Targets, dropped) })
		if err != nil {
			return err
		}
	}
	return nil
}

// RefreshWriter writes this process's record again, so that its age shows that the process runs. It
// enters the given rights again if the record was joined (JoinWriters).
func (l *Ledger) RefreshWriter(ctx context.Context, targets map[string]Writing) error {
	now := task.Now(ctx).UTC()
	_, err := l.updateWriter(ctx, l.worker, now, func(w *Writer) {
		w.At, w.Process = now, l.about
		if len(w.Targets) == 0 {
			maps.Copy(w.Targets, targets)
		}
	})
	return err
}

// EndedWriters is the name of the record that holds the rights of processes that ended uncleanly.
const EndedWriters = "ended-uncleanly"

// JoinWriters moves the rights in records that were not written for a day into one record. So
// records of killed processes do not fill the ledger. No process ever says goodbye for the joined
// rights, so they remain until a drop. If such a process still runs, it enters its next number in a
// new record of its own.
func (l *Ledger) JoinWriters(ctx context.Context) error {
	rows, err := l.store.Read(ctx, l.writerPrefix())
	if err != nil {
		return err
	}
	for _, row := range rows {
		old, err := l.writers.one(row)
		if err != nil {
			return err
		}
		if old.Worker == EndedWriters || task.Now(ctx).Sub(old.At) < forgotten {
			continue
		}
		_, err = l.updateWriter(ctx, EndedWriters, old.At, func(w *Writer) {
			for table, more := range old.Targets {
				w.Targets[table] = w.Targets[table].with(more)
			}
		})
		if err == nil { // the rights are stored first; a record that was written meanwhile stays
			_, err = l.swap(ctx, l.store, row.Key, row.Counter, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// updateWriter changes the record of a process, at the given time. It removes a record that names no
// target.
func (l *Ledger) updateWriter(ctx context.Context, worker string, at time.Time, change func(*Writer)) (Writer, error) {
	key := l.writerPrefix() + worker
	for range tries {
		w := Writer{Worker: worker}
		row, found, err := readRow(ctx, l.store, key)
		if err == nil && found {
			w, err = l.writers.one(row)
		}
		if err != nil {
			return Writer{}, err
		}
		before := w
		w.Targets = maps.Clone(w.Targets) // the original map belongs to the ledger's cache
		if w.Targets == nil {
			w.Targets = map[string]Writing{}
		}
		change(&w)
		var data []byte
		switch {
		case len(w.Targets) == 0 && !found, found && len(w.Targets) > 0 && reflect.DeepEqual(before, w):
			return w, nil
		case len(w.Targets) > 0:
			if at.After(w.At) {
				w.At = at.UTC()
			}
			data = l.stamp(&w.header, &w)
		}
		done, err := l.swap(ctx, l.store, key, row.Counter, data)
		if done || err != nil {
			return w, err
		}
	}
	return Writer{}, ErrConflict
}
