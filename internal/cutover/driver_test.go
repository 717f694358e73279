package cutover

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/canary"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/kit"
)

var errAway = errors.New("it is away")

// The whole way: each step once, the hooks in their order with rising tokens, the tables halted,
// the targets fenced, and the record says what was proved and when.
func TestTheWholeWay(t *testing.T) {
	playScene(t, func(s *scene) {
		s.answers(Switch, func(call Call) (string, Outcome) {
			if !slices.Equal(call.Tables, plan().Tables) {
				t.Errorf("the switch is of %v", call.Tables)
			}
			for _, source := range plan().Tables {
				if state := s.Table(source); !state.Halted() || state.Halt.Attempt != 1 {
					t.Errorf("at the switch table %s may be written: %+v", source, state.Halt)
				}
			}
			return "moved", HookDone
		})
		c := s.play(plan())
		s.expect(c, checkpoint.CutoverWatching, "", FreezeWrites, Switch)
		if got, want := steps(c), "requested checks freeze drain verify fence switching watching"; got != want {
			t.Errorf("steps are %s, want %s", got, want)
		}
		if want := []string{"freeze_writes 1.3.1 freeze", "switch 1.7.2 switching"}; !slices.Equal(s.calls, want) {
			t.Errorf("calls are %q, want %q", s.calls, want)
		}
		if got := strings.Join(s.said, " "); got != "requested checks freeze drain verify fence switching watching" {
			t.Errorf("said are %s", got)
		}
		if len(s.failed) > 0 {
			t.Errorf("failed: %q", s.failed)
		}
		if len(c.Proofs) != 2 || c.Proofs[0].How != "a canary" || c.Proofs[0].Position == "" || c.Proofs[0].Shard != kit.Shard || c.Proofs[1].Table != "Parts" || len(c.Gates) != 2*len(readiness.GateNames) || len(readiness.Open(c.Gates)) > 0 {
			t.Errorf("proofs %+v, gates %+v", c.Proofs, c.Gates)
		}
		if c.FrozenAt.IsZero() || !c.FrozenAt.After(c.FreezeBegunAt) || c.GoneAt.Before(c.FrozenAt) || c.SwitchedAt.Before(c.GoneAt) || !c.FencedAt.IsZero() && c.FencedAt.Before(c.SwitchedAt) {
			t.Errorf("freeze begun %v, frozen %v, gone %v, switched %v, fenced %v", c.FreezeBegunAt, c.FrozenAt, c.GoneAt, c.SwitchedAt, c.FencedAt)
		}
		if len(c.Hooks) != 2 || c.Hooks[1].Name != Switch || c.Hooks[1].Token != "1.7.2" || c.Hooks[1].Outcome != string(HookDone) || c.Hooks[1].Output != "moved" ||
			c.Hooks[1].Ended.Sub(c.Hooks[1].Began) != time.Second {
			t.Errorf("hooks are %+v", c.Hooks)
		}
		for _, target := range plan().Targets {
			if found, _, err := s.Ledger.Target(s.Ctx, target); err != nil || found.Fence <= 7 || c.Raised[target] != found.Fence {
				t.Errorf("target %s is written under %d, the record says %v: %v", target, found.Fence, c.Raised, err)
			}
		}
		if len(c.Verified) != 2 || !c.Verified["Orders"].Clean() || !slices.Equal(s.alone, []string{"Orders", "Parts"}) || s.begun != nil {
			t.Errorf("verified %+v, compared %v, begun %v", c.Verified, s.alone, s.begun)
		}
	})
}

// A rehearsal does everything but freeze and switch, halts nothing, and leaves no canary.
func TestARehearsal(t *testing.T) {
	playScene(t, func(s *scene) {
		s.driver.Hooks = nil // none is called
		p := plan()
		p.Rehearse = true
		c := s.play(p)
		s.expect(c, checkpoint.CutoverRehearsed, "")
		if got, want := steps(c), "requested checks drain verify fence rehearsed"; got != want {
			t.Errorf("steps are %s, want %s", got, want)
		}
		if !s.tablesGoOn() || len(s.Source.Items["Orders"])+len(s.Source.Items["Parts"]) > 0 || c.EndedAt.IsZero() {
			t.Errorf("items left: %d and %d; ended %v", len(s.Source.Items["Orders"]), len(s.Source.Items["Parts"]), c.EndedAt)
		}
	})
}

