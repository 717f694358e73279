// Package switchover runs the commands of a cutover, and finalize. It also builds the Driver for
// workers and for the command.
package switchover
