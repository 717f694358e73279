package engine

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// Shares records what each worker of the pipeline holds, over all tables, as this process last saw
// it. The tasks of all tables use it together.
type Shares struct {
	mu     sync.Mutex
	Tables map[string]map[string]int // shards by worker, by table
	rows   map[string]int            // of shards in the ledger, by table
	uneven time.Duration             // since when this process holds too few, on the monotonic clock; 0: it does not
	taken  time.Duration             // when it last took over a shard
}

// See records how many leases of a table each worker holds.
func (s *Shares) See(table string, held map[string]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Tables == nil {
		s.Tables = map[string]map[string]int{}
	}
	s.Tables[table] = maps.Clone(held) // the caller continues to count, and other tables read this map
}

// Forget removes a table that this process no longer works on.
func (s *Shares) Forget(table string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.Tables, table)
	delete(s.rows, table)
}

// workers returns how many workers hold shards of a table, including this one.
func (s *Shares) workers(table, me string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.Tables[table])
	if s.Tables[table][me] == 0 {
		n++
	}
	return n
}

// Looks records how many shard rows a pass over the table reads. It returns how many rows the
// passes over all tables read, and how many workers make passes.
func (s *Shares) Looks(table, me string, rows int) (all, workers int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rows == nil {
		s.rows = map[string]int{}
	}
	s.rows[table] = rows
	for _, n := range s.rows {
		all += n
	}
	seen := map[string]bool{me: true}
	for _, held := range s.Tables {
		for worker := range held {
			seen[worker] = true
		}
	}
	return all, len(seen)
}

// Followed returns how many tables this process works on.
func (s *Shares) Followed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.Tables)
}

// Busiest returns the worker from which me should now take over one of the table's shards, "" if
// from none. The numbers must have been uneven for a lease. The children of an ended shard follow
// soon, and a dead worker keeps its shards for that long. Then at most one shard is taken over in a
// pass, so that all workers see the result first.
func (s *Shares) Busiest(table, me string, now, lease, pass time.Duration) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := map[string]int{}
	for _, workers := range s.Tables {
		for worker, n := range workers {
			held[worker] += n
		}
	}
	switch {
	case checkpoint.Busiest(held, me, slices.Sorted(maps.Keys(held))) == "":
		s.uneven = 0
	case s.uneven == 0:
		s.uneven = now
	case now-s.uneven >= lease && now-s.taken >= pass:
		return checkpoint.Busiest(held, me, slices.Sorted(maps.Keys(s.Tables[table])))
	}
	return ""
}

// Tried records that a shard of the table is being taken over. The next pass shows whether that
// succeeded.
func (s *Shares) Tried(now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken = now
}
