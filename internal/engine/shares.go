package engine

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// Shares are what the workers of the pipeline hold, over all tables, as this process last saw it.
// The tasks of all tables use them together.
type Shares struct {
	mu     sync.Mutex
	Tables map[string]map[string]int // shards by worker, by table
	rows   map[string]int            // of shards in the ledger, by table
	uneven time.Duration             // since when, on the monotonic clock, this process holds too few; 0: it does not
	taken  time.Duration             // when it last took a shard over
}

// See notes how many leases of a table each worker holds.
func (s *Shares) See(table string, held map[string]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Tables == nil {
		s.Tables = map[string]map[string]int{}
	}
	s.Tables[table] = maps.Clone(held) // the caller goes on counting, and other tables look
}

// Forget leaves out a table that this process does not work on any more.
func (s *Shares) Forget(table string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.Tables, table)
	delete(s.rows, table)
}

// workers is how many workers hold shards of a table, this one included.
func (s *Shares) workers(table, me string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.Tables[table])
	if s.Tables[table][me] == 0 {
		n++
	}
	return n
}

// Looks notes how many rows of shards a look at the table reads, and gives how many the looks at all
// tables read, and how many workers look.
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

// Followed is how many tables this process works on.
func (s *Shares) Followed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.Tables)
}

// Busiest is the worker of which me should take over one of the table's shards now; "" if of none.
// There is one at a time: the numbers must have been uneven for a lease, because a shard that ends
// is followed by its children soon, and who is gone holds its shards for so long; and then one
// shard in a pass is taken over, so that all see what came of it.
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

// Tried notes that a shard of the table is being taken over. Whether that succeeds is seen in the
// next pass.
func (s *Shares) Tried(now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken = now
}
