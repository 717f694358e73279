package comparison

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/repair"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/kit"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// witnessed returns a store of witnesses in which another ledger writes rows of a source table.
func (s *scene) witnessed(source string) *checkpointtest.Memory {
	s.Helper()
	store := &checkpointtest.Memory{}
	other, err := checkpoint.Open(s.Ctx, &checkpointtest.Memory{}, "two", checkpoint.Options{Worker: "v", ID: "other"})
	s.Must(err)
	_, _, err = other.Beat(s.Ctx, source, checkpoint.Place{Store: store, Key: transform.WitnessKeyOf(source)})
	s.Must(err)
	return store
}

// A repair removes an extra row that this migration wrote. It removes other rows only where that is
// allowed, and says how many. Beside another migration no extra row is removed, because it may be
// that one's; other rows are repaired.
func TestWhichExtraRowsARepairRemoves(t *testing.T) {
	written := func(s *scene) { delete(s.Source.Items["Orders"], "c") }
	bare := func(s *scene) {
		s.Change("Orders", func(state *checkpoint.TableState) { state.MadeByUs = true })
		s.Damage("orders", "z", "d", "total", "x")
	}
	another := func(s *scene) { // a row of a generation that this migration never had
		s.Damage("orders", "z", "d", "total", "x")
		s.Damage("orders", "z", sink.LiveFamily, sink.VersionColumn, string(transform.LoadVersion(1, s.Now())))
	}
	for name, c := range map[string]struct {
		damage   func(s *scene)
		foreign  bool   // --remove-foreign
		shared   bool   // target.shared
		other    string // the source table of another ledger's witness
		repaired int
		warned   bool
		code     string
	}{
		"written by this migration": {damage: written, repaired: 1},
		"without a version":         {damage: bare, code: diag.RowsDiffer},
		"without one, allowed":      {damage: bare, foreign: true, repaired: 1, warned: true},
		"of another generation":     {damage: another, code: diag.RowsDiffer},
		"of another one, allowed":   {damage: another, foreign: true, repaired: 1, warned: true},
		"written, and allowed":      {damage: written, foreign: true, repaired: 1},
		"beside another migration": {damage: func(s *scene) { written(s); s.Damage("orders", "d", "d", "total", "x") },
			foreign: true, other: "Returns", repaired: 1, code: diag.TargetTaken},
		"in a shared target":           {damage: written, other: "Returns", shared: true, repaired: 1},
		"another table of this config": {damage: written, other: "Parts", repaired: 1},
		"no extra row, beside another": {damage: func(s *scene) { s.Damage("orders", "d", "d", "total", "x") }, other: "Returns", repaired: 1},
	} {
		playScene(t, func(s *scene) {
			c.damage(s)
			s.Config.Target.Shared = c.shared
			store := &checkpointtest.Memory{}
			if c.other != "" {
				store = s.witnessed(c.other)
			}
			o := s.operator(func(o *Operator) {
				o.Repair, o.RemoveForeign = true, c.foreign
				o.reach = func(*desk.Migration) ends {
					return ends{source: s.Source, target: s.Target, repair: s.Target, witness: func(string) checkpoint.Store { return store }}
				}
			})
			err := o.Begin(s.Ctx)
			if d := o.tables[0].repaired; d == nil || d.Repaired != c.repaired || (err != nil) != (c.code != "") || c.code != "" && !diag.Has(err, c.code) {
				t.Errorf("%s: %v, %+v", name, err, d)
			}
			if warned := strings.Contains(s.stderr.String(), "removing 1 extra row without proof"); warned != c.warned {
				t.Errorf("%s: %s", name, &s.stderr)
			}
		})
	}
}

// A repair fixes what its own comparison found. If that comparison ends without a result, the
// findings of an earlier one are left as they are.
func TestARepairNeedsItsOwnComparison(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Damage("orders", "c", "d", "total", "x")
		if _, code := s.begin(nil); code != diag.RowsDiffer {
			t.Fatalf("%q", code)
		}
		s.World.Go("cancel", func(ctx context.Context) {
			for s.Table("Orders").Verify.Number < 2 {
				s.Sleep(time.Millisecond)
			}
			_, err := s.Ledger.CancelVerify(ctx, "Orders")
			s.Must(err)
		})
		o := s.operator(func(o *Operator) { o.Repair = true })
		if err := o.Begin(s.Ctx); !diag.Has(err, diag.VerifyWaits) || o.tables[0].repaired != nil {
			t.Errorf("%v, %+v", err, o.tables[0].repaired)
		}
	})
}

