package engine

import (
	"context"
	"sync"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Holdings holds the leases of this worker. For each lease, a task does the work that the lease
// permits.
type Holdings struct {
	Life  Lifecycle // lifecycle of the tasks
	Tasks *task.Group
	Names NameSet
	left  func() // called when a task has ended
}

func NewHoldings(life Lifecycle, left func()) *Holdings {
	tasks := task.NewGroup(life.Work, 0)
	return &Holdings{Life: life.Within(tasks.Context()), Tasks: tasks, Names: NameSet{Names: map[string]bool{}}, left: left}
}

// Begin calls `take` to acquire a lease. Then it runs the function that `take` returns in a new
// task. If a task with the same name is still running, Begin does nothing. If `take` fails, Begin
// fails.
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

// NameSet is a set of names that several tasks use. It is used for the shards of a table that this
// worker has acquired or is acquiring, and for tables that joined.
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
