package switchover

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/test/kit"
	"github.com/dynamodb-bigtable/replicator/test/kit/opened"
)

// scene is an operator at the kit's migration.
type scene struct {
	*kit.Migration
	stdout, stderr bytes.Buffer
	calls          []string
	calledFor      []string // with the group
	hook           func(call cutover.Call) (string, cutover.Outcome)
	answer         error // of the question, nil: yes
	asked          []string
	open           int // connections to the target
}

// closing counts a connection until it is closed.
type closing struct {
	desk.Target
	open *int
}

func (c closing) Close() error {
	*c.open--
	return c.Target.Close()
}

// ends are those of the migration, whose connections are counted.
func (s *scene) ends() desk.Ends {
	ends := opened.By(s.Migration)
	target := ends.Target
	ends.Target = func(ctx context.Context, cfg *config.Config) (desk.Target, error) {
		s.open++
		t, err := target(ctx, cfg)
		return closing{t, &s.open}, err
	}
	return ends
}

func playScene(t *testing.T, script func(s *scene)) {
	t.Helper()
	playConfig(t, "cutover: { groups: { all: [Orders, Parts] }, watch_for: 5m, ready_when: { lag_held_for: 0s } }\n", script)
}

func playConfig(t *testing.T, more string, script func(s *scene)) {
	t.Helper()
	kit.Play(t, kit.Parse(t, more), func(m *kit.Migration) {
		s := &scene{Migration: m}
		s.hook = func(cutover.Call) (string, cutover.Outcome) { return "", cutover.HookDone }
		for _, table := range []string{"Orders", "Parts"} {
			s.Must(s.Source.Put(s.Ctx, table, kit.Item("a")))
			s.Load(table)
		}
		s.Sleep(3 * time.Second)
		script(s)
	})
}

// Call is a hook's call.
func (s *scene) Call(ctx context.Context, call cutover.Call) (string, cutover.Outcome) {
	if !call.Probe {
		s.calls = append(s.calls, call.Hook)
		s.calledFor = append(s.calledFor, call.Group+" "+call.Hook)
	}
	_ = task.Sleep(ctx, time.Second)
	return s.hook(call)
}

func (s *scene) operator() *Operator {
	return &Operator{
		Console: &terminal.Console{Stdout: &s.stdout, Stderr: &s.stderr, Env: func(string) (string, bool) { return "", false }, Output: "json"},
		Cfg:     s.Config, With: " -c f", Version: "1.2.3", Ends: s.ends(),
		Confirm: func(_ context.Context, question string) error { s.asked = append(s.asked, question); return s.answer },
		reach: func(m *desk.Migration) Ends {
			return Ends{Cfg: s.Config, Ledger: m.Ledger, Source: s.Source, Target: s.Target, WayBack: func(context.Context, string) (cutover.WayBack, error) {
				return cutover.WayBack{Window: 5 * time.Minute, Wait: 8 * time.Minute, From: s.Now()}, nil
			}}
		},
		parse: func(*config.Config) (cutover.Hooks, error) { return s, nil },
	}
}

// run runs a command, and gives its document and the code of its error.
func (s *scene) run(ctx context.Context, command func(ctx context.Context, o *Operator) error) (*Document, string) {
	s.Helper()
	s.stdout.Reset()
	err := command(ctx, s.operator())
	if s.open != 0 {
		s.Errorf("%d connections are open after a command", s.open)
		s.open = 0
	}
	d := &Document{}
	if s.stdout.Len() > 0 && json.Unmarshal(s.stdout.Bytes(), d) != nil {
		s.Fatalf("%s", &s.stdout)
	}
	var told *diag.Error
	if err != nil && !errors.As(err, &told) {
		return d, err.Error()
	}
	if told == nil {
		return d, ""
	}
	return d, told.Code
}

func (s *scene) start(r Request) (*Document, string) {
	s.Helper()
	return s.run(s.Ctx, func(ctx context.Context, o *Operator) error { return o.Start(ctx, r) })
}

func (s *scene) steer(step Step) (*Document, string) {
	s.Helper()
	return s.run(s.Ctx, func(ctx context.Context, o *Operator) error { return o.Steer(ctx, step) })
}

// workers drive in the background, as a worker of the kit's migration does not.
func (s *scene) workers() {
	d := Driver(Ends{Cfg: s.Config, Ledger: s.Open("driver"), Source: s.Source, Target: s.Target}, s)
	s.World.Go("drive", func(ctx context.Context) { _ = d.RunAll(ctx, func(checkpoint.Cutovers) bool { return false }) })
	s.compared()
}

// compared lets somebody end every verify that is begun.
func (s *scene) compared() {
	s.World.Go("compare", func(ctx context.Context) {
		for ; ; _ = task.Sleep(ctx, time.Second) {
			for _, source := range []string{"Orders", "Parts"} {
				if state := s.Table(source); state.Verify.Running() {
					now := s.Now()
					_, _ = s.Ledger.EndVerify(ctx, state, checkpoint.VerifyResult{BegunAt: now, EndedAt: now, VerifyCounts: checkpoint.VerifyCounts{Items: 1000}})
				}
			}
		}
	})
}

// stands puts the cutover at a step.
func (s *scene) stands(step checkpoint.CutoverStep) {
	s.Helper()
	s.Must(s.Update(func(c *checkpoint.Cutover) error {
		p := checkpoint.CutoverPlan{Tables: []string{"Orders", "Parts"}, Targets: []string{"orders", "parts"}, Approved: step != checkpoint.CutoverRequested, WatchFor: 5 * time.Minute}
		*c = checkpoint.Cutover{}
		if err := c.Start(p, s.Now()); err != nil {
			return err
		}
		c.Step, c.SwitchedAt = step, s.Now()
		return nil
	}))
}

func hooksOf(calls []string) string { return strings.Join(calls, " ") }
