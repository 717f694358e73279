// Package switchover runs the `cutover` commands and `finalize`. It also builds the Driver of a
// cutover, for workers and for these commands.
package switchover
