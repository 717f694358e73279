package sim

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/attribute"

	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// operation is weeks of replication: three shards that roll every four hours, and three workers,
// one of which is killed or stopped every day. Items come and go. Every day one item cannot be
// stored, and is corrected the next day.
type operation struct {
	*Migration
	t       *testing.T
	ctx     context.Context
	workers []*Worker
	hired   int
	days    int
}

const (
	days         = 20 // longer than settledAfter and the age of tombstones
	briefDays    = 6  // the same
	rollsADay    = 6
	settledAfter = 4 // days after which nothing may grow
)

// TestWeeksOfOperation: after some days the ledger no longer grows, and nothing finished leaves a
// row behind: no shard, lease, parked item or tombstone.
func TestWeeksOfOperation(t *testing.T) {
	t.Parallel()
	w := virtual.NewWorld(1, simEpoch, false)
	o := &operation{Migration: NewMigration(w, 3), t: t, days: days}
	if brief() {
		o.days = briefDays
	}
	o.Lease, o.TombstoneAge = 30*time.Minute, 36*time.Hour
	o.Timing = engine.Timing{Poll: 20 * time.Minute, Soon: 2 * time.Minute, Pass: 20 * time.Minute, List: 30 * time.Minute}
	rec := newRecorder(o.Migration)
	o.Target.Reject = rejects
	runs(t, o.Migration, time.Duration(o.days+2)*24*time.Hour, o.run)
	if len(o.Gaps) > 0 || !o.State().Loaded() {
		t.Errorf("gaps %v, loaded %v", o.Gaps, o.State().Loaded())
	}
	if diff := rec.unequal(time.Time{}); len(diff) > 0 {
		t.Error(strings.Join(diff, "\n"))
	}
	t.Logf("%d days in %d steps, %d workers, %d parked items healed", o.days, w.Steps(), o.hired, w.Injected()["parked item healed"])
	if w.Injected()["parked item healed"] == 0 || w.Injected()["tombstone collected"] == 0 {
		t.Error("nothing was parked and healed, or no tombstone was collected")
	}
}

func (o *operation) run(ctx context.Context) {
	o.ctx = ctx
	for range 3 {
		o.hire()
	}
	largest := size{}
	for day := range o.days {
		o.day(day)
		now := o.size()
		if day <= settledAfter {
			largest = largest.max(now)
		} else if !now.within(largest) {
			o.t.Errorf("after %d days: %+v; it was at most %+v", day, now, largest)
			return
		}
	}
	o.t.Logf("at most %+v, in the end %+v", largest, o.size())
	o.checkRows()
}

// day plays one day: items change, shards roll, a worker ends and another starts.
func (o *operation) day(day int) {
	for roll := range rollsADay {
		fresh, old := fmt.Sprintf("day%d.%d", day, roll), fmt.Sprintf("day%d.%d", day-1, roll)
		o.put(fresh, "new")
		o.Source.Delete(dayItem(old, ""))
		for i := range 5 {
			o.put(fmt.Sprint("k", i), fmt.Sprintf("day %d.%d", day, roll))
		}
		o.put("bad", fmt.Sprintf("fine %d", day))
		if roll == 3 {
			o.put("bad", rejectedValue+fmt.Sprint(day))
		}
		_ = task.Sleep(o.ctx, 4*time.Hour-time.Duration(o.World.Rand().IntN(20))*time.Minute)
		for _, sh := range o.Source.Stream().Open() {
			o.Source.Stream().Roll(sh)
		}
		o.Target.Collect(o.Mapping.Table, sink.GoneFamily, o.TombstoneAge)
	}
	leaving := o.workers[0]
	o.workers = o.workers[1:]
	if day%2 == 0 {
		leaving.Kill()
	} else if err := leaving.Stop(o.ctx); err != nil {
		o.t.Errorf("%s ended with %v", leaving.Name(), err)
	}
	o.hire()
}

func (o *operation) hire() {
	o.hired++
	o.workers = append(o.workers, o.Start(fmt.Sprint("worker", o.hired)))
}

func (o *operation) put(key, value string) { o.Source.Put(dayItem(key, value)) }

func dayItem(key, value string) attribute.Item {
	return attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String(key)}, {Name: "sk", Value: attribute.String(key)}, {Name: "value", Value: attribute.String(value)}})
}

// size is the size of both tables.
type size struct{ Shards, Parked, Others, Bytes, Target int }

func (o *operation) size() (s size) {
	for _, key := range o.Target.Rows(model.StateTable) {
		switch {
		case strings.HasPrefix(key, "default/shard/"):
			s.Shards++
		case strings.HasPrefix(key, "default/parked/"):
			s.Parked++
		default:
			s.Others++
		}
		s.Bytes += len(o.Target.Row(model.StateTable, key).String())
	}
	s.Target = len(o.Target.Rows(o.Mapping.Table))
	return s
}

func (s size) max(t size) size {
	return size{max(s.Shards, t.Shards), max(s.Parked, t.Parked), max(s.Others, t.Others), max(s.Bytes, t.Bytes), max(s.Target, t.Target)}
}

// within compares sizes, with an allowance for chance.
func (s size) within(most size) bool {
	return s.Shards <= most.Shards+6 && s.Parked <= most.Parked+1 && s.Others <= most.Others && s.Bytes <= most.Bytes*6/5 && s.Target <= most.Target+6
}

// checkRows checks that in the end every shard is read by a live worker, or is finished and too
// young to be removed.
func (o *operation) checkRows() {
	alive := map[string]bool{}
	for _, w := range o.workers {
		alive[w.Name()] = true
	}
	// A killed worker's leases have ended, and rolled shards are listed.
	_ = task.Sleep(o.ctx, 2*time.Hour)
	for _, row := range o.Shards() {
		switch {
		case !row.Finished() && !alive[row.Owner]:
			o.t.Errorf("shard %s is %s, and held by %q", row.ID, row.State, row.Owner)
		case row.Finished() && o.World.Now().Sub(row.DoneAt) > 50*time.Hour:
			o.t.Errorf("shard %s was done %s ago", row.ID, o.World.Now().Sub(row.DoneAt))
		}
	}
	if o.Parked() > 1 {
		o.t.Errorf("%d items are parked", o.Parked())
	}
}
