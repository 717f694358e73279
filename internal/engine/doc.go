// Package engine holds what every loop of a worker shares: retries, fencing. The tables of a process
// share a Worker, and the loops of one table share a Table. A Spec is the configuration
// of a table. A Lifecycle determines how long a loop runs. The Retrier makes all retries with
// backoff. All waits and all concurrency use internal/task, so the simulation can run the same
// loops.
package engine