// A request waits for approval and its hours, until it expires.
func TestARequestWaits(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p *checkpoint.CutoverPlan)
		begins time.Duration // 0: it expires
	}{
		"at once":       {func(p *checkpoint.CutoverPlan) {}, time.Second},
		"not approved":  {func(p *checkpoint.CutoverPlan) { p.Approved = false }, 0},
		"in hours":      {func(p *checkpoint.CutoverPlan) { p.From, p.To = 12*60+4, 12*60+8 }, 4 * time.Minute},
		"over midnight": {func(p *checkpoint.CutoverPlan) { p.From, p.To = 12*60+3, 2*60 }, 3 * time.Minute},
		"too late":      {func(p *checkpoint.CutoverPlan) { p.From, p.To = 12*60+30, 13*60 }, 0},
		"not before":    {func(p *checkpoint.CutoverPlan) { p.NotBefore = kit.Begin.Add(2 * time.Minute) }, 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			playScene(t, func(s *scene) {
				p := plan()
				p.Expires = kit.Begin.Add(10 * time.Minute)
				c.change(&p)
				s.start(p)
				s.Change("Orders", func(st *checkpoint.TableState) { st.NeedsLoad = true }) // so that checks end it
				got := s.drive(settled)
				if c.begins == 0 {
					s.expect(got, checkpoint.CutoverCancelled, "it expired before it was approved and ready")
					if after := got.EndedAt.Sub(kit.Begin); after < 10*time.Minute || after > 11*time.Minute {
						t.Errorf("it expired after %s", after)
					}
					return
				}
				s.expect(got, checkpoint.CutoverCancelled, "gate copy of table Orders is not ready: changes or rows are missing")
				if after := got.EndedAt.Sub(kit.Begin); after < c.begins || after > c.begins+time.Minute {
					t.Errorf("it began after %s", after)
				}
			})
		})
	}
}

// With --when-ready a gate that is not ready is waited for, and without it ends the attempt; an
// override passes it, of that gate alone.
func TestGatesOfAnAttempt(t *testing.T) {
	lag := checkpoint.CutoverOverride{Gate: readiness.GateLag, Reason: "quiet"}
	for name, c := range map[string]struct {
		whenReady, heals bool
		overrides        []checkpoint.CutoverOverride
		reason           string
	}{
		"ends":            {reason: "gate parked of table Parts is not ready: 1"},
		"waits":           {whenReady: true, heals: true},
		"waits in vain":   {whenReady: true, reason: "it expired before it was approved and ready"},
		"another's":       {overrides: []checkpoint.CutoverOverride{lag}, reason: "gate parked"},
		"passed by force": {overrides: []checkpoint.CutoverOverride{lag, {Gate: readiness.GateParked, Reason: "known"}}},
	} {
		t.Run(name, func(t *testing.T) {
			playScene(t, func(s *scene) {
				p := plan()
				p.WhenReady, p.Overrides, p.Expires = c.whenReady, c.overrides, kit.Begin.Add(5*time.Minute)
				s.parked["Parts"] = []string{"x"}
				s.start(p)
				if c.whenReady {
					got := s.driveFor(time.Minute)
					if got.Step != checkpoint.CutoverRequested || got.Trouble != "waiting for gate parked of table Parts: not ready" {
						t.Errorf("%s: %s", got.Step, got.Trouble)
					}
				}
				if c.heals {
					s.parked["Parts"] = nil
				}
				got := s.drive(func(c checkpoint.Cutover) bool { return settled(c) || c.Step == checkpoint.CutoverFreeze })
				if c.reason != "" {
					s.expect(got, checkpoint.CutoverCancelled, c.reason)
				} else if got.Step != checkpoint.CutoverDrain || len(got.Verified) != 2 || !got.Verified["Parts"].Known() {
					t.Errorf("%s: %s, verified %+v", got.Step, got.Reason, got.Verified)
				}
				if i := slices.IndexFunc(got.Gates, func(g checkpoint.CutoverGate) bool { return g.Overridden != "" }); i >= 0 && got.Gates[i].Overridden != "known" {
					t.Errorf("the gate %+v is overridden", got.Gates[i])
				}
			})
		})
	}
}

