package cutover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/canary"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/kit"
)

// loses lets the nth write from now on of a row of the ledger fail.
func (s *scene) loses(row string, nth int) {
	s.Store.OnSwap = func(_ context.Context, key string, execute func() bool) (bool, error) {
		if key == row {
			nth--
		}
		if key == row && nth == 0 {
			return false, errAway
		}
		return execute(), nil
	}
}

// called are the tokens of the calls of a hook.
func (s *scene) called(hook string) (tokens []string) {
	for _, call := range s.calls {
		if words := strings.Fields(call); words[0] == hook {
			tokens = append(tokens, words[1])
		}
	}
	return tokens
}

// A hook is called again only if its outcome may not be in the ledger, and then with a higher
// token: a call before its begin is recorded could have the token of another one, and one whose
// outcome is recorded would freeze an application that writes again, or switch it twice.
func TestWhichCallIsRepeatedAfterALostWrite(t *testing.T) {
	begin := func(until checkpoint.CutoverStep) func(s *scene) {
		return func(s *scene) { s.start(plan()); s.drive(at(until)) }
	}
	cancelled := func(s *scene) {
		begin(checkpoint.CutoverFreeze)(s)
		s.Must(s.Update(func(c *checkpoint.Cutover) error { return c.Cancel("why", s.Now()) }))
	}
	past := func(step checkpoint.CutoverStep) func(c checkpoint.Cutover) bool {
		return func(c checkpoint.Cutover) bool { return settled(c) || c.Step == step }
	}
	for _, c := range []struct {
		hook  string
		begin func(s *scene)
		end   checkpoint.CutoverStep
		calls []int // if the nth write of the record fails: begin of the call, its outcome, what follows
	}{
		{FreezeWrites, func(s *scene) { s.start(plan()); s.drive(s.lastCheck) }, checkpoint.CutoverDrain, []int{1, 2, 2, 1}},
		{Switch, begin(checkpoint.CutoverFence), checkpoint.CutoverWatching, []int{1, 2, 2}},
		{UnfreezeWrites, cancelled, checkpoint.CutoverCancelled, []int{1, 2, 2, 1}},
	} {
		for i, want := range c.calls {
			playScene(t, func(s *scene) {
				c.begin(s)
				s.answers(c.hook, func(call Call) (string, Outcome) {
					if now := s.Cutover(); now.Token() != call.Token {
						t.Errorf("%s is called with token %s, the record has %s", c.hook, call.Token, now.Token())
					}
					return "", HookDone
				})
				s.loses("p/cutover", 1+i)
				got := s.drive(past(c.end))
				tokens := s.called(c.hook)
				if got.Step != c.end || len(tokens) != want || len(slices.Compact(tokens)) != want || len(s.failed) != 1 {
					t.Errorf("write %d of %s lost: %s after the calls %v, want %d; failed: %q", 1+i, c.hook, got.Step, tokens, want, s.failed)
				}
				if c.hook == FreezeWrites && got.FrozenAt.Before(got.Hooks[0].Ended) {
					t.Errorf("frozen at %v, before the hook's answer at %v", got.FrozenAt, got.Hooks[0].Ended)
				}
			})
		}
	}
}

// Before the freeze each target gets a new number, and the drop of the lower ones is in force. In
// step fence the tables are halted, and the numbers are in the record before the first drop: a drop
// that is repeated, here or by another driver, is of the same numbers.
func TestTheOrderOfTheFence(t *testing.T) {
	playScene(t, func(s *scene) {
		creates, drops, dropped := 0, 0, time.Time{}
		s.Target.Refuse = func(change string) error {
			c := s.Cutover()
			if c.Step == checkpoint.CutoverChecks {
				if strings.HasPrefix(change, "create") {
					creates++
				}
				return nil
			}
			for _, source := range plan().Tables {
				if state := s.Table(source); !state.Halted() {
					t.Errorf("%s while table %s may be written", change, source)
				}
			}
			if strings.HasPrefix(change, "create") {
				t.Errorf("%s in step %s", change, c.Step)
			}
			if n := c.Fences; len(n) != 2 || n["orders"] != c.Raised["orders"]+1 || n["parts"] != c.Raised["parts"]+1 {
				t.Errorf("%s while the record has the numbers %v and %v", change, n, c.Raised)
			}
			if drops++; drops <= 2 {
				return errAway
			} else if drops == 3 {
				dropped = s.Now()
			}
			return nil
		}
		p := plan()
		p.FenceFirst = true
		c := s.play(p)
		s.expect(c, checkpoint.CutoverWatching, "", FreezeWrites, Switch)
		if creates != 2 || drops != 4 {
			t.Errorf("%d families were created, and %d drops tried", creates, drops)
		}
		if held := c.FencedAt.Sub(dropped); held < s.Target.DropDelay() || held > 2*s.Target.DropDelay() {
			t.Errorf("fenced %s after the first drop: the drops are waited for side by side", held)
		}
	})
}

