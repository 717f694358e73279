package switchover

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/kit"
	"github.com/dynamodb-bigtable/replicator/transform"
)

var keep = Request{KeepFallback: "no", Yes: true, Wait: true}

// With workers that drive, the command follows until the application has switched; the record says
// who asked for what.
func TestACutoverByWorkers(t *testing.T) {
	playScene(t, func(s *scene) {
		s.workers()
		d, code := s.start(keep)
		if code != "" || d.Step != "watching" || !d.SafeToWrite || d.Ready || hooksOf(s.calls) != "freeze_writes switch" || len(s.asked) > 0 {
			t.Fatalf("%s: %s after %v\n%s", code, d.Step, s.calls, &s.stderr)
		}
		c := s.Cutover()
		if c.Version != "1.2.3" || !strings.HasPrefix(c.CutoverPlan.By, "cutover-") || c.Hash == "" || !c.Approved || c.KeepFallback || !slices.Equal(c.Targets, []string{"orders", "parts"}) {
			t.Errorf("%+v", c.CutoverPlan)
		}
		for _, said := range []string{"requested by cutover-", "drain       applying the last changes", "watching    switched, according to the hook", "writes frozen for "} {
			if !strings.Contains(s.stderr.String(), said) {
				t.Errorf("%q is not said in\n%s", said, &s.stderr)
			}
		}
		if d.WatchUntil == nil || !d.WatchUntil.Equal(c.SwitchedAt.Add(5*time.Minute)) || d.Driver == nil || *d.Driver != "driver" || d.FrozenSeconds <= 0 {
			t.Errorf("watch until %v, driver %v, frozen for %g s", d.WatchUntil, d.Driver, d.FrozenSeconds)
		}
	})
}

// Without a worker that drives, the command does so after fifteen seconds, and stays to the end of
// the watch.
func TestACutoverByTheCommand(t *testing.T) {
	playScene(t, func(s *scene) {
		s.compared()
		began := s.Now()
		d, code := s.start(keep)
		if code != "" || d.Step != "done" || hooksOf(s.calls) != "freeze_writes switch" {
			t.Fatalf("%s: %s after %v\n%s", code, d.Step, s.calls, &s.stderr)
		}
		if first := d.Hooks[0].Began.Sub(began); first < takeOverAfter {
			t.Errorf("it drives after %s", first)
		}
		if !strings.Contains(s.stderr.String(), "no worker can drive the cutover, so this process does") {
			t.Errorf("%s", &s.stderr)
		}
		s.nobodyDrives()
	})
}

// What is refused leaves no request behind: a gate that is not ready, nobody to ask, an answer that
// is not yes, tables that the configuration lacks.
func TestWhatIsNotStarted(t *testing.T) {
	no := errors.New("no")
	for name, c := range map[string]struct {
		set     func(s *scene)
		request Request
		command func(o *Operator)
		code    string
	}{
		"nothing is said":  {func(*scene) {}, Request{}, nil, diag.Usage},
		"a gate":           {func(s *scene) { s.Change("Parts", func(st *checkpoint.TableState) { st.NeedsLoad = true }) }, keep, nil, diag.CutoverNotReady},
		"nobody to ask":    {func(*scene) {}, Request{KeepFallback: "no"}, func(o *Operator) { o.Confirm = nil }, diag.Usage},
		"the answer is no": {func(s *scene) { s.answer = no }, Request{KeepFallback: "no"}, nil, "no"},
		"another table":    {func(s *scene) { s.Change("Users", func(st *checkpoint.TableState) { st.Generation = 1 }) }, keep, nil, diag.CutoverRefused},
		"one is under way": {func(s *scene) { s.stands(checkpoint.CutoverDrain) }, keep, nil, diag.CutoverRefused},
		"cut over":         {func(s *scene) { s.stands(checkpoint.CutoverDone) }, keep, nil, diag.CutoverRefused},
	} {
		t.Run(name, func(t *testing.T) {
			playScene(t, func(s *scene) {
				c.set(s)
				before := s.Cutover()
				_, code := s.run(s.Ctx, func(ctx context.Context, o *Operator) error {
					if c.command != nil {
						c.command(o)
					}
					return o.Start(ctx, c.request)
				})
				if after := s.Cutover(); code != c.code || after.Attempt != before.Attempt || after.Step != before.Step || len(s.calls) > 0 {
					t.Errorf("%q, want %q; the record: %s", code, c.code, after.Step)
				}
			})
		})
	}
}

