// Package loads runs the commands backfill start, status, pause and others. Start, Pause, Resume,
// Redo and Throttle change the table's record, which every worker reads within seconds.
package loads
