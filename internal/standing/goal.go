package standing

// Goal is a state of a migration that a caller can wait for.
type Goal string

const (
	GoalInSync Goal = "in_sync" // reached in state in_sync or done
	// Existing items are copied. The goal is reached in state sweeping or a later state.
	GoalCopied Goal = "copied"
	GoalDone   Goal = "done"
)

// Goals lists all goals.
var Goals = []Goal{GoalInSync, GoalCopied, GoalDone}

// reachedBy reports whether a table in a state has reached the goal.
func (g Goal) reachedBy(s State) bool {
	switch g {
	case GoalDone:
		return s == Done
	case GoalCopied:
		return s == Done || s == Cutover || s.rank() >= Sweeping.rank()
	}
	return s == InSync || s == Done
}

// Reached reports whether a migration of these tables has reached the goal. The state that Overall
// chooses decides.
func (g Goal) Reached(tables []Standing) bool {
	i := Overall(tables)
	return i >= 0 && g.reachedBy(tables[i].State())
}

// Stuck returns the index of a table that cannot reach the goal before an operator acts; -1 if
// there is no such table. The states stalled and unknown do not count, because they may pass
// without an operator.
func (g Goal) Stuck(tables []Standing) int {
	for i := range tables {
		if s := &tables[i]; !s.Passed && !g.reachedBy(s.State()) && s.Conditions[0].asksOperator() {
			return i
		}
	}
	return -1
}

// asksOperator reports whether a condition lasts until an operator acts, even if workers run.
func (c Condition) asksOperator() bool {
	switch c.State {
	case Paused, Parked, Differs:
		return true
	case NeedsLoad:
		return c.command != "" // no load starts automatically
	case Sweeping:
		return c.Reason == approval
	}
	return false
}
