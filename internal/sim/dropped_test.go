package sim

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/pipeline"
)

// TestNamedTableIsDropped: the stream of a dropped table can be read for a day still. What it holds is applied, though the last shard was rolled just
// before, and nobody had listed its child; and that the table is gone is told until it is there again.
func TestNamedTableIsDropped(t *testing.T) { play(t, 10, 1, namedTableIsDropped) }

func namedTableIsDropped(s *scene) {
	db := &moody{Table: s.Source}
	slow := false
	s.Source.Fault = func(op, _ string) error {
		if slow && op == "GetRecords" {
			return Fail(op, cdc.Throttled)
		}
		return nil
	}
	s.put("1", "before")
	s.Start("a", func(o *pipeline.Options) { o.Database = db })
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
	if state := s.State(); state.Aside.Reason != pipeline.GoneReason || state.NeedsLoad {
		s.failf("set aside for %q, needs a load: %t", state.Aside.Reason, state.NeedsLoad)
	}
	db.dropped = false
	s.Source.EnableStream(1)
	s.gap(5*time.Minute, "new stream")
	s.until(time.Minute, "readmitted, now that it is there again", func() bool { return s.State().Aside.Reason == "" })
}

// dropping is a database whose table is dropped when it is scanned.
type dropping struct {
	*moody
	drop func()
}

func (d *dropping) Scan(context.Context, string, int, int, cdc.Item, int) (backfill.ScanPage, error) {
	if !d.dropped {
		d.dropped = true
		d.drop()
	}
	return backfill.ScanPage{}, &cdc.Error{Op: "Scan", Reason: cdc.NotFound, Err: errors.New("dropped")}
}

// TestNamedTableIsDroppedAmidItsCopy: nothing is left to copy, and its stream is read all the same.
func TestNamedTableIsDroppedAmidItsCopy(t *testing.T) { play(t, 10, 1, namedTableIsDroppedAmidItsCopy) }

func namedTableIsDroppedAmidItsCopy(s *scene) {
	left := 0
	db := &dropping{moody: &moody{Table: s.Source}, drop: func() {
		s.Source.Stream().Roll(s.only())
		s.put("k", "the last change")
		s.Source.DisableStream()
	}}
	s.Start("a", func(o *pipeline.Options) {
		o.Database = db
		o.Events.KeeperLeft = func(string, error) { left++ }
	})
	s.until(10*time.Minute, "the last change applied", func() bool { return s.row("k") != nil })
	s.sleep(time.Hour)
	if state := s.State(); state.Aside.Reason != pipeline.GoneReason || state.Loaded() || left > 0 {
		s.failf("set aside for %q, loaded: %t; the seat was left %d times", state.Aside.Reason, state.Loaded(), left)
	}
}