// A record of a table that was never followed keeps no cutover from its begin: it has no rows in any
// target.
func TestATableThatWasNeverFollowedDoesNotCount(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Change("Users", func(st *checkpoint.TableState) { st.Generation = 0 })
		if _, code := s.start(Request{KeepFallback: "no", Yes: true}); code != "" || s.Cutover().Attempt != 1 {
			t.Errorf("%q: attempt %d", code, s.Cutover().Attempt)
		}
	})
}

// A request is approved by --yes, by the answer to the question, or later; --when-ready asks
// nothing, and lets gates wait.
func TestApproval(t *testing.T) {
	playScene(t, func(s *scene) {
		if d, code := s.start(Request{KeepFallback: "yes"}); code != "" || !d.Approved || !d.KeepFallback || len(s.asked) != 1 ||
			!strings.HasPrefix(s.asked[0], "Stop the application's writes, and switch it to orders, parts? The fallback has limits: Orders: a row with an attribute that no item of a sample of 1 has") {
			t.Errorf("%s: %+v, asked %q", code, d, s.asked)
		}
	})
	playScene(t, func(s *scene) {
		s.Change("Parts", func(st *checkpoint.TableState) { st.NeedsLoad = true })
		d, code := s.start(Request{KeepFallback: "no", WhenReady: true, Expires: time.Hour})
		if code != "" || d.Approved || len(s.asked) > 0 || d.Step != "requested" || len(d.NextSteps) != 1 || d.NextSteps[0].Command != "replicator run -c f" {
			t.Fatalf("%s: %+v", code, d)
		}
		expires := s.Cutover().Expires
		if d, code = s.steer(Step{Name: "approve"}); code != "" || !d.Approved {
			t.Errorf("%s: %+v", code, d)
		}
		s.Sleep(time.Minute)
		if _, code = s.steer(Step{Name: "postpone", For: 10 * time.Minute}); code != "" || !s.Cutover().Expires.Equal(expires.Add(10*time.Minute)) || !s.Cutover().NotBefore.Equal(s.Now().Add(10*time.Minute)) {
			t.Errorf("%s: %+v", code, s.Cutover().CutoverPlan)
		}
	})
}

// What nobody approved is not driven by the command that waits for it, which leaves it when it is
// interrupted.
func TestWaitingForApproval(t *testing.T) {
	playScene(t, func(s *scene) {
		ctx, interrupt := context.WithCancelCause(s.Ctx)
		stop := errors.New("interrupted")
		s.World.After(time.Minute, func() { interrupt(stop) })
		s.hook = func(cutover.Call) (string, cutover.Outcome) {
			t.Error("a hook is called")
			return "", cutover.HookDone
		}
		d, code := s.run(ctx, func(ctx context.Context, o *Operator) error {
			return o.Start(ctx, Request{KeepFallback: "no", WhenReady: true, Expires: time.Hour, Wait: true})
		})
		if code != stop.Error() || d.Step != "requested" || d.Driver != nil {
			t.Errorf("%s: %s, driven by %v", code, d.Step, d.Driver)
		}
	})
}

