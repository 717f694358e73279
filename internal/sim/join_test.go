package sim

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/pipeline"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/internal/virtual"
)

// moody is a table that comes without a stream, and may be dropped.
type moody struct {
	*Table
	off, dropped bool
}

func (d *moody) Describe(ctx context.Context, table string) (backfill.Description, error) {
	desc, err := d.Table.Describe(ctx, table)
	switch {
	case err != nil:
	case d.dropped:
		return backfill.Description{}, &cdc.Error{Op: "DescribeTable", Reason: cdc.NotFound, Err: errors.New("dropped")}
	case d.off:
		desc.StreamEnabled, desc.ViewType = false, ""
	}
	return desc, err
}

// TestTableJoins: a table that is found while two workers run joins both. Without a stream it is set aside, once, and ends neither; with one it is
// copied and followed; dropped it is told, and what its shards still hold is applied.
func TestTableJoins(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { tableJoins(t, seed) })
	}
}

func tableJoins(t *testing.T, seed uint64) {
	const every = 5 * time.Minute
	w := virtual.NewWorld(seed, start, true)
	m := NewMigration(w, 1)
	m.Target.LoseReply, m.Target.Late, m.Target.Drop, m.Target.Twice = 0.02, 0.02, 0.02, 0.05
	db := &moody{Table: m.Source, off: true}
	exists, joined := false, 0
	var told []string
	patterns := func(o *pipeline.Options) {
		found := o.Tables[0]
		found.Joined = true
		o.Tables, o.Database, o.DiscoverEvery = nil, db, every
		o.Discover = func(context.Context, func(string) bool) (pipeline.Discovery, error) {
			switch {
			case !exists:
				return pipeline.Discovery{}, nil
			case w.Rand().IntN(3) == 0:
				return pipeline.Discovery{}, &cdc.Error{Op: "ListTables", Reason: cdc.Throttled, Err: errors.New("injected")}
			}
			refused := []pipeline.Refusal{{Table: "Other", Reason: "its key does not fit"}}
			if joined == 2 { // its own keeper knows better
				refused = append(refused, pipeline.Refusal{Table: found.Mapping.Source, Reason: "it is refused now"})
			}
			return pipeline.Discovery{Tables: []pipeline.Table{found}, Refused: refused}, nil
		}
		o.Events.Joined = func(string) { joined++ }
		o.Events.Aside = func(table, reason string) { told = append(told, table+": "+reason) }
	}
	err := w.Run(6*time.Hour, func(ctx context.Context) {
		until := func(what string, ok func() bool) {
			t.Helper()
			if err := m.Until(ctx, 2*every, func() error {
				if !ok() {
					return errors.New("never: " + what)
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
		}
		m.Source.Put(item("hats", "1", "before"))
		a, b := m.Start("a", patterns), m.Start("b", patterns)
		_ = task.Sleep(ctx, 3*every)
		if m.State().Generation != 0 || joined != 0 {
			t.Errorf("a table that is not there joins: %+v", m.State())
		}
		exists = true
		until("both look at the table", func() bool { return joined == 2 })
		until("set aside", func() bool { return m.State().Aside.Reason == "the table has no enabled stream" })
		_ = task.Sleep(ctx, every)
		db.off = false
		if err := m.Equal(ctx, 2*every); err != nil {
			t.Error(err)
		}
		until("taken back", func() bool { return m.State().Aside.Reason == "" })
		m.Source.Put(item("hats", "2", "followed"))
		if err := m.Equal(ctx, time.Minute); err != nil {
			t.Error(err)
		}
		db.dropped = true
		until("told that it was dropped", func() bool { return m.State().Aside.Reason == pipeline.GoneReason })
		m.Source.Put(item("hats", "1", "the last change"))
		if err := m.Equal(ctx, every); err != nil {
			t.Error(err)
		}
		for _, worker := range []*Worker{a, b} {
			if err := worker.Stop(ctx); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil {
		t.Error(err)
	}
	for _, broken := range m.Broken() {
		t.Error(broken)
	}
	count := map[string]int{}
	for _, line := range told {
		count[line]++
	}
	if len(m.Gaps) > 0 || joined != 2 || count["Other: its key does not fit"] == 0 || count["Orders: it is refused now"] > 0 || count["Orders: "+pipeline.GoneReason] == 0 {
		t.Errorf("gaps %v, %d joined, told %v", m.Gaps, joined, told)
	}
	for line, n := range count {
		if n > 2 { // each worker at the most, when an answer was lost
			t.Errorf("told %d times: %s", n, line)
		}
	}
	if t.Failed() {
		t.Log(w.Trace())
	}
}

// TestDroppedTableIsLeft: two days after a table of a pattern was dropped, nobody looks at its rows of the ledger any more; one that is created under
// its name joins anew, with a gap between the two streams.
func TestDroppedTableIsLeft(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { droppedTableIsLeft(t, seed) })
	}
}

func droppedTableIsLeft(t *testing.T, seed uint64) {
	const every = 5 * time.Minute
	w := virtual.NewWorld(seed, start, true)
	m := NewMigration(w, 2)
	m.Timing.Pass = 10 * time.Second // for fewer steps in two days
	db := &moody{Table: m.Source}
	joined, looks, seats := 0, 0, 0
	patterns := func(o *pipeline.Options) {
		spec := o.Tables[0]
		spec.Joined = true
		o.Tables, o.Database, o.DiscoverEvery = nil, db, every
		o.Discover = func(_ context.Context, followed func(string) bool) (found pipeline.Discovery, err error) {
			source := spec.Mapping.Source
			switch {
			case followed(source):
			case db.dropped:
				found.Refused = []pipeline.Refusal{{Table: source, Reason: pipeline.GoneReason}}
			default:
				found.Tables = []pipeline.Table{spec}
			}
			return found, nil
		}
		o.Events.Joined = func(string) { joined++ }
		o.Events.Ledger = func(checkpoint.TableState, map[checkpoint.State]int) { looks++ }
		o.Events.KeeperTaken = func(string, uint64) { seats++ }
	}
	err := w.Run(60*time.Hour, func(ctx context.Context) {
		equal := func(what string) {
			t.Helper()
			if err := m.Equal(ctx, 2*every); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		m.Source.Put(item("hats", "1", "before"))
		workers := []*Worker{m.Start("a", patterns), m.Start("b", patterns)}
		equal("copied")
		m.Source.Put(item("hats", "2", "the last change"))
		db.dropped = true
		m.Source.DisableStream()
		equal("dropped")
		_ = task.Sleep(ctx, 47*time.Hour)
		before := looks
		_ = task.Sleep(ctx, time.Minute)
		if joined != 2 || before == looks {
			t.Errorf("it is left after less than two days; %d joined", joined)
		}
		_ = task.Sleep(ctx, 2*time.Hour)
		before = looks + seats
		_ = task.Sleep(ctx, time.Hour)
		if joined != 2 || before != looks+seats || m.State().Aside.Reason != pipeline.GoneReason {
			t.Errorf("%d joined, %d looks and seats in an hour after the table is long gone, set aside for %q", joined, looks+seats-before, m.State().Aside.Reason)
		}
		db.dropped = false
		m.Source.EnableStream(1)
		_ = task.Sleep(ctx, 2*every)
		m.Source.Put(item("hats", "2", "of the new table"))
		equal("created anew")
		if state := m.State(); joined != 4 || state.Aside.Reason != "" || len(m.Gaps) != 1 {
			t.Errorf("%d joined, set aside for %q, gaps %v", joined, state.Aside.Reason, m.Gaps)
		}
		for _, worker := range workers {
			if err := worker.Stop(ctx); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil {
		t.Error(err)
	}
	for _, broken := range m.Broken() {
		t.Error(broken)
	}
}

// TestH18_OnceWaitsForWhatCannotBeDescribed: a run with Once replicates the table that it found with an error, and ends only after a look without one.
func TestH18_OnceWaitsForWhatCannotBeDescribed(t *testing.T) {
	w := virtual.NewWorld(1, start, true)
	m := NewMigration(w, 1)
	failures, looked := 10, false
	err := w.Run(time.Hour, func(ctx context.Context) {
		m.Source.Put(item("hats", "1", "before"))
		a := m.Start("a", func(o *pipeline.Options) {
			spec := o.Tables[0]
			spec.Joined = true
			o.Once, o.Tables, o.DiscoverEvery = true, nil, time.Minute
			o.Discover = func(_ context.Context, followed func(string) bool) (found pipeline.Discovery, err error) {
				if !followed(spec.Mapping.Source) {
					found.Tables = []pipeline.Table{spec}
				}
				if failures--; failures >= 0 {
					return found, &cdc.Error{Op: "DescribeTable", Reason: cdc.Throttled, Err: errors.New("injected")}
				}
				looked = true
				return found, nil
			}
		})
		if err := m.Equal(ctx, time.Minute); err != nil {
			t.Error(err)
		}
		if looked {
			t.Error("the table waited for the others")
		}
		if err := a.Wait(ctx); err != nil || !looked {
			t.Errorf("over after a look without an error: %v, %v", looked, err)
		}
	})
	if err != nil {
		t.Error(err)
	}
}
