package switchover

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/reverse"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// quietRows is a target whose change stream has one partition, and nothing in it.
type quietRows struct{ reverse.Rows }

func (quietRows) ChangePartitions(context.Context, string) ([]sink.Range, error) {
	return []sink.Range{{}}, nil
}

func (quietRows) ReadChanges(ctx context.Context, _ string, _ sink.Range, _ []sink.ChangePosition, _ time.Time, heartbeat time.Duration, f func(sink.ChangeRecord) error) error {
	for task.Sleep(ctx, heartbeat) == nil {
		if err := f(sink.ChangeRecord{Token: "t", Watermark: task.Now(ctx)}); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// leaders are those of a process, which writes its failures into the list.
func (s *scene) leaders(worker string, failed *[]string) *Leaders {
	return &Leaders{
		Ends:   Ends{Cfg: s.Config, Ledger: s.Open(worker), Source: s.Source, Target: s.Target, Back: Back{Rows: quietRows{}}},
		Failed: func(step, table string, err error) { *failed = append(*failed, step+" of "+table+": "+err.Error()) },
	}
}

// run leads for a while, and then leaves.
func (l *Leaders) leadFor(s *scene, lasts time.Duration) {
	s.Helper()
	staying, leave := context.WithCancel(s.Ctx)
	defer leave()
	s.World.After(lasts, leave)
	s.Must(l.Run(s.Ctx, staying))
}

func (s *scene) fallbackOf(source string) checkpoint.Fallback {
	s.Helper()
	f, _, err := s.Ledger.Fallback(s.Ctx, source)
	s.Must(err)
	return f
}

// A process leads the ways back that need a leader, from the standby on, until each is stopped. When it
// leaves, it releases the leases at once.
func TestLeadersLeadUntilTheEnd(t *testing.T) {
	playScene(t, func(s *scene) {
		var failed []string
		s.follows(func(f *checkpoint.Fallback) {
			*f = checkpoint.Fallback{Source: f.Source, Attempt: 1, State: checkpoint.FallbackStandby, Wait: 8 * time.Minute, From: s.Now()}
		})
		l := s.leaders("one", &failed)
		l.leadFor(s, time.Minute)
		for _, source := range []string{"Orders", "Parts"} {
			f := s.fallbackOf(source)
			lease, err := s.Ledger.CoordinatorLease(s.Ctx, checkpoint.FallbackLease(source))
			if err != nil || f.Leader == "" || f.Settled.IsZero() || s.Now().Sub(f.SavedAt) > 15*time.Second || f.State != checkpoint.FallbackStandby || lease.Owner() != "" {
				t.Errorf("%s is led by %q, settled %v, %s; failed %q", source, f.Leader, f.Settled, f.State, failed)
			}
		}
		first := s.fallbackOf("Orders").Epoch
		s.World.After(30*time.Second, func() {
			_, err := s.Ledger.UpdateFallback(s.Ctx, "Orders", 0, func(f *checkpoint.Fallback) error { f.State = checkpoint.FallbackStopping; return nil })
			s.Must(err)
		})
		s.leaders("two", &failed).leadFor(s, time.Minute)
		if f := s.fallbackOf("Orders"); f.State != checkpoint.FallbackStopped || f.Epoch <= first || len(failed) > 0 {
			t.Errorf("%s by %q; failed %q", f.State, f.Leader, failed)
		}
		last := s.fallbackOf("Orders").Epoch
		s.leaders("three", &failed).leadFor(s, time.Minute)
		if f := s.fallbackOf("Orders"); f.Epoch != last || s.fallbackOf("Parts").Epoch <= last-1 {
			t.Errorf("a stopped way back is led by %q", f.Leader)
		}
	})
}

// A cancelled rollback lets a way back follow again that its leader has stopped. The process leads it
// again.
func TestLeadersComeBack(t *testing.T) {
	playScene(t, func(s *scene) {
		var failed []string
		s.follows(func(f *checkpoint.Fallback) { f.From = s.Now() })
		change := func(after time.Duration, want checkpoint.FallbackState, change func(f *checkpoint.Fallback)) {
			s.World.After(after, func() {
				if f := s.fallbackOf("Orders"); f.State != want {
					t.Errorf("after %s: %s, want %s", after, f.State, want)
				}
				_, err := s.Ledger.UpdateFallback(s.Ctx, "Orders", 0, func(f *checkpoint.Fallback) error { change(f); return nil })
				s.Must(err)
			})
		}
		change(20*time.Second, checkpoint.FallbackFollowing, func(f *checkpoint.Fallback) { f.StopFor(1, 2) })
		change(40*time.Second, checkpoint.FallbackStopped, func(f *checkpoint.Fallback) { f.FollowAfter(1, 2); f.SavedAt = time.Time{} })
		s.leaders("one", &failed).leadFor(s, time.Minute)
		if f := s.fallbackOf("Orders"); f.State != checkpoint.FallbackFollowing || f.SavedAt.IsZero() || len(failed) > 0 {
			t.Errorf("%s, written at %v; failed %q", f.State, f.SavedAt, failed)
		}
	})
}

// A cutover without a way back has no leaders, and what a process cannot lead is reported and tried
// again.
func TestWhatIsNotLed(t *testing.T) {
	playScene(t, func(s *scene) {
		var failed []string
		s.follows(func(f *checkpoint.Fallback) { f.From = s.Now() })
		s.Must(s.Update(func(c *checkpoint.Cutover) error { c.WayBack = false; return nil }))
		s.leaders("one", &failed).leadFor(s, time.Minute)
		if f := s.fallbackOf("Orders"); f.Leader != "" || len(failed) > 0 {
			t.Errorf("led by %q; failed %q", f.Leader, failed)
		}
		s.Must(s.Update(func(c *checkpoint.Cutover) error { c.WayBack = true; return nil }))
		hash := s.Table("Orders").MappingHash
		s.Change("Orders", func(state *checkpoint.TableState) { state.MappingHash = "another" })
		s.World.After(20*time.Second, func() {
			if f := s.fallbackOf("Orders"); f.Leader != "" {
				t.Errorf("led by %q under another mapping", f.Leader)
			}
			s.Change("Orders", func(state *checkpoint.TableState) { state.MappingHash = hash })
		})
		s.leaders("one", &failed).leadFor(s, time.Minute)
		if f := s.fallbackOf("Orders"); f.Leader == "" || len(failed) < 2 || !strings.HasPrefix(failed[0], "lead the way back of Orders: "+checkpoint.ErrMappingChanged.Error()) {
			t.Errorf("led by %q; failed %q", f.Leader, failed)
		}
		if _, err := s.leaders("one", &failed).inverse(s.Ctx, "Users"); err == nil || !strings.Contains(err.Error(), "not in the configuration") {
			t.Errorf("another table: %v", err)
		}
	})
}

// A leader writes only after the switch of its own cutover, and not after the way back has ended or a
// rollback has switched.
func TestWhenALeaderMayWrite(t *testing.T) {
	playScene(t, func(s *scene) {
		s.follows(ready)
		leader, err := s.leaders("one", &[]string{}).leader(s.Ctx, "", "Orders")
		s.Must(err)
		if leader.Source != "Orders" || leader.Table != "orders" || leader.Stream == nil {
			t.Errorf("%+v", leader)
		}
		for name, c := range map[string]struct {
			change  func(c *checkpoint.Cutover)
			attempt uint32
			want    bool
		}{
			"watching":        {func(*checkpoint.Cutover) {}, 1, true},
			"another attempt": {func(*checkpoint.Cutover) {}, 2, false},
			"switching":       {func(c *checkpoint.Cutover) { c.Step = checkpoint.CutoverSwitching }, 1, false},
			"rolled back":     {func(c *checkpoint.Cutover) { c.Step = checkpoint.CutoverRolledBack }, 1, false},
			"ended":           {func(c *checkpoint.Cutover) { c.FallbackEndedAt = s.Now() }, 1, false},
			"rolling back":    {func(c *checkpoint.Cutover) { s.Must(c.StartRollback(checkpoint.CutoverPlan{}, s.Now())) }, 1, true},
		} {
			before := s.Cutover()
			s.Must(s.Update(func(now *checkpoint.Cutover) error { c.change(now); return nil }))
			if may, err := leader.MayWrite(s.Ctx, c.attempt); may != c.want || err != nil {
				t.Errorf("%s: %t, %v", name, may, err)
			}
			s.Must(s.Update(func(now *checkpoint.Cutover) error {
				now.Step, now.FallbackEndedAt, now.Rollback = before.Step, before.FallbackEndedAt, before.Rollback
				return nil
			}))
		}
		away := errors.New("away")
		s.Source.Fail = func(string) error { return away }
		if err := leader.Hear(s.Ctx); !errors.Is(err, away) {
			t.Errorf("%v", err)
		}
	})
}
