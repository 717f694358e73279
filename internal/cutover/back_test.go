package cutover

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// backScene is a scene after the switch of a cutover with a way back, with leaders that do what the
// records ask of them.
type backScene struct {
	*scene
	left     time.Duration                // how long a leader takes to stop
	changes  func(f *checkpoint.Fallback) // what leaders write into their records
	stuck    time.Time                    // leaders have settled nothing after this time; zero: everything
	moments  []string                     // for each call of a hook: direction, hook, states of the ways back
	reverse  func(source string) (checkpoint.ReverseResult, error)
	reversed []time.Time
}

// backWait is W in these scenes.
const backWait = 3 * time.Minute

func backPlan() checkpoint.CutoverPlan {
	p := plan()
	p.KeepFallback, p.WatchFor = true, time.Hour
	return p
}

// playBack plays a script with a scene whose application has switched, and whose leaders follow for
// longer than W.
func playBack(t *testing.T, script func(s *backScene)) {
	t.Helper()
	playScene(t, func(s *scene) {
		b := &backScene{scene: s, left: 2 * time.Second, changes: func(*checkpoint.Fallback) {}}
		b.reverse = func(string) (checkpoint.ReverseResult, error) { return checkpoint.ReverseResult{Rows: 1000}, nil }
		b.prepare(s.driver)
		answer := s.hook
		s.hook = func(call Call) (string, Outcome) {
			if !call.Probe {
				b.moments = append(b.moments, call.Direction+" "+call.Hook+" "+b.states())
			}
			return answer(call)
		}
		b.lead()
		if c := s.play(backPlan()); c.Step != checkpoint.CutoverWatching {
			t.Fatalf("%s because of %q", c.Step, c.Reason)
		}
		s.driveFor(2 * backWait)
		if states := b.states(); states != "following following" {
			t.Fatal(states)
		}
		b.moments, s.calls = nil, nil
		script(b)
	})
}

func (b *backScene) prepare(d *Driver) {
	d.Verifier = b
	d.WayBack = func(context.Context, string) (WayBack, error) {
		return WayBack{Window: time.Minute, Wait: backWait, From: b.Now().Add(-time.Minute)}, nil
	}
}

// Reverse compares the items of a table with its rows.
func (b *backScene) Reverse(ctx context.Context, source string) (checkpoint.ReverseResult, error) {
	began := b.Now()
	b.reversed = append(b.reversed, began)
	_ = task.Sleep(ctx, time.Second)
	r, err := b.reverse(source)
	r.BeganAt, r.EndedAt = began, b.Now()
	return r, err
}

// lead leads all tables, without writing anything.
func (b *backScene) lead() {
	b.World.Go("lead", func(ctx context.Context) {
		stops := map[string]time.Time{} // when each leader was asked to stop
		for ; ctx.Err() == nil; _ = task.Sleep(ctx, 500*time.Millisecond) {
			for _, source := range plan().Tables {
				f, found, err := b.Ledger.Fallback(ctx, source)
				if err != nil || !found || f.State == checkpoint.FallbackStopped {
					continue
				}
				if f.State != checkpoint.FallbackStopping {
					delete(stops, source)
				} else if stops[source].IsZero() {
					stops[source] = b.Now()
				}
				over := !stops[source].IsZero() && b.Now().Sub(stops[source]) >= b.left
				_, _ = b.Ledger.UpdateFallback(ctx, source, 1, func(f *checkpoint.Fallback) error {
					if f.Led.IsZero() {
						f.Led = b.Now()
					}
					f.SavedAt, f.Settled = b.Now(), b.Now().Add(-time.Second)
					if !b.stuck.IsZero() {
						f.Settled = b.stuck
					}
					if f.State == checkpoint.FallbackStopping && over {
						f.State, f.Led = checkpoint.FallbackStopped, time.Time{}
					}
					b.changes(f)
					return nil
				})
			}
		}
	})
}

// states are the states of the ways back of both tables.
func (b *backScene) states() string {
	found, err := b.driver.Ledger.Fallbacks(b.Ctx, plan().Tables)
	b.Must(err)
	var states []string
	for _, f := range found {
		states = append(states, string(f.State))
	}
	return strings.Join(states, " ")
}

// request begins a rollback.
func (b *backScene) request(more ...func(p *checkpoint.CutoverPlan)) {
	b.Helper()
	p := checkpoint.CutoverPlan{FreezeWithin: time.Minute, FreezeDeadline: 10 * time.Minute}
	for _, f := range more {
		f(&p)
	}
	b.Must(b.Update(func(c *checkpoint.Cutover) error { return c.StartRollback(p, b.Now()) }))
}

// undo begins a rollback and drives until no driver is needed for it. The result is the rollback.
func (b *backScene) undo(more ...func(p *checkpoint.CutoverPlan)) checkpoint.Cutover {
	b.Helper()
	b.request(more...)
	return b.finish()
}

func (b *backScene) finish() checkpoint.Cutover {
	b.Helper()
	c := b.drive(func(checkpoint.Cutover) bool { return !b.rolling() })
	return c.Undo()
}

func (b *backScene) rolling() bool {
	c := b.Cutover()
	return c.RollingBack()
}

// backAt reports whether the rollback is in a step.
func (b *backScene) backAt(step checkpoint.CutoverStep) func(checkpoint.Cutover) bool {
	return func(checkpoint.Cutover) bool { c := b.Cutover(); return c.Undo().Step == step }
}

// called compares the calls of hooks with the states of the ways back at each.
func (b *backScene) called(want ...string) {
	b.Helper()
	if !slices.Equal(b.moments, want) {
		b.Errorf("calls %q, want %q", b.moments, want)
	}
}

// stays reports that the cutover goes on with its way back after a cancelled rollback.
func (b *backScene) stays(r checkpoint.Cutover, reason string) {
	b.Helper()
	c := b.Cutover()
	if r.Step != checkpoint.CutoverCancelled || !strings.Contains(r.Reason, reason) || c.Step != checkpoint.CutoverWatching || !c.SafeToWrite() || b.states() != "following following" {
		b.Errorf("rollback %s because of %q, want %q; cutover %s, ways back %s; failed %q", r.Step, r.Reason, reason, c.Step, b.states(), b.failed)
	}
	if last := fmt.Sprintf("rollback attempt %d was cancelled: ", r.Attempt); !slices.ContainsFunc(c.Timeline, func(e checkpoint.CutoverEvent) bool { return strings.HasPrefix(e.Text, last) }) {
		b.Errorf("%q is not noted: %+v", last, c.Timeline)
	}
}
