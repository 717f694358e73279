package freeze

import (
	"context"
	"fmt"
	"testing"
	"time"
)

var deadline = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// memory is a store.
type memory struct {
	state  State
	before func() // is called before a swap, once
}

func (m *memory) Load(context.Context) (State, error) { return m.state, nil }

func (m *memory) Swap(_ context.Context, before, after State) (bool, error) {
	if f := m.before; f != nil {
		m.before = nil
		f()
	}
	if m.state != before {
		return false, nil
	}
	m.state = after
	return true, nil
}

// call is one of the calls of two attempts, or an instance that ends the freeze.
type call struct {
	name    string
	attempt uint64
}

func (c call) make(t *testing.T, m *memory) Outcome {
	t.Helper()
	var outcome Outcome
	var err error
	switch c.name {
	case "freeze":
		outcome, err = Freeze(t.Context(), m, c.attempt, deadline)
	case "switch":
		outcome, err = Switch(t.Context(), m, c.attempt)
	case "unfreeze":
		outcome, err = Unfreeze(t.Context(), m, c.attempt)
	case "end":
		_, err = End(t.Context(), m, deadline)
	}
	if err != nil {
		t.Fatal(err)
	}
	return outcome
}

// In every order of calls of two attempts, late and repeated ones among them, and of instances that
// end a freeze: an application that has switched never writes DynamoDB again, it switches only out of
// a freeze of the same attempt, and a refused switch has not switched, and does not later.
func TestEveryOrderOfCalls(t *testing.T) {
	calls := []call{{"freeze", 1}, {"switch", 1}, {"unfreeze", 1}, {"freeze", 2}, {"switch", 2}, {"unfreeze", 2}, {"end", 0}}
	orders := 0
	var play func(m memory, refused map[uint64]bool, way string, left int)
	play = func(m memory, refused map[uint64]bool, way string, left int) {
		if orders++; left == 0 {
			return
		}
		for _, c := range calls {
			next, still := m, map[uint64]bool{1: refused[1], 2: refused[2]}
			outcome := c.make(t, &next)
			if c.name == "freeze" && outcome == Done && next.state.Attempt == c.attempt {
				still[c.attempt] = false // a call of the hook before the switch: the answer was of an earlier one
			}
			where := fmt.Sprintf("%s %s %d", way, c.name, c.attempt)
			switch {
			case m.state.Phase == Switched && next.state != m.state:
				t.Fatalf("%s: an application that has switched becomes %+v", where, next.state)
			case next.state.Phase == Switched && m.state.Phase != Switched && (m.state.Phase != Frozen || m.state.Attempt != c.attempt):
				t.Fatalf("%s: it switches out of %+v", where, m.state)
			case next.state.Phase == Switched && still[next.state.Attempt]:
				t.Fatalf("%s: a switch that was refused has switched", where)
			case outcome == Done && c.name == "switch" && next.state.Phase != Switched:
				t.Fatalf("%s: done, and it has not switched", where)
			case next.state.Attempt < m.state.Attempt:
				t.Fatalf("%s: attempt %d follows attempt %d", where, next.state.Attempt, m.state.Attempt)
			}
			still[c.attempt] = still[c.attempt] || c.name == "switch" && outcome == Refused
			play(next, still, where, left-1)
		}
	}
	play(memory{state: State{Phase: Open}}, map[uint64]bool{}, "", 6)
	t.Logf("%d histories", orders)
}

// Between an instance's look and its swap the switch may come, and the other way round: one of them
// counts, and the other one learns that.
func TestASwitchAndAnEndAtTheSameTime(t *testing.T) {
	ctx := t.Context()
	m := &memory{state: State{Frozen, 1, deadline}}
	m.before = func() { _, _ = Switch(ctx, m, 1) }
	if open, err := End(ctx, m, deadline); open || err != nil || m.state.Phase != Switched {
		t.Errorf("open %t, %v, %+v", open, err, m.state)
	}
	m = &memory{state: State{Frozen, 1, deadline}}
	m.before = func() { _, _ = End(ctx, m, deadline) }
	if outcome, err := Switch(ctx, m, 1); outcome != Refused || err != nil || m.state.Phase != Open {
		t.Errorf("%d, %v, %+v", outcome, err, m.state)
	}
	if outcome, _ := Freeze(ctx, m, 1, deadline); outcome != Unknown || m.state.Phase != Open {
		t.Errorf("%d, %+v", outcome, m.state)
	}
	if open, err := End(ctx, &memory{state: State{Frozen, 1, deadline}}, deadline.Add(-1)); open || err != nil {
		t.Errorf("it ends before the deadline: %v", err)
	}
}
