package lever

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

var noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// scene is a migration of the table Orders, begun in cluster c1, in virtual time.
type scene struct {
	*testing.T
	desk.Target
	world   *virtual.World
	store   *checkpointtest.Memory
	cfg     *config.Config
	ledger  *checkpoint.Ledger
	cluster string // the cluster to which the app profile routes
	exists  bool   // the former cluster
	copied  []string
	out     bytes.Buffer
	stderr  bytes.Buffer
}

func (s *scene) Ledger(string) checkpoint.Store               { return s.store }
func (s *scene) Cluster(context.Context) (string, error)      { return s.cluster, nil }
func (s *scene) Exists(context.Context, string) (bool, error) { return s.exists, nil }
func (s *scene) Replicate(_ context.Context, table string) (err error) {
	s.copied = append(s.copied, table)
	return
}
func (s *scene) Close() error { return nil }

// play runs a script in a world of its own, from noon.
func play(t *testing.T, script func(ctx context.Context, s *scene)) {
	t.Helper()
	cfg, err := config.Parse("f", []byte("version: 1\nname: test\ntarget: {project: p, instance: i}\ntables: [{from: Orders}, {from: Parts}]\n"),
		func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{T: t, world: virtual.NewWorld(1, noon, true), store: &checkpointtest.Memory{}, cfg: cfg, cluster: "c1", exists: true}
	begin := func(ctx context.Context) (err error) {
		if s.ledger, err = checkpoint.Open(ctx, s.store, "test", checkpoint.Options{Worker: "w", ID: "l"}); err == nil {
			err = s.ledger.CheckCluster(ctx, "c1")
		}
		if err == nil {
			_, err = s.ledger.UpdateTable(ctx, "Orders", func(state *checkpoint.TableState) error { state.Generation = 7; return nil })
		}
		return err
	}
	if err := s.world.Run(time.Hour, func(ctx context.Context) {
		if err := begin(ctx); err != nil {
			t.Fatal(err)
		}
		script(ctx, s)
	}); err != nil {
		t.Fatal(err)
	}
}

func (s *scene) console(output string) *terminal.Console {
	s.out.Reset()
	s.stderr.Reset()
	return &terminal.Console{Stdout: &s.out, Stderr: &s.stderr, Output: output, Env: func(string) (string, bool) { return "", false }}
}

func (s *scene) ends() desk.Ends {
	return desk.Ends{Target: func(context.Context, *config.Config) (desk.Target, error) { return s, nil }}
}

// table returns an operator of Orders.
func (s *scene) table(output, reason string) *Operator {
	return &Operator{Console: s.console(output), Cfg: s.cfg, With: " -c f", Table: "Orders", Reason: reason, Ends: s.ends()}
}

func (s *scene) state(ctx context.Context) checkpoint.TableState {
	s.Helper()
	state, _, err := s.ledger.Table(ctx, "Orders")
	if err != nil {
		s.Fatal(err)
	}
	return state
}

func (s *scene) paused(ctx context.Context) bool {
	state := s.state(ctx)
	return state.Paused()
}

func (s *scene) document(into any) {
	s.Helper()
	if err := json.Unmarshal(s.out.Bytes(), into); err != nil {
		s.Fatal(err)
	}
}

// A pause records its time and reason, by the clock of the ledger. A resume removes both. Text and
// document agree.
func TestATableIsPausedAndResumed(t *testing.T) {
	play(t, func(ctx context.Context, s *scene) {
		if err := s.table("json", "a gap at noon").Pause(ctx); err != nil {
			t.Fatal(err)
		}
		var d Document
		s.document(&d)
		if d.Schema != schemaName || d.Table != "Orders" || !d.Paused || d.Since == nil || !d.Since.Equal(noon) || d.Reason == nil || *d.Reason != "a gap at noon" {
			t.Errorf("%+v", d)
		}
		if state := s.state(ctx); !state.Paused() || !state.Pause.Since.Equal(noon) || state.Pause.Reason != "a gap at noon" {
			t.Errorf("%+v", state.Pause)
		}
		_ = task.Sleep(ctx, time.Minute)
		if err := s.table("", "").Pause(ctx); err != nil || !strings.HasPrefix(s.out.String(), "Orders: paused since 2026-11-25T12:0") ||
			!strings.HasSuffix(s.out.String(), ": replicator resume --table Orders -c f\n") {
			t.Errorf("%q, %v", &s.out, err)
		}
		if err := s.table("json", "").Resume(ctx); err != nil {
			t.Fatal(err)
		}
		d = Document{}
		if s.document(&d); d.Paused || d.Since != nil || d.Reason != nil || s.paused(ctx) {
			t.Errorf("%+v", d)
		}
		if err := s.table("", "").Resume(ctx); err != nil || s.out.String() != "Orders: resumed\n" {
			t.Errorf("%q, %v", &s.out, err)
		}
	})
}

// If a table cannot be paused, the command says why and writes nothing.
func TestWhatIsNotPaused(t *testing.T) {
	play(t, func(ctx context.Context, s *scene) {
		for name, c := range map[string]struct {
			table, reason, code string
		}{
			"no table":       {"", "", diag.Usage},
			"unknown":        {"Order", "", diag.Usage},
			"not met":        {"Parts", "", diag.LoadRefused},
			"a long reason":  {"Orders", strings.Repeat("r", mostReason+1), diag.Usage},
			"just so long":   {"Orders", strings.Repeat("r", mostReason), ""},
			"without reason": {"Orders", "", ""},
		} {
			o := s.table("", c.reason)
			o.Table = c.table
			err := o.Pause(ctx)
			if (err == nil) != (c.code == "") || err != nil && !diag.Has(err, c.code) {
				t.Errorf("%s: %v, want %q", name, err, c.code)
			}
			if paused := s.paused(ctx); paused != (err == nil) {
				t.Errorf("%s: paused is %t", name, paused)
			}
			if _, err := s.ledger.ResumeTable(ctx, "Orders"); err != nil {
				t.Fatal(err)
			}
		}
		if _, found, err := s.ledger.Table(ctx, "Parts"); found || err != nil {
			t.Errorf("a table that no worker has met has a record: %v", err)
		}
		o := s.table("", "")
		o.Table = "Parts"
		if err := o.Pause(ctx); err == nil || !strings.Contains(err.Error(), "table Parts is not started yet") {
			t.Errorf("%v", err)
		}
	})
}

// If the ledger does not answer, the command ends at its own time limit.
func TestAPauseEndsWithoutAnAnswer(t *testing.T) {
	play(t, func(ctx context.Context, s *scene) {
		s.store.OnSwap = func(ctx context.Context, _ string, _ func() bool) (bool, error) {
			return false, task.Sleep(ctx, time.Hour)
		}
		if err := s.table("", "").Pause(ctx); !diag.Has(err, diag.TargetUnreachable) || s.world.Now().Sub(noon) != 20*time.Second {
			t.Errorf("%v after %s", err, s.world.Now().Sub(noon))
		}
	})
}

// failover returns an operator who answers every question with yes.
func (s *scene) failover(output string, asked *[]string) *Failover {
	return &Failover{Console: s.console(output), Cfg: s.cfg, With: " -c f", Ends: s.ends(), Confirm: func(_ context.Context, question string) error {
		*asked = append(*asked, question)
		return nil
	}}
}

var errNo = errors.New("no")

// A failover first asks what it cannot find out, and waits until every worker must have noticed the
// new route.
func TestAFailoverLoadsEverything(t *testing.T) {
	play(t, func(ctx context.Context, s *scene) {
		s.cluster = "c2"
		var asked []string
		o := s.failover("", &asked)
		o.Confirm = func(context.Context, string) error { return errNo }
		if err := o.Run(ctx); !errors.Is(err, errNo) || s.world.Elapsed() != 0 || s.state(ctx).Generation != 7 {
			t.Fatalf("without consent: %v", err)
		}
		if err := s.failover("", &asked).Run(ctx); err != nil {
			t.Fatal(err)
		}
		if len(asked) != 1 || !strings.HasPrefix(asked[0], "Is every worker stopped? Every table will be loaded again") {
			t.Errorf("asked %q", asked)
		}
		if waited := s.world.Elapsed(); waited != s.cfg.State.Lease+engine.NoticeTime {
			t.Errorf("it waited %s", waited)
		}
		if got := s.out.String(); got != "the migration uses cluster c2 instead of c1; 1 table must be loaded again\n"+
			"start the workers: replicator run -c f; then: replicator backfill start --repair-gap -c f\n" {
			t.Errorf("%q", got)
		}
		if state := s.state(ctx); !state.NeedsLoad || state.Generation <= 7 || !strings.Contains(s.stderr.String(), "waiting 1m35s") || s.copied[0] != s.cfg.State.Table {
			t.Errorf("%+v, %q, %v", state, &s.stderr, s.copied)
		}
		if err := s.failover("", &asked).Run(ctx); err != nil || s.out.String() != "nothing to do: the ledger and the app profile use cluster c2\n" {
			t.Errorf("%q, %v", &s.out, err)
		}
	})
}

// If all workers had stopped before and the operator says so, everything continues at its
// checkpoints.
func TestAFailoverKeepsPositions(t *testing.T) {
	play(t, func(ctx context.Context, s *scene) {
		s.cluster = "c2"
		var asked []string
		o := s.failover("", &asked)
		o.StoppedFirst, o.StillFor = true, s.cfg.State.Lease
		if err := o.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if len(asked) != 1 || !strings.HasPrefix(asked[0], "Did every worker stop before") || s.world.Elapsed() != s.cfg.State.Lease {
			t.Errorf("asked %q, waited %s", asked, s.world.Elapsed())
		}
		if got := s.out.String(); got != "the migration uses cluster c2 instead of c1; every table resumes from its checkpoints\nstart the workers: replicator run -c f\n" ||
			s.state(ctx).Generation != 7 {
			t.Errorf("%q", got)
		}
	})
}

// A rehearsal asks no question and changes nothing. Its document says what would happen.
func TestAFailoverIsRehearsed(t *testing.T) {
	play(t, func(ctx context.Context, s *scene) {
		s.cluster = "c2"
		var asked []string
		for _, output := range []string{"json", ""} {
			o := s.failover(output, &asked)
			o.DryRun = true
			if output == "" {
				o.Confirm = nil // off a terminal, for example
			}
			if err := o.Run(ctx); err != nil || len(asked) != 0 {
				t.Fatalf("%v, asked %q", err, asked)
			}
			if state := s.state(ctx); state.NeedsLoad || state.Generation != 7 {
				t.Errorf("a rehearsal wrote %+v", state)
			}
			if cluster, err := s.ledger.Cluster(ctx); err != nil || cluster != "c1" {
				t.Errorf("a rehearsal moved the ledger to %s: %v", cluster, err)
			}
			if output == "" {
				if s.out.String() != "the migration would use cluster c2 instead of c1; 1 table must be loaded again\n" {
					t.Errorf("%q", &s.out)
				}
				continue
			}
			var d FailedOver
			s.document(&d)
			if d.Schema != "replicator.failover/v1" || d.From != "c1" || d.To != "c2" || d.Outcome != "loads" || !d.DryRun || len(d.Loads) != 1 || d.Loads[0] != "Orders" {
				t.Errorf("%+v", d)
			}
		}
		s.cluster = "c1"
		if err := s.failover("json", &asked).Run(ctx); err != nil || !strings.Contains(s.out.String(), `"loads": []`) || !strings.Contains(s.out.String(), `"dry_run": false`) {
			t.Errorf("%s, %v", &s.out, err)
		}
	})
}

// The refusals of a failover, and when they happen: before any wait if possible.
func TestAFailoverIsRefused(t *testing.T) {
	play(t, func(ctx context.Context, s *scene) {
		s.cluster = "c2"
		var asked []string
		for name, c := range map[string]struct {
			change func(o *Failover)
			code   string
			text   string
		}{
			"nobody is asked":  {func(o *Failover) { o.Confirm = nil }, diag.Usage, "there is no terminal"},
			"no answer":        {func(o *Failover) { o.Switched = "maybe" }, diag.Usage, "--switched is maybe"},
			"short":            {func(o *Failover) { o.StillFor = s.cfg.State.Lease - time.Second }, diag.Usage, "--still-for is 14s"},
			"the cluster left": {func(o *Failover) { s.exists, o.Yes, o.StoppedFirst = false, true, true }, diag.FailoverRefused, "cluster c1 was deleted"},
		} {
			s.exists = true
			o := s.failover("", &asked)
			c.change(o)
			if err := o.Run(ctx); !diag.Has(err, c.code) || !strings.Contains(err.Error(), c.text) || s.world.Elapsed() != 0 {
				t.Errorf("%s: %v after %s", name, err, s.world.Elapsed())
			}
		}
		s.exists, s.store.OnRead = true, nil
		o := s.failover("", &asked)
		o.StillFor, o.Yes, o.DryRun = s.cfg.State.Lease, true, true
		if err := o.Run(ctx); err != nil || s.world.Elapsed() != s.cfg.State.Lease {
			t.Errorf("as long as a lease: %v after %s", err, s.world.Elapsed())
		}
		s.world.Go("a worker that nobody stopped", func(ctx context.Context) {
			_ = task.Sleep(ctx, 30*time.Second)
			_, _ = s.ledger.UpdateTable(ctx, "Orders", func(state *checkpoint.TableState) error { state.Reason = "it works"; return nil })
		})
		o = s.failover("", &asked)
		o.Yes = true
		err := o.Run(ctx)
		var told *diag.Error
		if !errors.As(err, &told) || told.Code != diag.FailoverRefused || !strings.Contains(told.Cause, "the ledger is still written") || told.Fix == "" || len(asked) != 0 {
			t.Errorf("%v, asked %q", err, asked)
		}
	})
}

// The command reports what happens to a cutover, and what remains lost after the switch.
func TestAFailoverSaysWhatBecomesOfACutover(t *testing.T) {
	const cancelled = "the cutover is cancelled; the application stays frozen until a worker has called hook unfreeze_writes"
	const missing = "cluster c1 was deleted: rows that it accepted last may be missing, and replicator loads nothing after the switch"
	for _, c := range []struct {
		step     checkpoint.CutoverStep
		exists   bool
		switched string
		says     []string
		next     string
	}{
		{checkpoint.CutoverChecks, true, "", []string{"the cutover is cancelled"}, "start the workers: replicator run -c f; then: replicator backfill start --repair-gap -c f"},
		{checkpoint.CutoverDrain, true, "", []string{cancelled}, "start the workers: replicator run -c f; then: replicator backfill start --repair-gap -c f"},
		{checkpoint.CutoverDrain, false, "no", []string{cancelled}, "start the workers: replicator run -c f; then: replicator backfill start --repair-gap -c f"},
		{checkpoint.CutoverSwitching, true, "yes", nil, "start the workers: replicator run -c f, which watches for late writers"},
		{checkpoint.CutoverWatching, false, "", []string{missing}, "start the workers: replicator run -c f, which watches for late writers"},
		{checkpoint.CutoverDone, true, "", nil, ""},
	} {
		play(t, func(ctx context.Context, s *scene) {
			s.cluster, s.exists = "c2", c.exists
			_, err := s.ledger.UpdateCutover(ctx, "", func(r *checkpoint.Cutover) error {
				r.Attempt, r.Step, r.Tables, r.StepAt = 1, c.step, []string{"Orders"}, noon
				if c.step != checkpoint.CutoverChecks {
					r.FreezeBegunAt, r.FrozenAt = noon, noon
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			o := s.failover("", nil)
			o.Yes, o.Switched = true, c.switched
			if err := o.Run(ctx); err != nil {
				t.Fatalf("%s: %v", c.step, err)
			}
			lines := strings.Split(strings.TrimSpace(s.out.String()), "\n")
			want := c.says
			if c.next != "" {
				want = append(want, c.next)
			}
			if !slices.Equal(lines[1:], want) {
				t.Errorf("%s, answered %q: %q", c.step, c.switched, lines)
			}
			if loads := strings.HasSuffix(lines[0], "; 1 table must be loaded again"); loads != (c.says != nil && c.says[0] != missing) {
				t.Errorf("%s, answered %q: %q", c.step, c.switched, lines[0])
			}
		})
	}
}

// A cutover with an unknown outcome needs an answer first. The document names its step.
func TestAFailoverAsksWhetherTheApplicationHasSwitched(t *testing.T) {
	play(t, func(ctx context.Context, s *scene) {
		s.cluster, s.exists = "c2", false
		_, err := s.ledger.UpdateCutover(ctx, "", func(r *checkpoint.Cutover) error {
			r.Attempt, r.Step, r.StepAt, r.FreezeBegunAt, r.FrozenAt = 1, checkpoint.CutoverSwitching, noon, noon, noon
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		o := s.failover("", nil)
		o.Yes = true
		var told *diag.Error
		if err := o.Run(ctx); !errors.As(err, &told) || told.Code != diag.FailoverRefused || !strings.Contains(told.Fix, "--switched yes") || s.world.Elapsed() != 0 {
			t.Errorf("%v after %s", err, s.world.Elapsed())
		}
		o = s.failover("json", nil)
		o.Yes, o.Switched = true, "yes"
		if err := o.Run(ctx); err != nil {
			t.Fatal(err)
		}
		var d FailedOver
		if s.document(&d); d.Outcome != "cut_over" || d.Cutover == nil || *d.Cutover != "watching" || !d.FormerDeleted || len(d.Loads) != 0 {
			t.Errorf("%+v", d)
		}
	})
}