// Every answer of the freeze: it is done, the hook refused and nothing is frozen, or nobody knows,
// so that it is called again, and the deadline ends it by way of the unfreeze.
func TestAnswersOfTheFreeze(t *testing.T) {
	for name, c := range map[string]struct {
		answers []Outcome // the last one for all others
		reason  string
		hooks   []string
	}{
		"refused":       {[]Outcome{HookRefused}, "hook freeze_writes refused: as said", []string{FreezeWrites, UnfreezeWrites}},
		"unknown, done": {[]Outcome{HookUnknown, HookUnknown, HookDone}, "", []string{FreezeWrites, FreezeWrites, FreezeWrites, Switch}},
		"refused later": {[]Outcome{HookUnknown, HookRefused}, "hook freeze_writes refused", []string{FreezeWrites, FreezeWrites, UnfreezeWrites}},
	} {
		t.Run(name, func(t *testing.T) {
			playScene(t, func(s *scene) {
				n := 0
				s.answers(FreezeWrites, func(Call) (string, Outcome) {
					n++
					return "as said", c.answers[min(n, len(c.answers))-1]
				})
				got := s.play(plan())
				step := checkpoint.CutoverWatching
				if c.reason != "" {
					step = checkpoint.CutoverCancelled
				}
				s.expect(got, step, c.reason, c.hooks...)
				if got.Step == checkpoint.CutoverCancelled && (!s.tablesGoOn() || got.UnfrozenAt.IsZero() || !got.FrozenAt.IsZero()) {
					t.Errorf("unfrozen at %v, frozen at %v", got.UnfrozenAt, got.FrozenAt)
				}
				target, _, err := s.Ledger.Target(s.Ctx, "parts")
				if n := got.Raised["parts"]; err != nil || n <= 7 || target.Fence != n || len(got.Fences) > 0 && got.Step == checkpoint.CutoverCancelled {
					t.Errorf("number %d, before the freeze %d, %v: %v", target.Fence, n, got.Fences, err)
				}
			})
		})
	}
}

// The freeze, and the whole try, end at their deadlines in whichever step that is: the application
// writes again, and the record says what the step was waiting for.
func TestDeadlines(t *testing.T) {
	for name, c := range map[string]struct {
		stuck  func(s *scene)
		limit  time.Duration
		reason string
	}{
		"freeze": {func(s *scene) { s.silent(FreezeWrites) }, time.Minute, "freeze took more than 1m: hook freeze_writes did not answer: its time was up"},
		"drain":  {func(s *scene) { s.Source.Blind = true }, 10 * time.Minute, "the deadline of the freeze has passed in step drain: table Orders: 2 of 2 canaries are not read yet"},
		"verify": {func(s *scene) {
			s.driver.Verifier = failing{s, func() error { return errors.New("denied") }}
		}, 10 * time.Minute, "the deadline of the freeze has passed in step verify: the final comparison failed and is repeated: table Orders: denied"},
		"fence": {func(s *scene) { s.refuseInFence(func(string) error { return errAway }) }, 10 * time.Minute, "the deadline of the freeze has passed in step fence"},
	} {
		t.Run(name, func(t *testing.T) {
			playScene(t, func(s *scene) {
				c.stuck(s)
				p := plan()
				p.FenceFirst = true
				s.start(p)
				s.answers(UnfreezeWrites, func(Call) (string, Outcome) { s.Target.Refuse = nil; return "", HookDone })
				got := s.drive(settled)
				if !strings.HasPrefix(got.Reason, c.reason) {
					t.Errorf("%s: %q, want %q", got.Step, got.Reason, c.reason)
				}
				i := slices.IndexFunc(got.Timeline, func(e checkpoint.CutoverEvent) bool { return e.Step == name })
				j := slices.IndexFunc(got.Timeline, func(e checkpoint.CutoverEvent) bool { return e.Step == "cancelling" })
				if took := got.Timeline[j].At.Sub(got.Timeline[i].At); took < c.limit || took > c.limit+70*time.Second {
					t.Errorf("it took %s", took)
				}
				if s.calls[len(s.calls)-1] != fmt.Sprintf("unfreeze_writes 1.8.%d cancelling", len(s.calls)) || got.Step != checkpoint.CutoverCancelled || !s.tablesGoOn() {
					t.Errorf("%s after %v", got.Step, s.calls)
				}
			})
		})
	}
}

