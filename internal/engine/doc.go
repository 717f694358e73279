// Package engine holds what every loop of a worker shares: retries, fencing. The tables of a
// process share a Worker, and the loops of one table share a Table. A Spec is the configuration of
// a table. A Lifecycle determines how long a loop runs. Only the Retrier backs off. All waiting and
// concurrency goes through internal/task, so the simulation runs these same loops.
package engine