// Each step of an operator is refused where the cutover does not stand for it, and changes the
// record where it does.
func TestSteps(t *testing.T) {
	all := []checkpoint.CutoverStep{checkpoint.CutoverRequested, checkpoint.CutoverDrain, checkpoint.CutoverSwitching, checkpoint.CutoverWatching, checkpoint.CutoverDone}
	for _, c := range []struct {
		step  Step
		at    []checkpoint.CutoverStep
		check func(c checkpoint.Cutover) bool
	}{
		{Step{Name: "approve"}, all[:1], func(c checkpoint.Cutover) bool { return c.Approved }},
		{Step{Name: "postpone", For: time.Hour}, all[:1], func(c checkpoint.Cutover) bool { return c.NotBefore.After(kit.Begin.Add(time.Hour)) }},
		{Step{Name: "cancel"}, all[:2], func(c checkpoint.Cutover) bool {
			return c.Reason == "by an operator" && c.Step == checkpoint.CutoverCancelled
		}},
		{Step{Name: "cancel", Reason: "not today"}, all[:2], func(c checkpoint.Cutover) bool { return c.Reason == "not today" }},
		{Step{Name: "resolve", Answer: true}, all[2:3], func(c checkpoint.Cutover) bool { return c.Answer == "yes" }},
		{Step{Name: "resolve"}, all[2:3], func(c checkpoint.Cutover) bool { return c.Answer == "no" }},
	} {
		playScene(t, func(s *scene) {
			for _, step := range all {
				s.stands(step)
				_, code := s.steer(c.step)
				if fits := slices.Contains(c.at, step); fits != (code == "") || !fits && code != diag.CutoverRefused || fits && !c.check(s.Cutover()) {
					t.Errorf("%s at %s: %q, %+v", c.step.Name, step, code, s.Cutover())
				}
			}
		})
	}
}

// A cutover that ends otherwise is an error for who began it, with the reason; not for who cancels.
func TestACutoverThatIsCancelled(t *testing.T) {
	playScene(t, func(s *scene) {
		s.workers()
		s.hook = func(call cutover.Call) (string, cutover.Outcome) {
			if call.Hook == cutover.FreezeWrites && !call.Probe {
				return "not at night", cutover.HookRefused
			}
			return "", cutover.HookDone
		}
		d, code := s.start(keep)
		if code != diag.CutoverCancelled || d.Step != "cancelled" || d.Reason == nil || !strings.Contains(*d.Reason, "not at night") {
			t.Errorf("%s: %+v", code, d)
		}
		s.hook = func(cutover.Call) (string, cutover.Outcome) { return "", cutover.HookDone }
		_, code = s.start(Request{KeepFallback: "no", Yes: true})
		if code != "" {
			t.Fatal(code)
		}
		for s.Cutover().Step != checkpoint.CutoverDrain {
			s.Sleep(time.Second)
		}
		if d, code = s.steer(Step{Name: "cancel", Wait: true}); code != "" || d.Step != "cancelled" || d.Attempt != 2 {
			t.Errorf("%s: attempt %d, %s", code, d.Attempt, d.Step)
		}
	})
}

// Check fails as long as a gate is not ready, and says nothing of gates once nobody reads streams.
func TestCheck(t *testing.T) {
	check := func(ctx context.Context, o *Operator) error { return o.Check(ctx) }
	playScene(t, func(s *scene) {
		if d, code := s.run(s.Ctx, check); code != "" || !d.Ready || len(d.Gates) != 14 || d.Step != "none" || len(d.WayBack) != 2 {
			t.Errorf("%s: %+v", code, d)
		}
		s.Change("Parts", func(st *checkpoint.TableState) { st.Verify.Result.EndedAt = s.Now().Add(-2 * time.Hour) })
		d, code := s.run(s.Ctx, check)
		if code != diag.CutoverNotReady || d.Ready || !slices.Equal(d.open(), []string{readiness.GateVerify}) || !strings.HasSuffix(d.Gates[9].Cure, " -c f") {
			t.Errorf("%s: %+v", code, d.Gates)
		}
		s.stands(checkpoint.CutoverDrain)
		s.Must(s.Update(func(c *checkpoint.Cutover) error {
			c.Overrides = []checkpoint.CutoverOverride{{Gate: readiness.GateVerify, Reason: "known"}}
			return nil
		}))
		if d, code = s.run(s.Ctx, check); code != "" || d.Ready || d.Gates[9].Overridden != "known" {
			t.Errorf("under way: %s: %+v", code, d.Gates)
		}
		s.Must(s.Update(func(c *checkpoint.Cutover) error { c.Step = checkpoint.CutoverCancelled; return nil }))
		if _, code = s.run(s.Ctx, check); code != diag.CutoverNotReady {
			t.Errorf("an override of an attempt that is over counts: %q", code)
		}
		for _, step := range []checkpoint.CutoverStep{checkpoint.CutoverSwitching, checkpoint.CutoverWatching, checkpoint.CutoverDone} {
			s.stands(step)
			if d, code = s.run(s.Ctx, check); code != "" || len(d.Gates) > 0 {
				t.Errorf("%s: %s, %+v", step, code, d.Gates)
			}
		}
	})
}