// Every answer of the switch: only a refusal lets the source go on; without an answer it is called
// again and again, without a deadline, until an operator answers.
func TestAnswersOfTheSwitch(t *testing.T) {
	for name, c := range map[string]struct {
		answers  []Outcome
		operator string // answers after three minutes
		step     checkpoint.CutoverStep
		reason   string
	}{
		"refused":       {[]Outcome{HookRefused}, "", checkpoint.CutoverCancelled, "not switched, according to the hook"},
		"unknown, done": {[]Outcome{HookUnknown, HookUnknown, HookDone}, "", checkpoint.CutoverWatching, ""},
		"operator: yes": {[]Outcome{HookUnknown}, "yes", checkpoint.CutoverWatching, ""},
		"operator: no":  {[]Outcome{HookUnknown}, "no", checkpoint.CutoverCancelled, "not switched, according to an operator"},
	} {
		t.Run(name, func(t *testing.T) {
			playScene(t, func(s *scene) {
				n := 0
				s.answers(Switch, func(Call) (string, Outcome) {
					n++
					return "as said", c.answers[min(n, len(c.answers))-1]
				})
				s.start(plan())
				if c.operator != "" {
					s.drive(at(checkpoint.CutoverSwitching))
					got := s.driveFor(3 * time.Minute)
					if got.Step != checkpoint.CutoverSwitching || n < 30 || !strings.Contains(got.Trouble, "it is unknown whether the application has switched: as said") {
						t.Errorf("after three minutes: %s, %d calls, %s", got.Step, n, got.Trouble)
					}
					if s.Update(func(c *checkpoint.Cutover) error { return c.Cancel("no", s.Now()) }) == nil {
						t.Error("it is cancelled though it may have switched")
					}
					s.Must(s.Update(func(cut *checkpoint.Cutover) error { return cut.Resolve(c.operator == "yes", s.Now()) }))
				}
				got := s.drive(settled)
				if got.Step != c.step || got.Reason != c.reason || (got.Step == checkpoint.CutoverCancelled) != strings.HasPrefix(s.calls[len(s.calls)-1], UnfreezeWrites) {
					t.Errorf("%s: %q after %v", got.Step, got.Reason, s.calls)
				}
				if on := s.tablesGoOn(); on != (got.Step == checkpoint.CutoverCancelled) || got.SwitchedAt.IsZero() == (got.Step == checkpoint.CutoverWatching) {
					t.Errorf("tables go on: %t; switched at %v", on, got.SwitchedAt)
				}
			})
		})
	}
}

// A record holds at most a kilobyte of what a hook said.
func TestOutputOfAHook(t *testing.T) {
	long := strings.Repeat("é ", 341) + "a"
	for in, want := range map[string]string{"": "", long: long, "b" + long: "b" + long[:len(long)-1] + "…"} {
		if got := limit(in); got != want {
			t.Errorf("%d bytes become %d", len(in), len(got))
		}
	}
}

// A cancel lets application and tables go on, whatever the source or the hook does meanwhile: the
// tables first where the hook is silent, and the attempt ends only once the application writes.
func TestACancelGoesOn(t *testing.T) {
	playScene(t, func(s *scene) {
		s.silent(UnfreezeWrites)
		s.refuseInFence(func(string) error { return errAway }) // so that the fence lasts
		p := plan()
		p.FenceFirst = true
		s.start(p)
		s.driveFor(3 * time.Minute)
		if s.tablesGoOn() {
			t.Errorf("at %s no table is halted", s.Cutover().Step)
		}
		s.Must(s.Update(func(c *checkpoint.Cutover) error { return c.Cancel("by an operator", s.Now()) }))
		s.Source.Fail = func(string) error { return errAway }
		got := s.driveFor(3 * time.Minute)
		end := s.Now()
		if got.Step != checkpoint.CutoverCancelling || !strings.Contains(got.Trouble, "the application may still be frozen: its time was up") || !s.tablesGoOn() {
			t.Errorf("%s: %s; tables go on: %t", got.Step, got.Trouble, s.tablesGoOn())
		}
		s.Source.Fail, s.Target.Refuse = nil, nil
		s.answers(UnfreezeWrites, func(Call) (string, Outcome) { return "", HookDone })
		got = s.drive(settled)
		if got.Step != checkpoint.CutoverCancelled || got.Reason != "by an operator" || got.UnfrozenAt.Before(end) {
			t.Errorf("%s because of %q, unfrozen at %v", got.Step, got.Reason, got.UnfrozenAt)
		}
		if left := len(s.Source.Items["Orders"]) + len(s.Source.Items["Parts"]); left > 0 {
			t.Errorf("%d canaries are left", left)
		}
		// Another attempt begins, and comes to its end.
		if got := s.play(plan()); got.Step != checkpoint.CutoverWatching || got.Attempt != 2 {
			t.Errorf("attempt %d: %s, %s", got.Attempt, got.Step, got.Reason)
		}
	})
}

