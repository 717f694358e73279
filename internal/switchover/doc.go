// Package switchover runs the commands of a cutover, and finalize. A Driver is put together here
// too, for workers and for the command.
package switchover
