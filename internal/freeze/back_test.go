package freeze

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// playBack plays a script with a scene whose application has switched, whose policies deny writes, and
// whose leaders follow for longer than W.
func playBack(t *testing.T, script func(s *scene)) {
	t.Helper()
	playScene(t, func(s *scene) {
		s.driver.WayBack = func(context.Context, string) (cutover.WayBack, error) {
			return cutover.WayBack{Window: time.Minute, Wait: wait, From: s.Now()}, nil
		}
		s.lead()
		p := plan()
		p.KeepFallback, p.PolicyWait = true, 0
		s.start(p)
		c := s.drive(s.driver, time.Hour, settled)
		s.driveFor(s.driver, 2*wait)
		if c.Step != checkpoint.CutoverWatching || c.PolicyWait != wait || !s.denies() || s.following() != 2 {
			t.Fatalf("%s because of %q: %d tables follow", c.Step, c.Reason, s.following())
		}
		s.calls = nil
		script(s)
	})
}

func (s *scene) driveFor(d *cutover.Driver, lasts time.Duration) {
	s.Helper()
	s.drive(d, lasts, func(checkpoint.Cutover) bool { return false })
}

// lead does what the records of the ways back ask of leaders.
func (s *scene) lead() {
	s.World.Go("lead", func(ctx context.Context) {
		for ; ctx.Err() == nil; _ = task.Sleep(ctx, time.Second) {
			for source := range s.service {
				f, found, err := s.Ledger.Fallback(ctx, source)
				if err != nil || !found || f.State == checkpoint.FallbackStopped {
					continue
				}
				_, _ = s.Ledger.UpdateFallback(ctx, source, 1, func(f *checkpoint.Fallback) error {
					if f.Led.IsZero() {
						f.Led = s.Now()
					}
					f.SavedAt, f.Settled = s.Now(), s.Now()
					if f.State == checkpoint.FallbackStopping {
						f.State, f.Led = checkpoint.FallbackStopped, time.Time{}
					}
					return nil
				})
			}
		}
	})
}

// following is the number of tables whose leaders follow.
func (s *scene) following() (n int) {
	for source := range s.service {
		f, _, err := s.Ledger.Fallback(s.Ctx, source)
		s.Must(err)
		if f.State == checkpoint.FallbackFollowing {
			n++
		}
	}
	return n
}

func (s *scene) request() {
	s.Helper()
	p := checkpoint.CutoverPlan{FreezeWithin: time.Minute, FreezeDeadline: 10 * time.Minute}
	s.Must(s.Update(func(c *checkpoint.Cutover) error { return c.StartRollback(p, s.Now()) }))
}

// undo drives a rollback until it needs no driver.
func (s *scene) undo() (r, c checkpoint.Cutover) {
	s.Helper()
	s.request()
	return s.finish(s.driver)
}

func (s *scene) finish(d *cutover.Driver) (r, c checkpoint.Cutover) {
	s.Helper()
	s.drive(d, time.Hour, func(checkpoint.Cutover) bool { c := s.Cutover(); return !c.RollingBack() })
	c = s.Cutover()
	return c.Undo(), c
}

func noted(c checkpoint.Cutover, text string) bool {
	return slices.ContainsFunc(c.Timeline, func(e checkpoint.CutoverEvent) bool { return strings.Contains(e.Text, text) })
}

// sids are the attempts whose statements the policies have.
func (s *scene) sids() string {
	var sids []string
	for _, source := range []string{"Orders", "Parts"} {
		text := s.service[source].text
		if i := strings.Index(text, "ReplicatorFreeze"); i >= 0 {
			sid := text[i:]
			text = sid[:strings.IndexByte(sid, '"')]
		}
		sids = append(sids, text)
	}
	return strings.Join(sids, " ")
}

// The policies deny writes until the leaders have stopped. The application is moved back once writes
// were let through for a minute.
func TestARollbackOpensThePolicies(t *testing.T) {
	playBack(t, func(s *scene) {
		var opened time.Time
		s.World.Go("look", func(ctx context.Context) {
			for s.denies() {
				_ = task.Sleep(ctx, 100*time.Millisecond)
			}
			if opened = s.Now(); s.following() != 0 {
				t.Errorf("%d tables follow when the policies are opened", s.following())
			}
		})
		r, c := s.undo()
		if r.Step != checkpoint.CutoverDone || c.Step != checkpoint.CutoverRolledBack || fmt.Sprint(s.calls) != "[freeze_writes switch]" || s.frozen[cutover.Switch] || !s.frozen[cutover.FreezeWrites] || !r.Denial.Opened {
			t.Fatalf("%s because of %q: calls %v, failed %q", r.Step, r.Reason, s.calls, s.failed)
		}
		if rest := r.Hooks[1].Began.Sub(opened); rest < time.Minute {
			t.Errorf("the switch was called %s after the policies were opened", rest)
		}
		s.driveFor(s.driver, 2*wait)
		if c := s.Cutover(); !s.clean() || c.Denial.Left {
			t.Errorf("a policy may still deny writes: %+v", c.Denial)
		}
	})
}

