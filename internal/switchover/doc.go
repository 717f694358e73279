// Package switchover is what an operator asks of cutovers: it checks the gates, begins an attempt,
// shows how it gets on, approves, postpones, cancels and resolves it, and removes what is ours from
// the target in the end. A Driver is put together here too, for workers and for the command.
package switchover
