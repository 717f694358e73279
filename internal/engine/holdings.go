package engine

import (
	"context"
	"sync"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Holdings holds the leases of this worker, each with a task that works under it.
type Holdings struct {
	Life  Lifecycle // of the tasks
	Tasks *task.Group
	Names NameSet
	left  func() // called when a task has ended
}

func NewHoldings(life Lifecycle, left func()) *Holdings {
	tasks := task.NewGroup(life.Work, 0)
	return &Holdings{Life: life.Within(tasks.Context()), Tasks: tasks, Names: NameSet{Names: map[string]bool{}}, left: left}
}

// Begin acquires a lease and starts a task with the function that take returned, unless a task of
// that name still runs. It fails if take fails.
func (h *Holdings) Begin(name string, take func(ctx context.Context) (hold func(life Lifecycle) error, err error)) error {
	if !h.Names.Add(name) {
		return nil
	}
	hold, err := take(h.Life.Work)
	if err != nil {
		h.Names.Remove(name)
		return err
	}
	h.Tasks.Go("hold "+name, func(work context.Context) error {
		defer h.left()
		defer h.Names.Remove(name)
		return hold(h.Life.Within(work))
	})
	return nil
}

// NameSet is a set of names that several tasks use. It holds the shards of a table that this worker
// holds or is about to acquire, or the tables that joined.
type NameSet struct {
	mu    sync.Mutex
	Names map[string]bool
}

func (s *NameSet) Add(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Names[name] {
		return false
	}
	s.Names[name] = true
	return true
}

func (s *NameSet) Has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Names[name]
}

func (s *NameSet) Empty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.Names) == 0
}

func (s *NameSet) Remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.Names, name)
}