// A number that could not be raised for one target is raised with the next pass. The others keep
// theirs, and the application is not frozen before.
func TestTheFenceIsRaisedBeforeTheFreeze(t *testing.T) {
	playScene(t, func(s *scene) {
		creates := 0
		s.Target.Refuse = func(change string) error {
			if strings.HasPrefix(change, "create") {
				if creates++; creates == 2 {
					return errAway
				}
			}
			return nil
		}
		frozen := time.Time{}
		s.answers(FreezeWrites, func(Call) (string, Outcome) { frozen = s.Now(); return "", HookDone })
		began := s.Now()
		c := s.play(plan())
		s.expect(c, checkpoint.CutoverWatching, "", FreezeWrites, Switch)
		if creates != 3 || frozen.Sub(began) < 2*s.Target.DropDelay() || len(s.failed) != 1 {
			t.Errorf("%d families were created, frozen after %s, failed: %q", creates, frozen.Sub(began), s.failed)
		}
		for _, target := range plan().Targets {
			if found, _, err := s.Ledger.Target(s.Ctx, target); err != nil || !found.Recorded || found.Fence != c.Raised[target] {
				t.Errorf("%+v, %v, %v", found, c.Raised, err)
			}
		}
	})
}

// A process of a version that keeps no record of what it may write closes a gate, which no override
// passes: it could not read the next number, and nobody could ask it.
func TestAnOlderVersionClosesTheGate(t *testing.T) {
	playScene(t, func(s *scene) {
		f := readiness.Figures{Found: true, Shards: []checkpoint.Shard{{Owner: "w", Heartbeat: checkpoint.Heartbeat{Holder: checkpoint.About{Version: "1"}, Reads: checkpoint.Format}}}}
		for i, c := range []struct {
			change func(f *readiness.Figures) []checkpoint.Process
			want   string
		}{
			{func(*readiness.Figures) []checkpoint.Process { return nil }, ""},
			{func(f *readiness.Figures) []checkpoint.Process { f.Shards[0].Reads = 3; return nil }, "process w runs version 1,"},
			{func(f *readiness.Figures) []checkpoint.Process {
				f.Shards[0].Reads, f.Shards[0].Owner = 3, ""
				return nil
			}, ""},
			{func(f *readiness.Figures) []checkpoint.Process { f.Coordinator.Holder.Version = "2"; return nil }, "process c runs version 2,"},
			{func(*readiness.Figures) []checkpoint.Process {
				return []checkpoint.Process{{Worker: "s", Heartbeat: checkpoint.Heartbeat{Holder: checkpoint.About{Version: "3"}}}}
			}, "process s runs version 3,"},
		} {
			g := f
			g.Shards = slices.Clone(f.Shards)
			got := outdated(&g, "c", c.change(&g))
			if !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
				t.Errorf("%d: %q, want %q", i, got, c.want)
			}
			g.Outdated = got
			gate := g.Judge("Orders", readiness.Limits{}, s.Now())[len(readiness.GateNames)-1]
			if gate.Name != readiness.GateFence || gate.Ready == (got != "") || gate.Binding != (got != "") {
				t.Errorf("%d: %+v", i, gate)
			}
		}
	})
}

