package verify

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/kit"
	"github.com/dynamodb-bigtable/replicator/transform"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// late lets changes be applied that late from now on.
func (s *scene) late(by time.Duration) {
	s.StopWorker()
	s.Sleep(5 * time.Second)
	ledger := s.Open("late")
	shards, err := ledger.Shards(s.Ctx, "Orders")
	s.Must(err)
	lease, err := ledger.Take(s.Ctx, shards[0], nil)
	s.Must(err)
	s.World.Go("apply late", func(ctx context.Context) {
		for ; lease.Context().Err() == nil; _ = task.Sleep(ctx, 2*time.Second) {
			shard := lease.Shard()
			to := shard.Progress()
			to.AppliedTo, to.ReadAt = s.Now().Add(-by), s.Now()
			s.Must(lease.Commit(ctx, to))
		}
	})
}

// move changes an item all the time. Its row is always one change behind, and its version rises.
func (s *scene) move(pk string) {
	s.World.Go("change "+pk, func(ctx context.Context) {
		for n := 0; ; n++ {
			for _, row := range transform.Load(s.spec.Mapping, []attribute.Item{kit.Item(pk, fmt.Sprint("n=", n))}, 5, s.Now()).Rows {
				request := sink.Guard(row)
				_, err := s.Target.Apply(ctx, &request)
				s.Must(err)
			}
			s.Source.Items["Orders"][pk] = kit.Item(pk, fmt.Sprint("n=", n+1))
			_ = task.Sleep(ctx, 3*time.Second)
		}
	})
}

// lives lets one worker after the other work on the verify. Each is killed after the given time.
func (s *scene) lives(each time.Duration) (kills int) {
	for ; s.Table("Orders").Verify.Running(); kills++ {
		p := s.World.NewProcess(fmt.Sprint("worker ", kills))
		p.Go("verify", func() {
			ledger, err := checkpoint.Open(p.Context(), s.Store, s.Config.Name, checkpoint.Options{Worker: p.Name(), ID: "ledger", Lease: s.Ledger.Lease()})
			s.Must(err)
			o := s.options()
			of := engine.NewWorker(&engine.Options{Ledger: ledger, Floors: &engine.Floors{}, Database: o.Database, Events: o.Events.OrSilent(), Timing: o.Timing.OrDefault(ledger.Lease())},
				func(err error) { s.Must(err) })
			s.Must(NewVerifier(engine.NewTable(of, s.spec), s.Target, func() int { return 1 }, &SumSlots{}).Run(engine.Until(p.Context()), nil))
		})
		s.Sleep(each)
		p.Kill()
		if kills > 100 {
			s.Fatalf("after %d kills the verify still runs", kills)
		}
	}
	return kills
}

// A killed worker costs a verify the page that it read and the end of its lease. It costs neither the
// part, nor the wait of rows for their changes, which may be longer than any worker lives. Nothing is
// counted twice, and nothing is lost.
func TestH56_AKillCostsAPage(t *testing.T) {
	const pages, each, lag, life = 26, 10 * time.Second, time.Minute, 40 * time.Second
	for _, way := range []verify.Way{verify.Quiet, verify.Live} {
		playScene(t, "abcdefghijklmnopqrstuvwxyz", func(s *scene) {
			s.pages.each = each
			s.late(lag)
			s.Damage("orders", "c", "d", "pk", "x")
			s.Damage("orders", "m", "", "", "")
			s.Damage("orders", "zz", "d", "pk", "x")
			s.move("k")
			s.begin(way, verify.Scope{})
			began := s.Now()
			kills := s.lives(life)
			phases := map[verify.Way]time.Duration{verify.Quiet: 2, verify.Live: 1}[way]
			work := phases*pages*each + 2*3*(lag+5*time.Second)
			if took := s.Now().Sub(began); took > work+time.Duration(kills)*(s.Ledger.Lease()+each+3*time.Second) {
				t.Errorf("%s: %s with %d kills, and the work takes %s", way, took, kills, work)
			}
			r := s.Table("Orders").Verify.Result
			if r.Number != 2 || r.Items != pages || r.Compared != pages || r.Rows != pages || s.compared > pages || s.found() != "different c, missing m, foreign zz" {
				t.Errorf("%s: %+v found %s, %d rows are told", way, r, s.found(), s.compared)
			}
			left, err := s.Ledger.VerifyData(s.Ctx, "Orders", 2, "")
			s.Must(err)
			for _, d := range left {
				if !strings.HasPrefix(d.Name, "found/") {
					t.Errorf("%s: %s is left", way, d.Name)
				}
			}
		})
	}
}
