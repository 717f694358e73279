package sim

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// What a checker holds against somebody who could not know, or could not be asked.

// A worker that is told of another cluster knows that it is another when it has read the ledger. One that reads it, and goes on, is seen (H46).
func TestToldOfAnotherClusterWithoutTheLedger(t *testing.T) {
	for name, c := range map[string]struct {
		unread, heeds bool // the ledger cannot be read for an hour; the worker asks for the cluster
		want          string
	}{
		"the ledger cannot be read": {true, true, ""},
		"it does not heed it":       {false, false, "I6: worker1 goes on in another cluster"},
	} {
		var failures []string
		for seed := uint64(1); seed <= 24; seed++ {
			p := calmPlan(seed)
			p.clustered = c.heeds
			failures = append(failures, played(p, func(s *simulation, ctx context.Context) {
				if task.Sleep(ctx, 2*time.Hour+time.Duration(seed)*time.Minute) != nil {
					return
				}
				now := s.World.Elapsed()
				if c.unread {
					s.oneCall = failingCall{op: "ReadRows", table: stateTable, until: now + time.Hour, target: sink.Unknown}
					s.elsewhere = now + 2*time.Hour
					s.healthy = max(s.healthy, s.elsewhere)
				}
				if !c.heeds {
					s.truth.told["worker1"] = now
				}
			})...)
			if !c.heeds {
				break
			}
		}
		t.Run(name, func(t *testing.T) { expect(t, failures, c.want) })
	}
}

// Who is told of another cluster may wait long for the ledger, and once more, before it knows.
func TestToldOfAnotherClusterInSilence(t *testing.T) {
	var failures []string
	for seed := uint64(1); seed <= 24; seed++ {
		p := calmPlan(seed)
		p.clustered = true
		failures = append(failures, played(p, func(s *simulation, ctx context.Context) {
			if task.Sleep(ctx, 2*time.Hour+time.Duration(seed)*time.Minute) != nil {
				return
			}
			s.Target.LateBy = time.Second
			s.elsewhere = s.World.Elapsed() + 2*time.Hour
			s.healthy = max(s.healthy, s.elsewhere)
			const step = "ask for the cluster of the target"
			silent, before := 0, s.Retries[step]
			s.Target.Fault = func(op, table, row string) error {
				s.Target.Silent = 0
				if op == "ReadRows" && table == stateTable && s.truth.told["worker1"] > 0 && silent < 2 && s.Retries[step] == before+silent {
					s.Target.Silent, silent = 1, silent+1
				}
				return s.targetFault(op, table, row)
			}
		})...)
	}
	expect(t, failures, "")
}

// An item is parked by the request of a worker that is gone, after a later change of it was read by another: nobody counts it, and nobody forgets it, for
// no row tells that it is obsolete. Of one that is parked in its turn all that come after it are counted.
func TestAnItemThatIsParkedTooLate(t *testing.T) {
	for _, late := range []bool{true, false} {
		failures := judge(oneShard("value", "pk", "sk"), func(s *judged) {
			lot := sink.NewParking(Target{s.Target}, "default")
			check := func(err error) {
				if err != nil {
					s.failf("%v", err)
				}
			}
			s.putWith("1", "n", "it has no row")
			first := s.fold(s.last()).Parked[0]
			s.putWith("2", "n", "it has no row")
			check(lot.Park(s.ctx, s.fold(s.last()).Parked[0]))
			if !late {
				check(lot.Park(s.ctx, first))
			}
			s.del("1")
			next := s.fold(s.last()).Astray[0]
			stream := s.Source.Stream()
			at, err := stream.Seek(s.ctx, s.only().ID, cdc.Position{})
			check(err)
			_, err = stream.Read(s.ctx, at)
			check(err)
			if late {
				check(lot.Supersede(s.ctx, first.Source, next.Item, next.Version))
				check(lot.Park(s.ctx, first))
			}
			s.checkLimit()
		})
		expect(t, failures, map[bool]string{false: "I5: 2 items are parked"}[late])
	}
}

// A dry run is told of the stream as it is: a description of before a stream took the place of another is no fault of it. What it finds is compared.
func TestADryRunJustAfterANewStream(t *testing.T) {
	for _, wrong := range []bool{false, true} {
		var failures []string
		for seed := uint64(1); seed <= 8; seed++ {
			s := newSimulation(calmPlan(seed), SimOptions{})
			err := s.World.Run(300*time.Hour, func(ctx context.Context) {
				s.ctx = ctx
				s.fill()
				for range 20 {
					s.write()
				}
				s.Source.DescribeLate = 1
				s.Source.EnableStream(1)
				s.Source.staleUntil = s.World.Now().Add(9 * time.Minute)
				if wrong {
					s.truth.layout = nothing{}
				}
				s.rehearse()
			})
			if err != nil {
				failures = append(failures, fmt.Sprint(err))
			}
			failures = append(failures, s.report().Failures...)
		}
		expect(t, failures, map[bool]string{true: "I9: a dry run finds"}[wrong])
	}
}

// nothing is a layout by which no item has a row.
type nothing struct{}

func (nothing) place(attribute.Item) placement { return placement{} }
