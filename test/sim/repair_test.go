package sim

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// sampling makes a worker compare everything that it has just applied, every minute.
func sampling(m *Migration) func(o *engine.Options) {
	return func(o *engine.Options) {
		o.Rows = model.Target{Bigtable: m.Target}
		t := &o.Tables[0]
		t.Sample, t.SampleEvery, t.Settle = 1, time.Minute, 10*time.Second
	}
}

// TestSampledDifference: a change by another writer to a row that was just applied is found. The
// finding outlives the worker that found it, and only a comparison clears it (I9).
func TestSampledDifference(t *testing.T) {
	play(t, 10, 1, func(s *scene) {
		a := s.Start("a", sampling(s.Migration))
		s.put("k", "v1")
		s.put("other", "v1")
		s.inSync(5 * time.Minute)
		row := s.row("k")
		hurt := row.Clone()
		for i := range hurt.Cols {
			if c := &hurt.Cols[i]; c.Family == "d" {
				c.Cells[0].Value += "hurt"
				break
			}
		}
		undo := s.Target.Hurt("orders", "k#k", hurt)
		s.put("other", "v2")
		s.until(10*time.Minute, "found", func() bool { return s.State().Sampled.Differing == 1 })
		s.stop(a)
		s.Start("b", sampling(s.Migration))
		s.sleep(10 * time.Minute)
		if n := s.State().Sampled.Differing; n != 1 {
			s.failf("%d rows differ after another worker compared", n)
		}
		undo()
		s.until(10*time.Minute, "cleared", func() bool { return s.State().Sampled.Differing == 0 })
		if s.State().Sampled.Compared == 0 {
			s.failf("nothing was compared")
		}
	})
}

// TestH57_RepairsRaceEveryChange: a row is repaired continuously while its item changes. No repair
// sets the row back (I2, I9).
func TestH57_RepairsRaceEveryChange(t *testing.T) {
	play(t, 20, 2, func(s *scene) {
		s.Start("a")
		s.put("k", "v")
		s.inSync(5 * time.Minute)
		ledger, err := s.Ledger(s.ctx)
		if err != nil {
			s.failf("%v", err)
			return
		}
		generation := func() (uint32, error) { return s.State().Generation, nil }
		target := model.Target{Bigtable: s.Target}
		r := &sink.Repairer{Mapping: s.Mapping, Rows: target, Table: target, Prove: fence.NewRegister(ledger).Prove,
			Item: func(ctx context.Context, keys attribute.Item) (attribute.Item, bool, error) {
				item, err := s.Source.Get(ctx, keys)
				return item, item.Exists(), err
			},
			Current:    func(context.Context) (uint32, error) { return generation() },
			Generation: func(context.Context, time.Time) (uint32, error) { return generation() },
		}
		s.Watch = func(table, row string, before, after *model.Row) {
			if table == "orders" && row == "k#k" && heldBy(after, "") <= heldBy(before, "") {
				s.failf("the version falls from %q to %q", heldBy(before, ""), heldBy(after, ""))
			}
		}
		mended := 0
		for i := range 40 {
			if i%5 == 4 {
				s.del("k")
			} else {
				s.put("k", fmt.Sprint("v", i))
			}
			seen := sink.Sighting{Table: "orders", Row: "k#k", Held: transform.Version(heldBy(s.row("k"), ""))}
			outcomes, err := r.RepairSeen(s.ctx, item("k", "k", ""), []sink.Sighting{seen})
			if err != nil {
				s.failf("%v", err)
				return
			}
			if outcomes[0] == sink.Mended {
				mended++
			}
			s.sleep(s.upTo(3 * time.Second))
		}
		if mended == 0 {
			s.failf("nothing was repaired")
		}
		s.inSync(5 * time.Minute)
	})
}
