// Package loads runs the backfill commands. Start, Pause, Resume,
// Redo and Throttle change the table's record, which every worker reads within seconds.
package loads