// Status shows the gates as the last attempt left them, also once that is over.
func TestStatusKeepsTheGatesOfTheLastAttempt(t *testing.T) {
	playScene(t, func(s *scene) {
		for _, step := range []checkpoint.CutoverStep{checkpoint.CutoverDrain, checkpoint.CutoverCancelled, checkpoint.CutoverDone} {
			s.stands(step)
			s.Must(s.Update(func(c *checkpoint.Cutover) error {
				c.Gates = []checkpoint.CutoverGate{{Name: readiness.GateLag, Table: "Orders", Figure: "held 1s"}}
				return nil
			}))
			if d, code := s.run(s.Ctx, func(ctx context.Context, o *Operator) error { return o.Show(ctx) }); code != "" || len(d.Gates) != 1 || d.Gates[0].Figure != "held 1s" {
				t.Errorf("%s: %s, %+v", step, code, d.Gates)
			}
		}
	})
}

// Status says that nothing is started, and who drives only while he renews his lease.
func TestShow(t *testing.T) {
	show := func(ctx context.Context, o *Operator) error { return o.Show(ctx) }
	playScene(t, func(s *scene) {
		o := s.operator()
		o.Output = "text"
		s.Must(o.Show(s.Ctx))
		if s.stdout.String() != "not started yet\n" {
			t.Errorf("%s", &s.stdout)
		}
		s.stands(checkpoint.CutoverDrain)
		lease, err := s.Ledger.CoordinatorLease(s.Ctx, checkpoint.CutoverLease(""))
		s.Must(err)
		held, err := s.Ledger.TakeCoordinatorLease(s.Ctx, lease)
		s.Must(err)
		s.World.Go("drive", func(context.Context) { _ = held.Keep() })
		d, _ := s.run(s.Ctx, show)
		held.Abandon()
		if gone, _ := s.run(s.Ctx, show); d.Driver == nil || *d.Driver != "tested" || gone.Driver != nil {
			t.Errorf("%v, later %v", d.Driver, gone.Driver)
		}
		s.Store.Clear()
		if d, code := s.run(s.Ctx, show); code != "" || d.Step != "none" || d.Attempt != 0 {
			t.Errorf("%s: %+v", code, d)
		}
	})
}