// Rows in flight are not repaired: their changes are on the way.
func TestARepairLeavesRowsInFlight(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Sleep(time.Minute)
		s.StopWorker()
		s.Sleep(10 * time.Minute)
		s.Must(s.Source.Put(s.Ctx, "Orders", kit.Item("d", "total=new")))
		s.Damage("orders", "c", "", "", "")
		o := s.operator(func(o *Operator) {
			o.Repair = true
			o.reach = func(*desk.Migration) ends {
				return ends{source: s.Source, target: s.Target, repair: s.Target, stream: s.Source.Open}
			}
		})
		if err := o.Begin(s.Ctx); !diag.Has(err, diag.RowsDiffer) || o.tables[0].repaired == nil || o.tables[0].repaired.Findings != 1 {
			t.Errorf("%v, %+v", err, o.tables[0].repaired)
		}
	})
}

// What follows differences depends on who writes the rows. In mode topic the appliers do, so no row
// is repaired by itself. After the application has left the source nothing follows.
func TestWhatFollowsDifferences(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Damage("orders", "c", "d", "total", "x")
		if _, code := s.begin(nil); code != diag.RowsDiffer {
			t.Fatalf("%q", code)
		}
		for mode, want := range map[checkpoint.Mode]string{checkpoint.Direct: "replicator verify --repair --dry-run --table Orders -c f", checkpoint.Topic: "replicator backfill redo --table Orders -c f"} {
			o := s.operator(nil)
			s.Must(o.open(s.Ctx, "verify status"))
			o.tables[0].state.Apply = mode
			if d := o.judge(s.Now()); len(d.NextSteps) != 1 || d.NextSteps[0].Command != want || !strings.Contains(d.NextSteps[0].Why, "Orders") {
				t.Errorf("%s: %+v", mode, d.NextSteps)
			}
			s.Must(o.migration.Close())
		}
		s.Must(s.Update(func(c *checkpoint.Cutover) error { c.Attempt, c.Step = 1, checkpoint.CutoverWatching; return nil }))
		o := s.operator(nil)
		s.Must(o.open(s.Ctx, "verify status"))
		if d := o.judge(s.Now()); len(d.NextSteps) > 0 {
			t.Errorf("after the switch: %+v", d.NextSteps)
		}
		s.Must(o.migration.Close())
	})
}

// A verdict is about the last verify: an older result says nothing of one that was cancelled.
// Findings that cannot be read are not repaired, and count as left.
func TestWhatAVerdictIsAbout(t *testing.T) {
	dirty := ended(func(r *checkpoint.VerifyResult) { r.Missing = 1 })
	for name, c := range map[string]struct {
		verify checkpoint.Verify
		unread int
		fixed  *repair.Document
		what   string
	}{
		"the last":              {checkpoint.Verify{Number: 1, Result: dirty}, 0, nil, "1 row of table Orders differs"},
		"cancelled":             {checkpoint.Verify{Number: 2, Result: dirty}, 0, nil, ""},
		"running":               {checkpoint.Verify{Number: 1, Phase: 1, Parts: 1, Result: dirty}, 0, nil, ""},
		"repaired, some unread": {checkpoint.Verify{Number: 1, Result: dirty}, 2, &repair.Document{Table: "Orders", Repaired: 1}, "2 rows of table Orders were not repaired"},
	} {
		o := &Operator{Console: &terminal.Console{}, tables: []table{{state: checkpoint.TableState{Verify: c.verify}, unread: c.unread, repaired: c.fixed}}}
		o.tables[0].config.From = "Orders"
		if err := o.verdict(); (err == nil) != (c.what == "") || err != nil && !strings.Contains(err.Error(), c.what) {
			t.Errorf("%s: %v", name, err)
		}
	}
	p := progressOf(checkpoint.TableState{Verify: checkpoint.Verify{Number: 1, Phase: 1, Parts: 2}}, []checkpoint.Part{{Index: 0, Total: 2, State: checkpoint.PartDone}}, cost.Default(), noon)
	if p.ETASeconds != nil || p.BegunAt != nil {
		t.Errorf("nobody knows when its parts were begun: %+v", p)
	}
}
