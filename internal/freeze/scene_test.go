package freeze

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
	"github.com/dynamodb-bigtable/replicator/internal/tablepolicy"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/kit"
)

// wait is W in these tests.
const wait = 8 * time.Minute

// scene is a cutover of the kit's migration whose tables are frozen by their policies.
type scene struct {
	*kit.Migration
	policy  *Policy
	driver  *cutover.Driver
	service map[string]*service // by table
	calls   []string            // of hooks
	frozen  map[string]bool     // whether the policies denied writes at each call, by hook
	failed  []string
	hooked  func(call cutover.Call) // is called with each call of a hook

	reversed checkpoint.ReverseResult // the comparisons of rollbacks
	refuses  bool                     // the hook refuses to switch back
	silent   func(call cutover.Call) bool
}

// service is the policy of one table. A change takes effect after a delay.
type service struct {
	s        *scene
	text     string
	revision int
	inForce  string // the text that is in force
	delay    time.Duration
	puts     int
	busy     bool   // changes are throttled
	rejects  string // the reason of rejected puts; "" for none
	loses    bool   // the next put is executed later: no answer comes
	late     bool   // it was executed
	blind    bool   // the probe's role may never write
	mute     bool   // the probe has no answers
	open     bool   // the probe is let through whatever the policy says
}

func playScene(t *testing.T, script func(s *scene)) {
	t.Helper()
	kit.Play(t, kit.Parse(t, ""), func(m *kit.Migration) {
		s := &scene{Migration: m, service: map[string]*service{}, frozen: map[string]bool{}, hooked: func(cutover.Call) {}}
		for _, source := range []string{"Orders", "Parts"} {
			s.service[source] = &service{s: s, delay: 5 * time.Second}
		}
		s.policy = s.newPolicy(m.Ledger)
		s.driver = s.newDriver(m.Ledger, s.policy)
		script(s)
	})
}

func (s *scene) newPolicy(ledger *checkpoint.Ledger) *Policy {
	return &Policy{
		Ledger: ledger, Policies: s, Role: "arn:aws:iam::111122223333:role/probe",
		Reach: func(_ context.Context, source string) (string, tablepolicy.Prober, error) {
			return source, s.service[source], nil
		},
		Exempt: func(context.Context) ([]string, error) { return []string{"arn:aws:iam::111122223333:role/own"}, nil },
		Failed: func(step string, err error) { s.failed = append(s.failed, step+": "+err.Error()) },
	}
}

func (s *scene) newDriver(ledger *checkpoint.Ledger, policy *Policy) *cutover.Driver {
	return &cutover.Driver{
		Ledger: ledger, Fence: fence.Fence{Ledger: ledger, Families: s.Target}, Hooks: s, Source: s.Source, Open: s.Source.Open, Verifier: s,
		Missing: []string{cutover.FreezeWrites, cutover.UnfreezeWrites}, Freezer: policy,
		Parked:   func(context.Context, string) ([]string, error) { return nil, nil },
		Settings: cutover.Settings{Ready: readiness.Limits{LagBelow: 5 * time.Second, VerifyWithin: time.Hour, HeadroomAbove: 12 * time.Hour}},
		Failed:   func(step string, err error) { s.failed = append(s.failed, step+": "+err.Error()) },
	}
}

// denies reports whether the policy of a table denies writes now.
func (s *service) denies() bool { return strings.Contains(s.inForce, "ReplicatorFreeze") }

func (s *scene) denies() bool { return s.service["Orders"].denies() && s.service["Parts"].denies() }

// clean reports whether no policy has a statement.
func (s *scene) clean() bool { return s.service["Orders"].text+s.service["Parts"].text == "" }

// set changes a policy, which takes effect later.
func (s *service) set(text string) {
	s.text, s.revision = text, s.revision+1
	s.s.World.Go("take effect", func(ctx context.Context) {
		_ = task.Sleep(ctx, s.delay)
		s.inForce = text
	})
}

func (s *scene) Get(ctx context.Context, table string) (tablepolicy.Policy, error) {
	_ = task.Sleep(ctx, 20*time.Millisecond)
	one := s.service[table]
	if one.text == "" {
		return tablepolicy.Policy{}, nil
	}
	return tablepolicy.Policy{Text: one.text, Revision: fmt.Sprint(one.revision)}, nil
}

func (s *scene) Put(ctx context.Context, table, text, revision string, _ time.Time) tablepolicy.Answer {
	return s.change(ctx, table, text, revision)
}

func (s *scene) Delete(ctx context.Context, table, revision string, _ time.Time) tablepolicy.Answer {
	return s.change(ctx, table, "", revision)
}

