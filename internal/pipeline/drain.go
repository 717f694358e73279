package pipeline

import (
	"maps"
	"slices"
	"sync"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// drain is what ends a run with Once: all tables are drained at the same time. One that was drained before the others is followed until they are, or what is
// written to it meanwhile would be left out by a run that says that everything is applied.
type drain struct {
	mu     sync.Mutex
	tables map[string]*draining
	over   bool
}

// draining is what is known of one table.
type draining struct {
	done  bool        // when it was last looked at
	still func() bool // whether what was found then holds now; nil: it does
	bell  *task.Bell
}

// await lets the run wait for a table, or for whatever else goes by that name.
func (d *drain) await(name string, bell *task.Bell) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tables == nil {
		d.tables = map[string]*draining{}
	}
	d.tables[name] = &draining{bell: bell}
}

// report notes whether a table is drained now, and tells whether the run is over. It is over for all as soon as it is for one. What was found of the others
// may be of before an outage: each of them is looked at when its own turn comes, and the waits after failures differ. So all are asked, before the run ends, whether that
// holds still.
func (d *drain) report(name string, done bool, still func() bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tables[name].done = done
	d.tables[name].still = still
	if d.over {
		return true
	}
	names := slices.Sorted(maps.Keys(d.tables))
	if slices.ContainsFunc(names, func(name string) bool { return !d.tables[name].done }) {
		return false
	}
	for _, name := range names {
		if t := d.tables[name]; t.still != nil && !t.still() {
			t.done = false // until it is looked at again
			return false
		}
	}
	d.over = true
	for _, name := range names {
		d.tables[name].bell.Ring()
	}
	return true
}
