// Package virtual schedules tasks in virtual time.
//
// A World runs one task at a time, as a coroutine, and its seed chooses who goes on at every wait and at every call of a model.
// The same seed gives the same execution, step by step. A Process is one simulated machine: a task.Runtime with a wall clock
// of its own that can be paused, killed or given a wrong time.
package virtual