// Where a family cannot be dropped the fence is withheld, and nothing is switched without an
// override of that gate.
func TestAFenceThatIsWithheld(t *testing.T) {
	for _, overridden := range []bool{false, true} {
		playScene(t, func(s *scene) {
			p := plan()
			p.FenceFirst = true
			if overridden {
				p.Overrides = []checkpoint.CutoverOverride{{Gate: readiness.GateFence, Reason: "known"}}
			}
			s.start(p)
			s.drive(at(checkpoint.CutoverVerify))
			s.Target.Refuse = func(change string) error {
				if strings.HasPrefix(change, "drop") {
					return &sink.Error{Code: "PermissionDenied"}
				}
				return nil
			}
			got := s.drive(settled)
			if overridden {
				s.expect(got, checkpoint.CutoverWatching, "", FreezeWrites, Switch)
			} else {
				s.expect(got, checkpoint.CutoverCancelled, "late writes to orders cannot be rejected: the permission bigtable.tables.update is missing", FreezeWrites, UnfreezeWrites)
			}
		})
	}
}

// Canaries are of the attempt, each once; a driver that takes over writes them again as other items.
func TestCanariesOfADrain(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Source.Blind = true
		s.start(plan())
		s.drive(at(checkpoint.CutoverDrain))
		s.drive(func(c checkpoint.Cutover) bool { return strings.Contains(c.Trouble, "canaries are not read yet") })
		const candidates, want = 4, 2
		before, held := len(s.Source.Changes["Orders"]), len(s.Source.Items["Orders"])
		found := map[uint32]map[int]bool{1: {}, 2: {}}
		for i, c := range s.Source.Changes["Orders"] {
			round, which := canary.Which(c)
			if round == 0 { // of the checks: written and removed
				continue
			}
			if round > 2 || found[round][which] {
				t.Errorf("change %d is canary %d of round %d, again", i, which, round)
			}
			found[round][which] = true
			if round == 2 && !found[1][which] {
				t.Errorf("canary %d was no candidate", which)
			}
		}
		// The last check removes canary 0.
		if len(found[1]) != candidates || len(found[2]) != want || held != candidates && (held != candidates-1 || found[2][0]) {
			t.Errorf("canaries %v, and the table holds %d", found, held)
		}
		s.driver.Ledger = s.Open("next")
		s.driveFor(time.Minute)
		if n := len(s.Source.Changes["Orders"]); n != before+want || len(s.Source.Items["Orders"]) != held {
			t.Errorf("the next driver writes %d canaries, so that there are %d", n-before, len(s.Source.Items["Orders"]))
		}
		s.Source.Fail = func(call string) error {
			if call == "Put" {
				return errAway
			}
			return nil
		}
		s.driver.Ledger = s.Open("denied")
		if got := s.driveFor(time.Minute); !strings.HasPrefix(got.Trouble, "canaries cannot be written: table ") || !strings.HasSuffix(got.Trouble, ": it is away") {
			t.Errorf("%s: %s", got.Step, got.Trouble)
		}
	})
}

