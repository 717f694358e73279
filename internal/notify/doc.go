// Package notify notifies operators of troubles and steps.
//
// One process of a pipeline sends: the one that holds the lease checkpoint.NoticesLease. It compares
// the occurrences of the last status with the record of what was announced. It first writes new
// notifications into the record, and then sends them. So a restart or another process sends nothing
// twice, except after a crash between an answer and the record of it. No notification contains item
// data.
package notify
