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
	done bool
	bell *task.Bell
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

// report notes whether a table is drained now, and tells whether the run is over. It is over for all as soon as it is for one.
func (d *drain) report(name string, done bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tables[name].done = done
	all := slices.Collect(maps.Values(d.tables))
	if d.over || slices.ContainsFunc(all, func(t *draining) bool { return !t.done }) {
		return d.over
	}
	d.over = true
	for _, t := range all {
		t.bell.Ring()
	}
	return true
}
