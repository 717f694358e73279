package sim

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
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
		o.Discover = func(context.Context) (pipeline.Discovery, error) {
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