// A driver gives its lease back when it ends: otherwise the next one waits for a lease's time while
// the application is frozen. One that is stopped renews it no more.
func TestADriverGivesItsLeaseBack(t *testing.T) {
	playScene(t, func(s *scene) {
		lease := func() checkpoint.CoordinatorLease {
			l, err := s.Ledger.CoordinatorLease(s.Ctx, checkpoint.CutoverLease(""))
			s.Must(err)
			return l
		}
		s.Source.Blind = true // so that the drain lasts
		s.start(plan())
		if s.drive(at(checkpoint.CutoverFreeze)); lease().Owner() != "" {
			t.Errorf("%s holds the lease after its last pass", lease().Owner())
		}
		s.driveFor(30 * time.Second)
		if lease().Owner() == "" {
			t.Error("nobody drives")
		}
		before := lease().Row.Counter
		if s.Sleep(5 * time.Minute); lease().Row.Counter != before {
			t.Error("the lease is renewed after the driver was stopped")
		}
		s.World.After(time.Minute, func() { // another process takes it, as from one that was frozen for long
			other := s.Open("other")
			_, err := other.TakeCoordinatorLease(s.Ctx, lease())
			s.Must(err)
		})
		if s.driveFor(64 * time.Second); len(s.failed) > 0 || lease().Owner() != "other" {
			t.Errorf("%s holds the lease that another process took; failed: %q", lease().Owner(), s.failed)
		}
		s.Sleep(time.Minute)
		s.Must(s.Update(func(c *checkpoint.Cutover) error { return c.Cancel("why", s.Now()) }))
		if c := s.driveFor(2 * time.Minute); c.Step != checkpoint.CutoverCancelled || lease().Owner() != "" {
			t.Errorf("%s, and %q holds the lease", c.Step, lease().Owner())
		}
	})
}

// Hooks are probed once by a process that drives, of all tables; a probe and a call may take half a
// minute each.
func TestCallsAreBounded(t *testing.T) {
	playScene(t, func(s *scene) {
		var probes []string
		answer := s.hook
		s.hook = func(call Call) (string, Outcome) {
			if call.Probe {
				probes = append(probes, fmt.Sprint(call.Hook, call.Token, call.Step, call.Tables))
			}
			return answer(call)
		}
		p := plan()
		p.FreezeWithin = 5 * time.Minute
		s.start(p)
		s.takes = time.Hour
		began := s.Now()
		s.Must(s.driver.Probe(s.Ctx, checkpoint.Cutover{CutoverPlan: plan()}))
		if took := s.Now().Sub(began); took != 90*time.Second {
			t.Errorf("three probes took %s", took)
		}
		probes, s.takes = nil, time.Second
		s.drive(s.lastCheck)
		s.takes = time.Hour
		s.silent(FreezeWrites)
		c := s.drive(func(c checkpoint.Cutover) bool { return len(c.Hooks) > 0 })
		if took := c.Hooks[0].Ended.Sub(c.Hooks[0].Began); took < 3*time.Minute || took > 5*time.Minute-90*time.Second {
			t.Errorf("a call took %s; the deadline of its step is 5m, of which probes took 90s", took)
		}
		if want := []string{"freeze_writesprobe[Orders Parts]", "switchprobe[Orders Parts]", "unfreeze_writesprobe[Orders Parts]"}; !slices.Equal(probes[:3], want) || len(probes) != 6 {
			t.Errorf("two drivers sent the probes %q", probes)
		}
	})
}

// Whoever drives on has other canaries of another attempt to write, lets the tables of another
// attempt go on, and removes what another one wrote: nothing of an attempt counts for the next one,
// even if a driver never sees the record between the two.
func TestNothingOfAnAttemptCountsForTheNextOne(t *testing.T) {
	playScene(t, func(s *scene) {
		lease, err := s.Ledger.CoordinatorLease(s.Ctx, checkpoint.CutoverLease(""))
		s.Must(err)
		held, err := s.Ledger.TakeCoordinatorLease(s.Ctx, lease)
		s.Must(err)
		v := &drive{Driver: s.driver, settings: s.driver.Settings.orDefault(), held: held}
		for attempt := uint32(1); attempt <= 2; attempt++ {
			var c checkpoint.Cutover
			s.Must(s.Update(func(now *checkpoint.Cutover) error {
				*now = checkpoint.Cutover{Attempt: attempt, Step: checkpoint.CutoverDrain, CutoverPlan: plan()}
				c = *now
				return nil
			}))
			s.Must(v.drain(s.Ctx, c, s.Now()))
			changes := s.Source.Changes["Orders"]
			if of, _ := canary.Which(changes[len(changes)-1]); of != 2*attempt || len(s.Source.Items["Orders"]) == 0 {
				t.Errorf("in attempt %d the last canary is of round %d", attempt, of)
			}
			for _, source := range plan().Tables {
				s.Change(source, func(st *checkpoint.TableState) { s.Must(st.HaltFor(attempt)) })
			}
			s.Must(v.resume(s.Ctx, c))
			if !s.tablesGoOn() {
				t.Errorf("after attempt %d a table is halted", attempt)
			}
			s.Must(v.removeCanaries(s.Ctx, s.Cutover()))
			if n := len(s.Source.Items["Orders"]) + len(s.Source.Items["Parts"]); n > 0 {
				t.Errorf("after attempt %d there are %d canaries", attempt, n)
			}
		}
	})
}

