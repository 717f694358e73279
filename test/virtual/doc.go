// Package virtual schedules tasks in virtual time.
//
// A World runs one task at a time, as a coroutine. Its seed chooses the next task at every wait and
// at every call of a model. The same seed gives the same execution, step by step. A Process is one
// simulated machine: a task.Runtime with its own wall clock. It can be paused, killed or given a
// wrong time.
package virtual
