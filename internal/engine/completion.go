package engine

import (
	"maps"
	"slices"
	"sync"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Completion ends a run with Once when all tables are drained at the same time. A table that is
// drained early is replicated until the other tables are drained too. Otherwise its later changes
// would be missing when the run reports that all changes are applied.
type Completion struct {
	mu     sync.Mutex
	Tables map[string]*draining
	over   bool
}

// draining is the known state of one table.
type draining struct {
	Done  bool        // result of the last check
	still func() bool // checks again whether the table is done; nil if that cannot change
	wake  *task.Wakeup
}

// Await makes the run wait for a table, or for another condition under that name.
func (c *Completion) Await(name string, wake *task.Wakeup) {
	if c == nil {
		return // a run without Once does not wait for tables
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Tables == nil {
		c.Tables = map[string]*draining{}
	}
	c.Tables[name] = &draining{wake: wake}
}

// Report records whether a table is drained, and reports whether the run is over. The run ends for
// all tables at the same time, but tables are checked one after another. So the last result of
// another table may be from before an outage. Before the run ends, Report asks all tables whether
// their last result is still true.
func (c *Completion) Report(name string, done bool, still func() bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Tables[name].Done = done
	c.Tables[name].still = still
	if c.over {
		return true
	}
	names := slices.Sorted(maps.Keys(c.Tables))
	if slices.ContainsFunc(names, func(name string) bool { return !c.Tables[name].Done }) {
		return false
	}
	for _, name := range names {
		if t := c.Tables[name]; t.still != nil && !t.still() {
			t.Done = false // stays false until the next check
			return false
		}
	}
	c.over = true
	for _, name := range names {
		c.Tables[name].wake.Signal()
	}
	return true
}