// A write of a canary that fails is repeated from there on, and a removal until it succeeds for all
// tables.
func TestCanariesAreWrittenAndRemovedAfterAFailure(t *testing.T) {
	playScene(t, func(s *scene) {
		s.start(plan())
		s.drive(at(checkpoint.CutoverFreeze))
		puts, deletes := 0, 0
		s.Source.Fail = func(call string) error {
			switch call {
			case "Put":
				if puts++; puts == 2 {
					return errAway
				}
			case "Delete":
				if deletes++; deletes == 6 {
					return errAway
				}
			}
			return nil
		}
		c := s.drive(settled)
		if puts != 4+1 || c.Step != checkpoint.CutoverWatching {
			t.Errorf("%s after %d puts", c.Step, puts)
		}
		s.driveFor(time.Minute)
		left := len(s.Source.Items["Orders"]) + len(s.Source.Items["Parts"])
		if left > 0 || deletes < 12 || deletes > 16 || !slices.Contains(s.failed, "drive the cutover: remove canaries of table Parts: it is away") {
			t.Errorf("%d canaries are left after %d deletes; failed: %q", left, deletes, s.failed)
		}
		s.failed = nil
		for _, call := range []string{"Describe", "read"} { // neither passes for a removal
			v, before := &drive{Driver: s.driver}, deletes
			s.Source.Fail = func(asked string) error { return map[bool]error{true: errAway}[asked == call] }
			s.Store.OnRead = func(context.Context, string) error { return map[bool]error{true: errAway}[call == "read"] }
			c.Canaries = true
			if err := v.removeCanaries(s.Ctx, c); call == "Describe" && deletes != before || !errors.Is(err, errAway) {
				t.Errorf("%s fails: %v", call, err)
			}
		}
	})
}

// A rehearsal freezes nothing, so what the application writes meanwhile ends it at no step.
func TestARehearsalLetsTheApplicationWrite(t *testing.T) {
	playScene(t, func(s *scene) {
		p := plan()
		p.Rehearse = true
		s.start(p)
		s.World.Go("write", func(ctx context.Context) {
			for i := 0; ctx.Err() == nil; i++ {
				s.Must(s.Source.Put(ctx, "Parts", kit.Item(fmt.Sprint("item", i))))
				_ = task.Sleep(ctx, 3*time.Second)
			}
		})
		s.expect(s.drive(settled), checkpoint.CutoverRehearsed, "")
	})
}

// The tables' records say that the application has switched before the streams are looked at, and
// that the watch is over before the cutover's record does: a worker that begins reads the tables'
// alone. What could not be written is written again.
func TestTablesAreMarkedFirst(t *testing.T) {
	playScene(t, func(s *scene) {
		p := plan()
		p.WatchFor = time.Minute
		s.start(p)
		s.drive(at(checkpoint.CutoverSwitching))
		s.driver.Settings.Pass = 10 * time.Second
		s.loses("p/table/Parts", 1)
		if c := s.driveFor(20 * time.Second); c.Step != checkpoint.CutoverWatching || len(s.failed) != 1 || !s.Table("Parts").Halt.Switched || s.Table("Parts").Halt.Attempt != 1 {
			t.Errorf("%s: %+v; failed: %q", c.Step, s.Table("Parts").Halt, s.failed)
		}
		s.Store.OnSwap = func(_ context.Context, key string, execute func() bool) (bool, error) {
			if key == "p/table/Parts" {
				return false, errAway
			}
			return execute(), nil
		}
		if c := s.driveFor(5 * time.Minute); c.Step != checkpoint.CutoverWatching || s.Table("Parts").Halt.Done {
			t.Errorf("%s, though a worker of a table may begin: %+v", c.Step, s.Table("Parts").Halt)
		}
		s.Store.OnSwap = nil
		if c := s.driveFor(time.Minute); c.Step != checkpoint.CutoverDone || !s.Table("Parts").Halt.Done || !s.Table("Orders").Halt.Done {
			t.Errorf("%s: %+v", c.Step, s.Table("Parts").Halt)
		}
	})
}

