// Package freeze lets an application end a freeze by itself.
//
// A cutover freezes the application for seconds. If whoever drives it disappears, an application may
// resume at the deadline that the hooks get, in CUTOVER_DEADLINE. That is safe in one way only: by a
// compare-and-set in the one record that the switch changes. A timer in each instance is not safe: the
// switch may come while an instance has resumed, and no clock decides which was first.
//
// The record is in one store, such as an item of DynamoDB that is written with a condition, or a row
// of Bigtable that is written with CheckAndMutateRow. Every instance reads it before each write, or
// holds a lease on what it read. The hooks of the cutover call Freeze, Switch and Unfreeze.
package freeze

import (
	"context"
	"time"
)

// Phase is where the application writes.
type Phase string

// The phases.
const (
	Open     Phase = "open"     // to DynamoDB
	Frozen   Phase = "frozen"   // nowhere
	Switched Phase = "switched" // to Bigtable, for good
)

// State is the record. Attempt is the first number of the token of the last call that counted: the
// attempt of the cutover. Deadline is when the application may end the freeze of that attempt.
type State struct {
	Phase    Phase
	Attempt  uint64
	Deadline time.Time
}

// Store holds the record.
type Store interface {
	Load(ctx context.Context) (State, error)
	// Swap replaces the record if it still is before. It reports whether it did.
	Swap(ctx context.Context, before, after State) (bool, error)
}

// Outcome is the exit status with which a hook answers.
type Outcome int

// The outcomes. Unknown has the hook called again. Refused promises that nothing was switched.
const (
	Done    Outcome = 0
	Unknown Outcome = 75
	Refused Outcome = 77
)

// Freeze is the hook freeze_writes. It does not freeze again in an attempt whose freeze has ended.
// After Done, wait until no instance has a write in flight before the hook answers.
func Freeze(ctx context.Context, store Store, attempt uint64, deadline time.Time) (Outcome, error) {
	return change(ctx, store, func(s State) (State, Outcome) {
		switch {
		case s.Phase == Frozen && s.Attempt == attempt:
			return s, Done
		case s.Phase == Switched || attempt <= s.Attempt:
			return s, Unknown
		}
		return State{Frozen, attempt, deadline}, Done
	})
}

// Switch is the hook switch. It switches an application that is frozen for this attempt, and no other.
func Switch(ctx context.Context, store Store, attempt uint64) (Outcome, error) {
	return change(ctx, store, func(s State) (State, Outcome) {
		switch {
		case s.Phase == Switched && s.Attempt == attempt:
			return s, Done
		case s.Phase == Frozen && s.Attempt == attempt:
			return State{Switched, attempt, time.Time{}}, Done
		case s.Phase == Switched: // by a later attempt: this call is late
			return s, Unknown
		}
		return s, Refused
	})
}

// Unfreeze is the hook unfreeze_writes. A call of an attempt also ends those before it.
func Unfreeze(ctx context.Context, store Store, attempt uint64) (Outcome, error) {
	return change(ctx, store, func(s State) (State, Outcome) {
		switch {
		case s.Phase == Switched || attempt < s.Attempt:
			return s, Unknown
		case s.Phase == Open && s.Attempt == attempt:
			return s, Done
		}
		return State{Open, attempt, time.Time{}}, Done
	})
}

// End is what an instance does when it finds the application frozen after the deadline. It reports
// whether the application may write DynamoDB again. The clock of the instance need not be right: a
// switch that was first stays, and one that comes later is refused.
func End(ctx context.Context, store Store, now time.Time) (bool, error) {
	s, err := store.Load(ctx)
	if err != nil || s.Phase != Frozen || now.Before(s.Deadline) {
		return s.Phase == Open, err
	}
	return store.Swap(ctx, s, State{Open, s.Attempt, time.Time{}})
}

// change makes a decision until no other change comes between.
func change(ctx context.Context, store Store, decide func(State) (State, Outcome)) (Outcome, error) {
	for {
		before, err := store.Load(ctx)
		if err != nil {
			return Unknown, err
		}
		after, outcome := decide(before)
		if after == before {
			return outcome, nil
		}
		if done, err := store.Swap(ctx, before, after); err != nil {
			return Unknown, err
		} else if done {
			return outcome, nil
		}
	}
}
