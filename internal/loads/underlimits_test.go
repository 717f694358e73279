package loads

import (
	"errors"
	"testing"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/cost"
)

// An estimate is made under an operator's limits, before those of the configuration.
func TestAnEstimateUnderAnOperatorsLimits(t *testing.T) {
	rows := func(n float64) *float64 { return &n }
	for name, c := range map[string]struct {
		operator *float64
		seconds  float64
	}{"configured": {nil, 100}, "an operator's": {rows(50), 200}, "an operator's is higher": {rows(200), 50}} {
		in := &Input{Cfg: &config.Config{Backfill: config.Backfill{MaxRowsPerSecond: 100}}}
		e := in.estimate(backfill.Description{Items: 10_000, Bytes: 1 << 20}, cost.Default(), Request{}, TableInput{State: checkpoint.TableState{Limits: checkpoint.Limits{RowsPerSecond: c.operator}}})
		if e.Seconds == nil || *e.Seconds != c.seconds {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// A cancelled load leads to a start, unless the table is whole without it.
func TestWhatFollowsACancel(t *testing.T) {
	for base, want := range map[uint32]string{0: "backfill start --table TABLE", 7: ""} {
		s := checkpoint.TableState{Source: "Orders", Generation: 7, Adopted: 7, Base: base, Load: checkpoint.Load{CancelledAt: noon}}
		if command, why := next(s, false); command != want {
			t.Errorf("base %d: %q, %s", base, command, why)
		}
	}
}

// Once the application has left the source no command follows.
func TestNothingFollowsASwitch(t *testing.T) {
	for _, left := range []error{nil, errors.New("left")} {
		in := &Input{Cfg: &config.Config{}, ledger: &checkpoint.Ledger{}, left: left, Tables: []TableInput{{Found: true, State: checkpoint.TableState{Source: "Orders", Generation: 7, NeedsLoad: true, Reason: "lost"}}}}
		if d := in.judge(cost.Default(), "", noon); (len(d.NextSteps) == 0) != (left != nil) || len(d.Tables) != 1 {
			t.Errorf("%v: %+v", left, d.NextSteps)
		}
	}
}
