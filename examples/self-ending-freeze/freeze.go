// Package freeze lets an application end a freeze by itself.
//
// A cutover freezes the application for seconds. The process that drives the cutover may disappear
// during the freeze. Then the application may resume by itself at the deadline that the hooks get
// in CUTOVER_DEADLINE. Only one way to do so is safe: a compare-and-set in the one record that the
// switch also changes. A timer in each instance is not safe. One instance may resume just before
// the switch, and no clock shows which came first.
//
// The record is in one store, such as an item of DynamoDB that is written with a condition, or a
// row of Bigtable that is written with CheckAndMutateRow. Every instance reads the record before
// each write, or holds a lease on the record that it read. The hooks of the cutover call Freeze,
// Switch and Unfreeze.
package freeze

import (
	"context"
	"time"
)

// Phase says to which database the application writes.
type Phase string

// The phases.
const (
	Open     Phase = "open"     // to DynamoDB
	Frozen   Phase = "frozen"   // nowhere
	Switched Phase = "switched" // to Bigtable, for good
)

// State is the content of the record. Attempt is the cutover attempt of the last call that changed
// the record. It is the first number of a hook's token. Deadline is when the application may end
// the freeze of that attempt.
type State struct {
	Phase    Phase
	Attempt  uint64
	Deadline time.Time
}

// Store holds the record.
type Store interface {
	Load(ctx context.Context) (State, error)
	// Swap replaces the record with `after` if the record still equals `before`. It reports whether
	// it replaced the record.
	Swap(ctx context.Context, before, after State) (bool, error)
}

// Outcome is the exit status with which a hook answers.
type Outcome int

// The outcomes. After Unknown, the cutover calls the hook again. Refused promises that nothing was
// switched.
const (
	Done    Outcome = 0
	Unknown Outcome = 75
	Refused Outcome = 77
)

// Freeze implements the hook freeze_writes. It does not freeze again in an attempt whose freeze has
// ended. After Done, the hook must wait until no instance has a write in flight, and answer then.
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

// Switch implements the hook switch. It switches the application only if it is frozen for this
// attempt.
func Switch(ctx context.Context, store Store, attempt uint64) (Outcome, error) {
	return change(ctx, store, func(s State) (State, Outcome) {
		switch {
		case s.Phase == Switched && s.Attempt == attempt:
			return s, Done
		case s.Phase == Frozen && s.Attempt == attempt:
			return State{Switched, attempt, time.Time{}}, Done
		case s.Phase == Switched: // a later attempt has switched, so this call is late
			return s, Unknown
		}
		return s, Refused
	})
}

// Unfreeze implements the hook unfreeze_writes. It also ends the freezes of earlier attempts.
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

// End is called by an instance that finds the application frozen after the deadline. It reports
// whether the application may write to DynamoDB again. The instance's clock may be wrong: if the
// switch came first, it stays, and if End came first, a later switch is refused.
func End(ctx context.Context, store Store, now time.Time) (bool, error) {
	s, err := store.Load(ctx)
	if err != nil || s.Phase != Frozen || now.Before(s.Deadline) {
		return s.Phase == Open, err
	}
	return store.Swap(ctx, s, State{Open, s.Attempt, time.Time{}})
}

// change applies `decide` to the record. If the record changes between the read and the write, it
// tries again.
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
