// Package engine holds what all loops of a worker share, such as retries and fencing. The tables of
// a process share a Worker, and the loops of one table share a Table. A Spec is the configuration
// of a table. A Lifecycle determines how long a loop runs. The Retrier makes all retries with
// backoff. All waits and all concurrency use internal/task, so the simulation can run the same
// loops.
package engine
