package engine

import (
	"maps"
	"slices"
	"sync"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Completion is what ends a run with Once: all tables are drained at the same time. One that was
// drained before the others is followed until they are, or what is written to it meanwhile would be
// left out by a run that says that everything is applied.
type Completion struct {
	mu     sync.Mutex
	Tables map[string]*draining
	over   bool
}

// draining is what is known of one table.
type draining struct {
	Done  bool        // when it was last looked at
	still func() bool // whether what was found then holds now; nil: it does
	wake  *task.Wakeup
}

// Await lets the run wait for a table, or for whatever else goes by that name.
func (c *Completion) Await(name string, wake *task.Wakeup) {
	if c == nil {
		return // nothing is waited for
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Tables == nil {
		c.Tables = map[string]*draining{}
	}
	c.Tables[name] = &draining{wake: wake}
}

// Report notes whether a table is drained now, and reports whether the run is over. It is over for
// all as soon as it is for one. What was found of the others may be older than an outage: each of
// them is looked at when its own turn comes, and the waits after failures differ. So all are asked,
// before the run ends, whether that holds still.
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
			t.Done = false // until it is looked at again
			return false
		}
	}
	c.over = true
	for _, name := range names {
		c.Tables[name].wake.Signal()
	}
	return true
}