func (s *scene) change(ctx context.Context, table, text, revision string) tablepolicy.Answer {
	_ = task.Sleep(ctx, 20*time.Millisecond)
	one := s.service[table]
	before := ""
	if one.text != "" {
		before = fmt.Sprint(one.revision)
	}
	one.puts++
	switch {
	case one.rejects != "":
		return tablepolicy.Answer{Outcome: tablepolicy.Unfitting, Reason: one.rejects}
	case one.busy:
		return tablepolicy.Answer{Outcome: tablepolicy.Refused, Reason: "throttled"}
	case before != revision:
		return tablepolicy.Answer{Outcome: tablepolicy.Changed}
	case one.loses:
		one.loses = false
		s.World.After(wait-time.Minute, func() {
			if one.text == "" {
				one.set(text)
				one.late = true
			}
		})
		return tablepolicy.Answer{}
	}
	one.set(text)
	return tablepolicy.Answer{Outcome: tablepolicy.Done}
}

// Put and Transact are the probe's writes.
func (s *service) Put(ctx context.Context) tablepolicy.Seen {
	_ = task.Sleep(ctx, 10*time.Millisecond)
	switch {
	case s.mute:
		return tablepolicy.Unseen
	case s.blind, s.denies() && !s.open:
		return tablepolicy.Denied
	}
	return tablepolicy.LetThrough
}

func (s *service) Transact(ctx context.Context) tablepolicy.Seen { return s.Put(ctx) }

// Call is a hook's call.
func (s *scene) Call(ctx context.Context, call cutover.Call) (string, cutover.Outcome) {
	if !call.Probe {
		s.calls = append(s.calls, call.Hook)
		s.frozen[call.Hook] = s.denies()
		s.hooked(call)
	}
	_ = task.Sleep(ctx, time.Second)
	if s.silent != nil && !call.Probe && s.silent(call) {
		return "", cutover.HookUnknown
	}
	if s.refuses && call.Hook == cutover.Switch && !call.Probe {
		return "no", cutover.HookRefused
	}
	return "", cutover.HookDone
}

// Begin begins a final verify of a rehearsal, which workers end later.
func (s *scene) Begin(ctx context.Context, state checkpoint.TableState) (uint32, error) {
	begun, err := s.Ledger.BeginVerify(ctx, state, checkpoint.VerifyPlan{Plan: []byte("{}"), Phase: 1, Parts: 1, BegunAt: s.Now(), MappingHash: state.MappingHash})
	if err != nil {
		return 0, err
	}
	s.World.Go("verify "+state.Source, func(ctx context.Context) {
		_ = task.Sleep(ctx, 5*time.Second)
		r := checkpoint.VerifyResult{BegunAt: begun.Verify.BegunAt, EndedAt: s.Now()}
		r.Items = 1000
		_, err := s.Ledger.EndVerify(ctx, begun, r)
		s.Must(err)
	})
	return begun.Verify.Number, nil
}

func (s *scene) Sample(ctx context.Context, state checkpoint.TableState, _ int) (checkpoint.VerifyResult, error) {
	return s.Compare(ctx, state)
}

func (s *scene) Compare(ctx context.Context, state checkpoint.TableState) (checkpoint.VerifyResult, error) {
	began := s.Now()
	_ = task.Sleep(ctx, 3*time.Second)
	r := checkpoint.VerifyResult{Generation: state.Generation, BegunAt: began, EndedAt: s.Now()}
	r.Items = 1000
	return r, ctx.Err()
}

// Reverse compares the items of a table with its rows, in a rollback.
func (s *scene) Reverse(context.Context, string) (checkpoint.ReverseResult, error) {
	r := s.reversed
	r.EndedAt = s.Now()
	return r, nil
}

func plan() checkpoint.CutoverPlan {
	return checkpoint.CutoverPlan{Tables: []string{"Orders", "Parts"}, Targets: []string{"orders", "parts"}, Approved: true, WatchFor: time.Hour, ByPolicy: true, PolicyWait: wait,
		FreezeAtMost: 30 * time.Second, FreezeWithin: 4 * time.Minute, FreezeDeadline: 2 * time.Minute}
}

func (s *scene) start(p checkpoint.CutoverPlan) {
	s.Helper()
	s.Must(s.Update(func(c *checkpoint.Cutover) error { return c.Start(p, s.Now()) }))
}

// drive drives until the record is as until says.
func (s *scene) drive(d *cutover.Driver, within time.Duration, until func(c checkpoint.Cutover) bool) checkpoint.Cutover {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Ctx)
	defer cancel()
	s.World.After(within, cancel)
	s.Must(d.Run(ctx, until))
	return s.Cutover()
}

func settled(c checkpoint.Cutover) bool { return c.Step.Over() || c.Step.Switched() }

func at(step checkpoint.CutoverStep) func(checkpoint.Cutover) bool {
	return func(c checkpoint.Cutover) bool { return c.Step == step }
}