// What happens to the record while a hook is called counts: an answer that comes after a cancel
// freezes nothing, and one that comes in the next attempt is none of it. Neither is a failure.
func TestTheRecordMovesDuringACall(t *testing.T) {
	playScene(t, func(s *scene) {
		s.answers(FreezeWrites, func(Call) (string, Outcome) {
			s.Must(s.Update(func(c *checkpoint.Cutover) error { return c.Cancel("why", s.Now()) }))
			return "", HookDone
		})
		c := s.play(plan())
		s.expect(c, checkpoint.CutoverCancelled, "why", FreezeWrites, UnfreezeWrites)
		if !c.FrozenAt.IsZero() || len(c.Hooks) != 2 || len(s.failed) > 0 {
			t.Errorf("frozen at %v, hooks %+v; failed: %q", c.FrozenAt, c.Hooks, s.failed)
		}
	})
	playScene(t, func(s *scene) {
		s.answers(FreezeWrites, func(Call) (string, Outcome) {
			s.Must(s.Update(func(c *checkpoint.Cutover) error {
				c.Step = checkpoint.CutoverCancelled
				return c.Start(plan(), s.Now())
			}))
			return "", HookDone
		})
		s.start(plan())
		c := s.drive(func(c checkpoint.Cutover) bool { return len(s.calls) > 0 })
		if c.Attempt != 2 || len(c.Hooks) > 0 || !c.FrozenAt.IsZero() || len(s.failed) > 0 {
			t.Errorf("attempt %d has the hooks %+v and is frozen at %v; failed: %q", c.Attempt, c.Hooks, c.FrozenAt, s.failed)
		}
	})
}

// A table that was never compared as a whole is not frozen, whatever was overridden: the final verify
// would find it to be so after the freeze.
func TestATableThatWasNeverVerifiedIsNotFrozen(t *testing.T) {
	playScene(t, func(s *scene) {
		p := plan()
		p.Overrides = []checkpoint.CutoverOverride{{Gate: readiness.GateVerify, Reason: "small"}, {Gate: readiness.GateFull, Reason: "small"}}
		for _, source := range p.Tables {
			s.Change(source, func(st *checkpoint.TableState) { st.Verify = checkpoint.Verify{} })
		}
		s.expect(s.play(p), checkpoint.CutoverCancelled, "gate full_verify of table Orders is not ready: never")
	})
}

// Gates are judged by what the ledger holds of all targets, and of a topic.
func TestFiguresOfGates(t *testing.T) {
	playScene(t, func(s *scene) {
		_, err := s.Ledger.UpdateTarget(s.Ctx, "parts", func(t *checkpoint.Target) error { t.Withheld = "denied"; return nil })
		s.Must(err)
		gates, err := s.driver.Gates(s.Ctx, plan(), s.Now())
		s.Must(err)
		open := readiness.Open(gates)
		if len(open) != 2 || open[0].Name != readiness.GateFence || open[0].Table != "Orders" || open[1].Table != "Parts" {
			t.Errorf("with a fence that is withheld: %+v", open)
		}
		track := checkpoint.Track{Generation: 5, Label: "L", Shard: kit.Shard}
		s.Must(s.Ledger.NoteApplied(s.Ctx, "Orders", []checkpoint.Applied{{Track: track, Runs: checkpoint.Runs{{From: 1, To: 3}}}}))
		s.Must(s.Ledger.MergeApplied(s.Ctx, "Orders"))
		for mode, merged := range map[checkpoint.Mode]int{checkpoint.Topic: 1, checkpoint.Direct: 0} {
			s.Change("Orders", func(st *checkpoint.TableState) { st.Apply = mode })
			if f, err := s.driver.figures(s.Ctx, "Orders"); err != nil || len(f.Merged) != merged || !f.Found || len(f.Shards) != 1 {
				t.Errorf("mode %q: %+v, %v", mode, f, err)
			}
		}
	})
}
