// Package tablepolicy freezes a DynamoDB table by a statement in its policy.
//
// The statement denies all writes but those of the exempt principals. It is put and removed by
// requests that expect the revision of the policy that was read. So an edit of another program is
// never lost. The policy that was read before the freeze is never put back.
//
// A request may be executed long after it was sent. A late freeze request could freeze the table
// after the freeze was cancelled, and then no process would remove the statement. DynamoDB refuses
// a request whose signature is older than its window. So each request is signed with the time of
// a proof of the driver's lease, and a freeze request not before that time is in the ledger. Until
// the wait W after that time, the freeze request may still be executed.
//
//	P1  No freeze request is sent unless its Sid and the time of its signature are in the ledger.
//	P2  No freeze request is saved once the record says that the freeze ends.
//	P3  A change of a policy keeps each statement that is not of this ledger.
//	P4  A table is frozen only if a second role's writes were refused for some time, on new
//	    connections, after they had been let through.
//	P5  A freeze is over only when a look that began after every freeze request was over, and after
//	    its effect had to show, found none of its statements, and the probe's writes let through.
//
// The probe's role must have the right to write the table. P4 proves that it has.
package tablepolicy