// Finalize removes families and views of ours alone, once the watch is over and nobody writes; it may
// be repeated, and keeps the record.
func TestFinalize(t *testing.T) {
	finalize := func(f Finalizing) func(context.Context, *Operator) error {
		return func(ctx context.Context, o *Operator) error { return o.Finalize(ctx, f) }
	}
	playScene(t, func(s *scene) {
		s.Config.Target.View = "mapped"
		s.Target.Views["orders"] = []string{"mapped"}
		s.stands(checkpoint.CutoverDone)
		if _, code := s.run(s.Ctx, finalize(Finalizing{Yes: true})); code != diag.FinalizeRefused {
			t.Errorf("with a worker alive: %q", code)
		}
		s.StopWorker()
		s.Sleep(5 * time.Minute)
		before := slices.Clone(s.Target.Families["orders"])
		if _, code := s.run(s.Ctx, finalize(Finalizing{DryRun: true})); code != "" || !slices.Equal(s.Target.Families["orders"], before) || !s.Cutover().FinalizedAt.IsZero() ||
			!strings.Contains(s.stdout.String(), `"dry_run": true`) || strings.Count(s.stdout.String(), `"kind": "family"`) != 6 || strings.Count(s.stdout.String(), `"kind": "view"`) != 2 {
			t.Errorf("dry: %q, %v\n%s", code, s.Target.Families["orders"], &s.stdout)
		}
		s.Must(s.Update(func(c *checkpoint.Cutover) error { c.Strays = 2; return nil })) // which are not in the target
		for seen, want := range map[int]string{0: diag.FinalizeRefused, 1: diag.CutoverRefused, 3: diag.CutoverRefused, 2: ""} {
			if _, code := s.run(s.Ctx, finalize(Finalizing{DryRun: true, StraysSeen: seen})); code != want || s.Cutover().StraysSeen != 0 {
				t.Errorf("%d of 2 late writes were seen: %q, want %q; noted %d", seen, code, want, s.Cutover().StraysSeen)
			}
		}
		s.Must(s.Update(func(c *checkpoint.Cutover) error { return c.See(2, s.Now()) }))
		s.answer = errors.New("no")
		if _, code := s.run(s.Ctx, finalize(Finalizing{})); code != "no" || !slices.Equal(s.Target.Families["orders"], before) || s.stdout.Len() > 0 || !strings.Contains(s.stderr.String(), "Would be removed") {
			t.Errorf("the answer is no: %q\n%s%s", code, &s.stdout, &s.stderr)
		}
		_, code := s.run(s.Ctx, func(ctx context.Context, o *Operator) error { o.Confirm = nil; return o.Finalize(ctx, Finalizing{}) })
		if code != diag.Usage {
			t.Errorf("nobody to ask: %q", code)
		}
		s.Target.Refuse = func(change string) error {
			if change == "drop "+sink.GoneFamily {
				return &sink.Error{Code: "PermissionDenied", Text: "denied"}
			}
			return nil
		}
		if _, code = s.run(s.Ctx, finalize(Finalizing{Yes: true})); code == "" || !s.Cutover().FinalizedAt.IsZero() {
			t.Errorf("though one family stays it is finalized: %q", code)
		}
		s.Target.Refuse = nil
		if _, code = s.run(s.Ctx, finalize(Finalizing{Yes: true})); code != "" || !slices.Equal(s.Target.Families["orders"], []string{"d"}) || !slices.Equal(s.Target.Families["parts"], []string{"d"}) ||
			len(s.Target.Views["orders"]) > 0 || s.Cutover().FinalizedAt.IsZero() || s.Cutover().Step != checkpoint.CutoverDone {
			t.Errorf("%q: %v, %v, %+v", code, s.Target.Families, s.Target.Views, s.Cutover().FinalizedAt)
		}
	})
	playScene(t, func(s *scene) { // whoever still reads a view keeps it
		s.Config.Target.View = "mapped"
		s.Target.Views["orders"] = []string{"mapped"}
		s.stands(checkpoint.CutoverDone)
		s.StopWorker()
		s.Sleep(5 * time.Minute)
		if _, code := s.run(s.Ctx, finalize(Finalizing{Yes: true, KeepView: true})); code != "" || len(s.Target.Views["orders"]) != 1 {
			t.Errorf("%q: %v", code, s.Target.Views)
		}
	})
}

// What remains to be switched off depends on the answer about the fallback, and on the relay.
func TestSwitchOff(t *testing.T) {
	o := &Operator{Cfg: parsed(t, "relay: { pubsub_topic: projects/p/topics/changes }\n")}
	c := checkpoint.Cutover{CutoverPlan: checkpoint.CutoverPlan{Tables: []string{"Orders"}, Targets: []string{"orders"}}}
	no := strings.Join(o.switchOff(c), "\n")
	c.KeepFallback = true
	yes := strings.Join(o.switchOff(c), "\n")
	if !strings.Contains(no, "create-backup --table-name Orders") || strings.Contains(yes, "create-backup") || !strings.Contains(yes, "delete it only when you are sure") ||
		strings.Contains(no, "change stream") || !strings.Contains(yes, "the change stream of table orders of Bigtable; switch it off with: gcloud bigtable instances tables update orders --instance=i --project=p --clear-change-stream-retention-period") ||
		!strings.Contains(no, "StreamEnabled=false") || !strings.Contains(no, "topic projects/p/topics/changes") {
		t.Errorf("%s\n\n%s", no, yes)
	}
}

