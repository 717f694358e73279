package sim

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/attribute"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
)

// TestNamedTableIsDropped: the stream of a dropped table stays readable for a day. Its changes are
// applied, even if the last shard was rolled just before and its child was never listed. The drop
// is reported until the table exists again.
func TestNamedTableIsDropped(t *testing.T) { play(t, 10, 1, namedTableIsDropped) }

func namedTableIsDropped(s *scene) {
	db := &moody{database: database{s.Source}}
	slow := false
	s.Source.Fault = func(op, _ string) error {
		if slow && op == "GetRecords" {
			return model.Fail(op, cdc.Throttled)
		}
		return nil
	}
	s.put("1", "before")
	s.Start("a", func(o *engine.Options) { o.Database = db })
	s.equal(5 * time.Minute)
	s.sleep(3 * time.Minute)
	slow = true
	s.sleep(5 * time.Second)
	s.Source.Stream().Roll(s.only())
	s.put("k", "the last change")
	s.sleep(500 * time.Millisecond)
	db.dropped = true
	s.Source.DisableStream()
	s.sleep(2 * time.Minute)
	slow = false
	s.equal(5 * time.Minute)
	if state := s.State(); state.Suspended.Reason != engine.GoneReason || state.NeedsLoad {
		s.failf("set aside for %q, needs a load: %t", state.Suspended.Reason, state.NeedsLoad)
	}
	db.dropped = false
	s.Source.EnableStream(1)
	s.gap(5*time.Minute, "new stream")
	s.until(time.Minute, "readmitted, now that it is there again", func() bool { return s.State().Suspended.Reason == "" })
}

// TestNamedTableIsDroppedWhileARunEnds: a run with --once waits for the remaining changes of a
// dropped table's stream, and for shards that may not be listed yet. It does not wait the day until
// the stream disappears. If the copy was incomplete at the drop, it stays so.
func TestNamedTableIsDroppedWhileARunEnds(t *testing.T) {
	play(t, 10, 1, func(s *scene) {
		db, hidden := &moody{database: database{s.Source}}, 5*time.Minute
		s.put("1", "before")
		a := s.Start("a", func(o *engine.Options) { o.Once, o.Database = true, db })
		s.until(5*time.Minute, "the first read", func() bool { return s.row("1") != nil })
		child := s.Source.Stream().Roll(s.only())
		child.Hidden = true
		s.put("k", "the last change")
		db.dropped = true
		s.Source.DisableStream()
		dropped := s.World.Now()
		s.sleep(hidden)
		child.Hidden = false
		if err := a.Wait(s.ctx); err != nil {
			s.failf("ended with %v", err)
		}
		if took := s.World.Now().Sub(dropped); took < hidden || took > time.Hour {
			s.failf("it ended after %s", took)
		}
		if state := s.State(); s.row("k") == nil || state.Suspended.Reason != engine.GoneReason || state.NeedsLoad {
			s.failf("the last change: %v; set aside for %q, needs a load: %t", s.row("k"), state.Suspended.Reason, state.NeedsLoad)
		}
	})
}

// dropping is a database whose table is dropped during its scan.
type dropping struct {
	*moody
	drop func()
}

func (d *dropping) Scan(context.Context, string, int, int, attribute.Item, int) (backfill.ScanPage, error) {
	if !d.dropped {
		d.dropped = true
		d.drop()
	}
	return backfill.ScanPage{}, &cdc.Error{Op: "Scan", Reason: cdc.NotFound, Err: errors.New("dropped")}
}

// TestNamedTableIsDroppedAmidItsCopy: nothing is left to copy, but the stream is still read.
func TestNamedTableIsDroppedAmidItsCopy(t *testing.T) { play(t, 10, 1, namedTableIsDroppedAmidItsCopy) }

func namedTableIsDroppedAmidItsCopy(s *scene) {
	left := 0
	db := &dropping{moody: &moody{database: database{s.Source}}, drop: func() {
		s.Source.Stream().Roll(s.only())
		s.put("k", "the last change")
		s.Source.DisableStream()
	}}
	s.Start("a", func(o *engine.Options) {
		o.Database = db
		o.Events.CoordinatorLeft = func(string, error) { left++ }
	})
	s.until(10*time.Minute, "the last change applied", func() bool { return s.row("k") != nil })
	s.sleep(time.Hour)
	if state := s.State(); state.Suspended.Reason != engine.GoneReason || state.Loaded() || left > 0 {
		s.failf("set aside for %q, loaded: %t; the seat was left %d times", state.Suspended.Reason, state.Loaded(), left)
	}
}