// A rollback that is cancelled after the policies were opened closes them again with new statements.
// They are in force before a leader follows, and before the application may write.
func TestACancelledRollbackDeniesAgain(t *testing.T) {
	playBack(t, func(s *scene) {
		first := s.sids()
		s.refuses = true
		s.World.Go("look", func(ctx context.Context) {
			for stopped := false; ctx.Err() == nil; _ = task.Sleep(ctx, 100*time.Millisecond) {
				following := s.following()
				if stopped = stopped || following == 0; stopped && following > 0 {
					if !s.denies() {
						t.Error("a leader follows while the policies let writes through")
					}
					return
				}
			}
		})
		r, c := s.undo()
		if r.Step != checkpoint.CutoverCancelled || c.Step != checkpoint.CutoverWatching || fmt.Sprint(s.calls) != "[freeze_writes switch unfreeze_writes]" || s.frozen[cutover.Switch] || !s.frozen[cutover.UnfreezeWrites] {
			t.Fatalf("%s because of %q: calls %v, frozen %v, failed %q", r.Step, r.Reason, s.calls, s.frozen, s.failed)
		}
		second := s.sids()
		if second == first || !s.denies() || s.following() != 2 || c.Denial.Again != 2 || !c.Denial.Left || noted(r, "not denied again") {
			t.Errorf("statements %q, then %q; %+v", first, second, c.Denial)
		}
		// The next rollback takes the new statements out, and so does the end of the way back.
		s.refuses = false
		s.driveFor(s.driver, 2*wait)
		if s.sids() != second {
			t.Errorf("statements %q, then %q", second, s.sids())
		}
		s.calls = nil
		if r, _ = s.undo(); r.Step != checkpoint.CutoverDone || s.frozen[cutover.Switch] || fmt.Sprint(s.calls) != "[freeze_writes switch]" {
			t.Errorf("%s because of %q: calls %v, failed %q", r.Step, r.Reason, s.calls, s.failed)
		}
		s.driveFor(s.driver, 2*wait)
		if c := s.Cutover(); !s.clean() || c.Denial.Left {
			t.Errorf("a policy may still deny writes: %+v", c.Denial)
		}
	})
}

// A rollback that is cancelled before the goodbye leaves the policies alone.
func TestAnEarlyCancelLeavesThePolicies(t *testing.T) {
	playBack(t, func(s *scene) {
		first, puts := s.sids(), s.service["Orders"].puts
		s.reversed.Different = 1
		r, c := s.undo()
		if r.Step != checkpoint.CutoverCancelled || s.sids() != first || s.service["Orders"].puts != puts || c.Denial.Again != 0 || r.Denial.Opened || s.following() != 2 {
			t.Errorf("%s because of %q: %d changes of the policy; %+v", r.Step, r.Reason, s.service["Orders"].puts-puts, c.Denial)
		}
	})
}

// Writes are denied again once, however long the application does not answer then.
func TestWritesAreDeniedAgainOnce(t *testing.T) {
	playBack(t, func(s *scene) {
		s.refuses = true
		answers := s.Now().Add(20 * time.Minute)
		s.silent = func(call cutover.Call) bool { return call.Hook == cutover.UnfreezeWrites && s.Now().Before(answers) }
		r, c := s.undo()
		if r.Step != checkpoint.CutoverCancelled || r.UnfrozenAt.Before(answers) || noted(r, "not denied again") || !s.denies() || c.Denial.Again != 2 {
			t.Errorf("%s because of %q: %+v", r.Step, r.Reason, r.Timeline)
		}
	})
}

