// Package fallback lets DynamoDB follow Bigtable after a cutover.
//
// The application can then be switched back without a loss.
//
// One process at a time leads, under a lease. The leader reads the change stream of the Bigtable
// table for the keys of rows that have changed. Of a record it uses nothing but the key. For each
// key it reads the item and the row as they are now, and writes the difference to DynamoDB. Order
// and repetition of records therefore do not matter.
//
// A request to DynamoDB may be executed long after it was sent. A leader that has lost its lease,
// or that no longer waits for the answer, could so overwrite what a later request wrote. DynamoDB
// refuses a request whose signature is older than its window. So each request is signed with the
// time of the last proof of the lease, and an item is not looked at while a request to it may still
// be executed: until the wait W after its signature.
//
//	F1  The partitions that are read and the continuations that are not used cover every key once.
//	F2  No request is signed with a later time than that of a proof of the lease.
//	F3  While a request to an item is in doubt, the item is not looked at.
//	F4  A checkpoint passes a record only when a look that began after the record's arrival found
//	    item and row equal, or the key is parked.
//	F5  Nothing is written unless the state is following, read with the proof.
package fallback
