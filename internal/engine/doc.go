// Package engine holds what every loop of a worker shares: retries, fencing. A Worker is what the
// tables of a process share, a Table what the loops that work on one table share, and a Spec the
// configuration of that table. A Lifecycle says how long a loop runs, and the Retrier is the
// only place that backs off. All waiting and concurrency goes through internal/task, so that the
// simulation runs these very loops.
package engine
