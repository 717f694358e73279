package standing

// Goal is how a migration may stand for somebody who waits for it.
type Goal string

// The goals.
const (
	GoalInSync Goal = "in_sync" // or done
	GoalCopied Goal = "copied"  // what existed is copied: sweeping, or any state after it in the list
	GoalDone   Goal = "done"
)

// Goals are all of them.
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

// Reached reports whether a migration of these tables has reached the goal: it is judged by the state
// of the migration, as Overall.
func (g Goal) Reached(tables []Standing) bool {
	i := Overall(tables)
	return i >= 0 && g.reachedBy(tables[i].State())
}

// Stuck is the place of a table that never reaches the goal before an operator acts; -1 if there is
// none. What is stalled or unknown may pass by itself.
func (g Goal) Stuck(tables []Standing) int {
	for i := range tables {
		if s := &tables[i]; !s.Passed && !g.reachedBy(s.State()) && s.Conditions[0].asksOperator() {
			return i
		}
	}
	return -1
}

// asksOperator reports whether a condition lasts until an operator acts, while workers run.
func (c Condition) asksOperator() bool {
	switch c.State {
	case Paused, Parked, Differs:
		return true
	case NeedsLoad:
		return c.command != "" // no load begins by itself
	case Sweeping:
		return c.Reason == approval
	}
	return false
}
