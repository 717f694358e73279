package loads

import (
	"reflect"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
)

// Only current reports of workers show why a load is slow. A worker that has written nothing for
// three leases does not count, nor does a part without a holder.
func TestWhatSlowsALoad(t *testing.T) {
	copying := checkpoint.TableState{Source: "Orders", Generation: 7, Adopted: 7, Load: checkpoint.Load{Generation: 7, Number: 1, Parts: 2, StartedAt: noon.Add(-time.Hour)}}
	part := func(silent time.Duration, owner, cause string) checkpoint.Part {
		p := checkpoint.Part{Generation: 7, Number: 1, Total: 2, Begun: noon.Add(-time.Hour)}
		p.WrittenAt, p.Owner, p.Trouble.Cause = noon.Add(-silent), owner, cause
		return p
	}
	for name, c := range map[string]struct {
		part   checkpoint.Part
		slowed []string
		live   bool
	}{
		"held":         {part(time.Second, "w", "target CPU"), []string{"target CPU"}, true},
		"well":         {part(time.Second, "w", ""), nil, true},
		"three leases": {part(3*testLease, "w", "target CPU"), []string{"target CPU"}, true},
		"silent": {part(3*testLease+time.Second, "w", "target CPU"),
			[]string{"no worker or job works on 2 parts; last trouble: target CPU; start a worker, or submit the job again"}, false},
		"left":           {part(3*testLease+time.Second, "", ""), []string{"no worker or job works on 2 parts; start a worker, or submit the job again"}, false},
		"held by nobody": {part(time.Second, "", "target CPU"), nil, true},
	} {
		p := ProgressOf(copying, []checkpoint.Part{c.part}, noon, testLease)
		if !reflect.DeepEqual(p.Slowed, c.slowed) || p.RateKnown != c.live {
			t.Errorf("%s: %+v", name, p)
		}
	}
	both := []checkpoint.Part{part(0, "v", "b"), part(0, "w", "a"), part(0, "x", "b")}
	if p := ProgressOf(copying, both, noon, testLease); !reflect.DeepEqual(p.Slowed, []string{"a", "b"}) {
		t.Errorf("%v", p.Slowed)
	}
	copying.Load.Paused = checkpoint.PausedForHeadroom
	if p := ProgressOf(copying, both[:1], noon, testLease); p.RateKnown || p.ETAKnown || len(p.Slowed) != 2 {
		t.Errorf("%+v", p)
	}
}

// The counts of a sweep add its earlier passes and the running one. A pause for the next load is
// not shown for the finished one.
func TestCountsOfASweep(t *testing.T) {
	s := checkpoint.Sweep{Pass: 2, Parts: 1, BegunAt: noon, Counts: checkpoint.Counts{Seen: 9, Put: 3, Removed: 2, Unexplained: 1}}
	var p Progress
	p.Counts = checkpoint.Counts{Seen: 5, Put: 10, Removed: 20, Unexplained: 4}
	if got := sweepOf(s, p); *got.Pass != 2 || got.Seen != 5 || got.Put != 13 || got.Removed != 22 || got.Unexplained != 4 {
		t.Errorf("%+v", got)
	}
	s.Parts, s.BegunAt = 0, time.Time{}
	if got := sweepOf(s, p); got.Pass != nil || got.Seen != 9 || got.Put != 3 || got.Removed != 2 || got.Unexplained != 1 || got.BegunAt != nil {
		t.Errorf("%+v", got)
	}
	in := &Input{Cfg: &config.Config{State: config.State{Lease: testLease}}, Tables: []TableInput{{Found: true, State: checkpoint.TableState{Source: "Orders", Generation: 7, Adopted: 7, Base: 7,
		Load: checkpoint.Load{Generation: 7, Number: 1, Parts: 4, Items: 10, Estimate: 12, Units: 2, DoneAt: noon, SweptAt: noon, Paused: checkpoint.PausedByOperator}}}}}
	table := in.judge(cost.Default(), "", noon).Tables[0]
	if table.State != standing.LoadDone || table.Paused != nil || table.Load.Items != 10 || *table.Load.Estimate != 12 || table.Load.ReadUnits != 2 {
		t.Errorf("%+v, %+v", table, table.Load)
	}
	in.Tables[0].State.Load.SweptAt, in.Tables[0].State.Base = time.Time{}, 0
	if table := in.judge(cost.Default(), "", noon).Tables[0]; table.State != standing.LoadSweeping || table.Paused == nil {
		t.Errorf("%+v", table)
	}
}

// Flags of throttle are parsed to a thousandth of a percent. No value removes a limit by accident,
// and none leaves it unchanged.
func TestLimitsOfFlags(t *testing.T) {
	configured := config.Backfill{MaxRowsPerSecond: 5000, MaxReadCapacity: "25%", PauseAboveTargetCPU: "70%"}
	for _, c := range []struct {
		asked Asked
		want  string
	}{
		{Asked{}, "limits (set at 2026-11-24T12:00:00Z): 5000 rows a second in each process; 25% of the provisioned read capacity; waits while the target's CPU is above 70%"},
		{Asked{MaxRowsPerSecond: "1", MaxReadCapacity: "12.345%", PauseAboveTargetCPU: "99%"},
			"limits (set at 2026-11-24T12:00:00Z): 1 rows a second in each process; 12.345% of the provisioned read capacity; waits while the target's CPU is above 99%"},
		{Asked{MaxReadCapacity: "40.5"}, "limits (set at 2026-11-24T12:00:00Z): 5000 rows a second in each process; 40.5 read units a second; waits while the target's CPU is above 70%"},
		{Asked{MaxRowsPerSecond: "none", MaxReadCapacity: "none", PauseAboveTargetCPU: "none"}, ""},
	} {
		limits, err := c.asked.Limits()
		if err != nil {
			t.Fatal(err)
		}
		limits.ChangedAt = noon
		if got := limitsOf(configured, checkpoint.TableState{Limits: limits}).String(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.asked, got, c.want)
		}
	}
	for _, a := range []Asked{{MaxReadCapacity: "x"}, {PauseAboveTargetCPU: "101%"}} {
		if _, err := a.Limits(); !diag.Has(err, diag.Usage) {
			t.Errorf("%+v: %v", a, err)
		}
	}
}
