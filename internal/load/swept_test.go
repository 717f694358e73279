package load

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// A worker whose clock is an hour ahead begins with a sweep. Its writes have the source's time:
// otherwise rows from the future would refuse a load that is requested within that hour.
func TestASweepIsDatedByTheSource(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		s.inherited(ctx, "gone")
		s.sealed(ctx, 1)
		s.finish(ctx, checkpoint.PartProgress{})
		s.change(ctx, func(state *checkpoint.TableState) {
			state.Load.DoneAt = task.Now(ctx)
			state.Load.Sweep = checkpoint.Sweep{Pass: 1, Parts: 1, Approved: true, Ranges: []checkpoint.SweepRange{{Table: "orders"}}}
		})
		fresh, err := checkpoint.Open(ctx, s.store, "load", checkpoint.Options{Worker: "ahead", ID: "l"})
		s.check(err)
		s.Ledger, s.shop.behind = fresh, time.Hour
		s.Reset()
		s.check(s.work(ctx, time.Minute, false))
		now := task.Now(ctx).Add(-time.Hour).Unix()
		var gone []int64
		s.check(s.target.ReadRows(ctx, "orders", sink.Range{}, func(r sink.Row) error {
			var second int64
			_, err := fmt.Sscan(strings.TrimLeft(strings.Split(string(r.Gone), ".")[2], "0"), &second)
			gone = append(gone, second)
			return err
		}))
		if len(gone) != 1 || gone[0] > now || gone[0] < now-120 {
			t.Errorf("removed at %d, and the source's clock is at %d", gone, now)
		}
	})
}

// If the application writes the target too, rows without a version are checked a second time, once
// everything before the first check is applied. They need no further pass.
func TestASweepUnderDualWritesLooksTwice(t *testing.T) {
	for late, want := range map[time.Duration]checkpoint.Counts{
		0:           {Seen: 1, Removed: 1},
		time.Second: {Seen: 1, Removed: 1, Bare: 1},
	} {
		loads(t, func(ctx context.Context, s *loadScene) {
			bare := sink.Request{Table: "orders", Row: "gone", Refuse: sink.Predicate{Families: []string{sink.LiveFamily}, Qualifier: "none", AtLeast: "x"},
				Ops: []sink.Op{{Kind: sink.SetCell, Family: "d", Qualifier: "x", Value: []byte("y")}}}
			_, err := s.target.Apply(ctx, &bare)
			s.check(err)
			s.sealed(ctx, 1)
			s.finish(ctx, checkpoint.PartProgress{})
			s.Spec.Late = late
			s.change(ctx, func(state *checkpoint.TableState) {
				state.Load.DoneAt, state.MadeByUs = task.Now(ctx), true
				state.Load.Sweep = checkpoint.Sweep{Pass: 1, Parts: 1, Approved: true, Ranges: []checkpoint.SweepRange{{Table: "orders"}}}
			})
			s.Reset()
			done := func(within time.Duration) bool {
				s.check(s.work(ctx, within, false))
				parts, err := s.Ledger.Parts(ctx, s.state(ctx), checkpoint.PhaseSweep(1))
				s.check(err)
				over := parts[0].State == checkpoint.PartDone
				if over && parts[0].Counts != want {
					t.Errorf("late by %s: %+v", late, parts[0].Counts)
				}
				return over
			}
			if over := done(time.Minute); over != (late == 0) {
				t.Errorf("late by %s: over %t while nothing says how far the stream is applied", late, over)
			}
			if late == 0 {
				return
			}
			// No more changes come.
			s.change(ctx, func(state *checkpoint.TableState) { state.StreamEnded = true })
			if !done(time.Minute) {
				t.Error("it does not end")
			}
		})
	}
}
