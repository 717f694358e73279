package pipeline

import (
	"context"
	"sync"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// holdings are what this worker holds leases of, each with a task that works under its lease.
type holdings struct {
	life  lifecycle // of the tasks
	tasks *task.Group
	names nameSet
	left  func() // called when one has ended
}

func newHoldings(life lifecycle, left func()) *holdings {
	tasks := task.NewGroup(life.work, 0)
	return &holdings{life: life.within(tasks.Context()), tasks: tasks, names: nameSet{names: map[string]bool{}}, left: left}
}

// begin takes a lease and starts a task with what take returned, unless one of that name is under way still. It fails as take does.
func (h *holdings) begin(name string, take func(ctx context.Context) (hold func(life lifecycle) error, err error)) error {
	if !h.names.add(name) {
		return nil
	}
	hold, err := take(h.life.work)
	if err != nil {
		h.names.remove(name)
		return err
	}
	h.tasks.Go("hold "+name, func(work context.Context) error {
		defer h.left()
		defer h.names.remove(name)
		return hold(h.life.within(work))
	})
	return nil
}

// nameSet is a set of names that several tasks use: the shards of a table that this worker holds or is about to, or the tables that joined.
type nameSet struct {
	mu    sync.Mutex
	names map[string]bool
}

func (s *nameSet) add(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names[name] {
		return false
	}
	s.names[name] = true
	return true
}

func (s *nameSet) has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names[name]
}

func (s *nameSet) empty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.names) == 0
}

func (s *nameSet) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.names, name)
}
