package fence

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// Register holds the gate of this process, and keeps its record in the ledger (checkpoint.Writer).
// Every right to write target tables is proved with it. A process has one.
type Register struct {
	ledger  *checkpoint.Ledger
	gate    *sink.Gate
	writing *task.Limit // one write of the record at a time

	mu      sync.Mutex
	entered map[string]checkpoint.Writing // what the record says, by target table
}

// NewRegister returns the register of a process that opened the ledger under a name of its own.
func NewRegister(ledger *checkpoint.Ledger) *Register {
	r := &Register{ledger: ledger, writing: task.NewLimit(1), entered: map[string]checkpoint.Writing{}}
	r.gate = sink.NewGate(r.enter)
	return r
}

// Prove returns the stamps for writes to target tables. Right must prove that the caller may still
// write (sink.Prove).
func (r *Register) Prove(ctx context.Context, tables []string, right func(ctx context.Context) error) (sink.Stamps, error) {
	return sink.Prove(ctx, r.gate, tables, Marks(r.ledger), right)
}

// enter makes durable that this process may write under marks.
func (r *Register) enter(ctx context.Context, marks map[string]sink.Mark) error {
	missing := r.missing(marks)
	if len(missing) == 0 {
		return nil
	}
	if err := r.writing.Acquire(ctx, 1); err != nil {
		return err
	}
	defer r.writing.Release(1)
	if missing = r.missing(marks); len(missing) == 0 {
		return nil
	}
	w, err := r.ledger.EnterWriter(ctx, missing)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entered = maps.Clone(w.Targets)
	return nil
}

// missing returns what the record does not say yet of these marks.
func (r *Register) missing(marks map[string]sink.Mark) map[string]checkpoint.Writing {
	r.mu.Lock()
	defer r.mu.Unlock()
	missing := map[string]checkpoint.Writing{}
	for table, mark := range marks {
		w := checkpoint.Writing{Number: mark.Number}
		if mark.Withheld {
			w = checkpoint.Writing{Unfenced: true}
		}
		if !r.entered[table].Covers(w) {
			missing[table] = w
		}
	}
	return missing
}

// leaveTime bounds the last write of a process to its record.
const leaveTime = 10 * time.Second

// Leave ends the record: this process sends nothing more, though ctx may have ended. If it fails,
// the record stays until its numbers are dropped.
func (r *Register) Leave(ctx context.Context) error {
	r.mu.Lock()
	entered := maps.Clone(r.entered)
	r.mu.Unlock()
	if len(entered) == 0 {
		return nil
	}
	doubts := map[string]checkpoint.Writing{}
	for table, w := range entered {
		r.gate.Close(table)
		doubts[table] = r.doubt(table, w)
	}
	limited, cancel := task.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	return r.ledger.LeaveWriter(limited, doubts)
}

// doubt returns which requests to a target table have no definite answer. A request in flight has
// none yet.
func (r *Register) doubt(table string, w checkpoint.Writing) checkpoint.Writing {
	t := r.gate.Traffic(table)
	d := checkpoint.Writing{Doubt: t.Doubt, UnfencedDoubt: t.Unfenced}
	if t.InFlight {
		d.Doubt, d.UnfencedDoubt = max(d.Doubt, w.Number), d.UnfencedDoubt || w.Unfenced
	}
	return d
}