// A gap that is found during the drain ends it, and so does a change that somebody made after the
// freeze, at every step until the switch.
func TestWhatEndsADrain(t *testing.T) {
	for _, step := range []checkpoint.CutoverStep{checkpoint.CutoverDrain, checkpoint.CutoverVerify, checkpoint.CutoverFence} {
		playScene(t, func(s *scene) {
			s.start(plan())
			s.Must(s.Update(func(c *checkpoint.Cutover) error { c.Finals = map[string]uint32{"Orders": 1}; return nil }))
			s.Change("Orders", func(st *checkpoint.TableState) { // so that it stays in the step
				s.Must(st.BeginVerify(2, checkpoint.VerifyPlan{Plan: []byte("1"), Phase: 1, Parts: 1}))
			})
			s.drive(at(map[bool]checkpoint.CutoverStep{true: checkpoint.CutoverDrain, false: checkpoint.CutoverVerify}[step == checkpoint.CutoverDrain]))
			s.Sleep(5 * time.Second)
			s.Must(s.Source.Put(s.Ctx, "Parts", kit.Item("forgotten")))
			s.Sleep(5 * time.Second)
			s.Must(s.Update(func(c *checkpoint.Cutover) error { c.Step = step; return nil }))
			got := s.drive(settled)
			if !strings.HasPrefix(got.Reason, "the application still writes: item hash of table Parts was changed at ") || got.Strays != 1 || got.Stragglers[0].Table != "Parts" || !got.Stragglers[0].At.After(got.FrozenAt) {
				t.Errorf("at %s: %s: %q, %+v", step, got.Step, got.Reason, got.Stragglers)
			}
			if way := steps(got); strings.Contains(way, "verify") == (step == checkpoint.CutoverDrain) || strings.Contains(way, "fence") || len(got.Fences) > 0 {
				t.Errorf("at %s it goes on though somebody writes: %s, fences %v", step, steps(got), got.Fences)
			}
		})
	}
	playScene(t, func(s *scene) {
		s.start(plan())
		s.drive(at(checkpoint.CutoverDrain))
		s.Change("Parts", func(st *checkpoint.TableState) { st.NeedsLoad, st.Reason = true, "a gap" })
		s.expect(s.drive(settled), checkpoint.CutoverCancelled, "table Parts: changes or rows are missing: a gap", FreezeWrites, UnfreezeWrites)
	})
	playScene(t, func(s *scene) { // no override passes it, so that it ends before the freeze
		p := plan()
		p.Overrides = []checkpoint.CutoverOverride{{Gate: readiness.GateCopy, Reason: "known"}}
		s.Change("Parts", func(st *checkpoint.TableState) { st.Pause.Since = s.Now() })
		s.expect(s.play(p), checkpoint.CutoverCancelled, "gate copy of table Parts is not ready")
	})
	for moment, stray := range map[time.Duration]bool{0: false, time.Second: false, time.Second + 1: true} {
		if after(kit.Begin.Add(moment), kit.Begin) != stray {
			t.Errorf("a change %s after the freeze: want a stray: %t", moment, stray)
		}
	}
}

// Tables go on under a number of the fence of their own. If that could not be raised, the next pass
// raises it: the tables were let go on already, and the number of the attempt is nobody's.
func TestTablesGoOnUnderANumberOfTheirOwn(t *testing.T) {
	playScene(t, func(s *scene) {
		number := func(target string) uint64 {
			found, _, err := s.Ledger.Target(s.Ctx, target)
			s.Must(err)
			return found.Fence
		}
		before := map[string]uint64{"orders": number("orders"), "parts": number("parts")}
		c := checkpoint.Cutover{Attempt: 1, CutoverPlan: plan(), Fences: before}
		v := &drive{Driver: s.driver}
		s.Target.Refuse = func(string) error { return errAway }
		for range 2 {
			if err := v.resume(s.Ctx, c); !errors.Is(err, errAway) {
				t.Errorf("the failure of the fence is not told: %v", err)
			}
		}
		s.Target.Refuse = nil
		s.Must(v.resume(s.Ctx, c))
		after := number("parts")
		if number("orders") <= before["orders"] || after <= before["parts"] {
			t.Errorf("numbers %d and %d, before %v", number("orders"), after, before)
		}
		if s.Must(v.resume(s.Ctx, c)); number("parts") != after {
			t.Error("they are raised once more")
		}
	})
}