// Evidence is written of an attempt, into a folder of its own, with what is parked.
func TestEvidence(t *testing.T) {
	playScene(t, func(s *scene) {
		dir := filepath.Join(t.TempDir(), "e")
		write := func(ctx context.Context, o *Operator) error { return ignoreJSON(s, o.Evidence(ctx, dir)) }
		if _, code := s.run(s.Ctx, write); code != diag.CutoverRefused {
			t.Errorf("of no attempt: %q", code)
		}
		s.stands(checkpoint.CutoverCancelled)
		if _, code := s.run(s.Ctx, func(ctx context.Context, o *Operator) error { return ignoreJSON(s, o.Evidence(ctx, dir+"cancelled")) }); code != "" {
			t.Errorf("of an attempt that was cancelled: %q", code)
		}
		s.stands(checkpoint.CutoverWatching)
		parked := transform.Parked{Source: "Orders", Key: "k", Version: transform.NewVersion(5, 1, kit.Position(1), 0), Reason: "r", Change: s.Source.Changes["Orders"][0]}
		s.Must(sink.NewParking(s.Target.Records(""), "p").Park(s.Ctx, parked))
		if _, code := s.run(s.Ctx, write); code != "" {
			t.Fatal(code)
		}
		text, err := os.ReadFile(filepath.Join(dir, "evidence.json"))
		s.Must(err)
		for _, want := range []string{`"step": "watching"`, `"written_by": "1.2.3"`, `"targets": [ "orders" ]`, string(sink.RefOf(parked)), `"` + kit.Shard + `"`} {
			if !strings.Contains(strings.Join(strings.Fields(string(text)), " "), want) {
				t.Errorf("%s is missing in\n%s", want, text)
			}
		}
		if _, code := s.run(s.Ctx, write); code != diag.Usage {
			t.Errorf("written over: %q", code)
		}
	})
}

func ignoreJSON(s *scene, err error) error { s.stdout.Reset(); return err }

// The final verify compares everything, however large a table is; not under another mapping, nor of an
// unknown table.
func TestTheFinalVerifyBegins(t *testing.T) {
	playScene(t, func(s *scene) {
		v := verifier{Ends{Cfg: s.Config, Ledger: s.Ledger, Source: s.Source, Target: s.Target}}
		number, err := v.Begin(s.Ctx, s.Table("Orders"))
		if state := s.Table("Orders"); err != nil || number != 2 || state.Verify.Number != 2 || strings.Contains(string(state.Verify.Plan), "2026") {
			t.Errorf("%d, %v, %s", number, err, state.Verify.Plan)
		}
		s.Source.Count = 1_000_000_000
		if _, err = v.Begin(s.Ctx, s.Table("Parts")); err != nil || strings.Contains(string(s.Table("Parts").Verify.Plan), "2026") {
			t.Errorf("%v, %s", err, s.Table("Parts").Verify.Plan)
		}
		s.Change("Orders", func(st *checkpoint.TableState) { st.MappingHash = "another" })
		if _, err = v.Begin(s.Ctx, s.Table("Orders")); !errors.Is(err, checkpoint.ErrMappingChanged) {
			t.Error(err)
		}
		if _, err = v.Begin(s.Ctx, checkpoint.TableState{Source: "Users"}); err == nil {
			t.Error("a table that is not in the configuration is compared")
		}
	})
}

// The record says who started, approved and cancelled; a step that changes nothing leaves no name.
func TestTheRecordNamesTheOperator(t *testing.T) {
	playScene(t, func(s *scene) {
		s.run(s.Ctx, func(ctx context.Context, o *Operator) error {
			return o.Start(ctx, Request{KeepFallback: "no", WhenReady: true, Expires: time.Hour})
		})
		for range 2 {
			s.steer(Step{Name: "approve"})
		}
		s.steer(Step{Name: "cancel"})
		var named []string
		for _, e := range s.Cutover().Timeline {
			if strings.Contains(e.By, "@") {
				named = append(named, e.Step)
			}
		}
		if want := []string{"requested", "requested", "cancelled"}; !slices.Equal(named, want) {
			t.Errorf("%v, want %v: %+v", named, want, s.Cutover().Timeline)
		}
	})
}