// If writes cannot be denied again, the record says so. The leaders follow, and the application
// writes.
func TestWritesThatAreNotDeniedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		change func(parts *service)
		note   string
		within time.Duration
	}{
		"refused":        {func(parts *service) { parts.rejects = "it is too large" }, "writes to the tables are not denied again: table Parts: change the resource policy of Parts: it is too large", 3 * time.Minute},
		"never in force": {func(parts *service) { parts.open = true }, "writes to the tables are not denied again: it takes too long", 6 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			playBack(t, func(s *scene) {
				s.refuses = true
				s.hooked = func(call cutover.Call) {
					if call.Hook == cutover.Switch {
						c.change(s.service["Parts"])
					}
				}
				r, forward := s.undo()
				if r.Step != checkpoint.CutoverCancelled || !noted(r, c.note) || s.following() != 2 || forward.Step != checkpoint.CutoverWatching {
					t.Errorf("%s because of %q: %+v; failed %q", r.Step, r.Reason, r.Timeline, s.failed)
				}
				if took := r.UnfrozenAt.Sub(r.Hooks[1].Ended); took > c.within {
					t.Errorf("the application was frozen for %s more", took)
				}
				// What was put is taken out in the end.
				s.service["Parts"].rejects, s.service["Parts"].open = "", false
				s.Must(s.driver.EndFallback(s.Ctx, "", func(string) {}))
				s.driveFor(s.driver, 2*wait)
				if c := s.Cutover(); !s.clean() || c.Denial.Left {
					t.Errorf("a policy may still deny writes: %+v, failed %q", c.Denial, s.failed)
				}
			})
		})
	}
}

// A driver dies while it denies writes again, and another one goes on.
func TestSuccessorDeniesAgain(t *testing.T) {
	playBack(t, func(s *scene) {
		s.refuses = true
		s.request()
		s.drive(s.driver, time.Hour, func(checkpoint.Cutover) bool {
			c := s.Cutover()
			return c.Undo().Step == checkpoint.CutoverCancelling && !s.clean()
		})
		other := s.Open("other")
		other.Heard(s.Ctx, s.Now())
		r, c := s.finish(s.newDriver(other, s.newPolicy(other)))
		if r.Step != checkpoint.CutoverCancelled || !s.frozen[cutover.UnfreezeWrites] || !s.denies() || s.following() != 2 || c.Denial.Again != 2 || !strings.Contains(s.sids(), "2") {
			t.Errorf("%s because of %q: frozen %v, statements %q; failed %q", r.Step, r.Reason, s.frozen, s.sids(), s.failed)
		}
	})
}

// The end of a way back takes the statements out at once, while the watch goes on.
func TestEndFallbackOpensThePolicies(t *testing.T) {
	playBack(t, func(s *scene) {
		s.driveFor(s.driver, 2*time.Hour) // longer than the watch
		s.Must(s.Update(func(c *checkpoint.Cutover) error { c.WatchFor = 10 * time.Hour; return nil }))
		if !s.denies() {
			t.Fatal("the policies let writes through while DynamoDB follows")
		}
		s.Must(s.driver.EndFallback(s.Ctx, "", func(string) {}))
		s.driveFor(s.driver, 10*time.Minute)
		c := s.Cutover()
		if c.Step != checkpoint.CutoverWatching || !s.clean() || c.Denial.Left || !noted(c, "the policies of the tables deny nothing any more") {
			t.Errorf("%s: %+v, statements %q, failed %q", c.Step, c.Denial, s.sids(), s.failed)
		}
	})
	playBack(t, func(s *scene) { // the watch is over already, and does not end before the policies are open
		s.driveFor(s.driver, 2*time.Hour)
		s.Must(s.driver.EndFallback(s.Ctx, "", func(string) {}))
		c := s.drive(s.driver, time.Hour, at(checkpoint.CutoverDone))
		if c.Step != checkpoint.CutoverDone || !s.clean() || c.Denial.Left || noted(c, "may still deny writes") {
			t.Errorf("%s: %+v, statements %q, failed %q", c.Step, c.Denial, s.sids(), s.failed)
		}
	})
}

// A process whose configuration has no freeze by policies begins no rollback that must open them.
func TestARollbackWithoutPolicies(t *testing.T) {
	playBack(t, func(s *scene) {
		freezer := s.driver.Freezer
		s.driver.Freezer = nil
		s.request()
		s.driveFor(s.driver, 5*time.Minute)
		c := s.Cutover()
		if r := c.Undo(); r.Step != checkpoint.CutoverChecks || len(s.calls) > 0 || !strings.Contains(strings.Join(s.failed, " "), "lacks cutover.freeze: table_policy") {
			t.Errorf("%s after %v; failed %q", r.Step, s.calls, s.failed)
		}
		s.driver.Freezer = freezer
		if r, _ := s.finish(s.driver); r.Step != checkpoint.CutoverDone {
			t.Errorf("%s because of %q", r.Step, r.Reason)
		}
	})
}
