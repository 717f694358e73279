package engine

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// Shares records how many shards each worker of the pipeline holds, over all tables, as this
// process last read it. The tasks of all tables share it.
type Shares struct {
	mu     sync.Mutex
	Tables map[string]map[string]int // number of shards by worker, by table
	rows   map[string]int            // number of shard rows in the ledger, by table
	// uneven is since when this process has held too few shards, on the monotonic clock; 0 if it
	// holds enough.
	uneven time.Duration
	taken  time.Duration // when this process last took over a shard
}

// See records how many leases of a table each worker holds.
func (s *Shares) See(table string, held map[string]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Tables == nil {
		s.Tables = map[string]map[string]int{}
	}
	// The map is copied, because the caller may change it later, and tasks of other tables read it.
	s.Tables[table] = maps.Clone(held)
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

// Looks records how many shard rows a pass over the table reads. The result `all` is how many rows
// the passes over all tables read. The result `workers` is how many workers make such passes.
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

// Busiest returns the worker from which worker `me` should now take over one of the table's shards;
// "" if there is none. The numbers of shards must have been uneven for the duration of a lease.
// Within that time, children of an ended shard, or the shards of a dead worker, may make them even
// again. In each pass, at most one shard is taken over, so that all workers see the result before
// the next takeover.
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

// Uneven reports whether this process held too few shards when it last called Busiest.
func (s *Shares) Uneven() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.uneven > 0
}

// Tried records that this process is taking over a shard of the table. The next pass shows whether
// that succeeded.
func (s *Shares) Tried(now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken = now
}
