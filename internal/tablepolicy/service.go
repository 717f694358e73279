package tablepolicy

import (
	"context"
	"time"
)

// Policy is the policy of a table as one read has shown it. The read may be old.
type Policy struct {
	Text     string // "" if the table has no policy
	Revision string // "" if the table has no policy
}

// Policies reads and changes the policies of tables. A change is one attempt, without a retry. The
// request is signed with the given time. A change expects the revision that was read. The revision
// "" means that the table must have no policy.
type Policies interface {
	Get(ctx context.Context, table string) (Policy, error)
	Put(ctx context.Context, table, text, revision string, signed time.Time) Answer
	Delete(ctx context.Context, table, revision string, signed time.Time) Answer
}

// Answer is what is known of a change after its only attempt.
type Answer struct {
	Outcome Outcome
	Reason  string // of a change that is refused or does not fit
}

// Outcome is the outcome of a change of a policy.
type Outcome int

// The outcomes. Only Unknown leaves a request that may still be executed.
const (
	Unknown   Outcome = iota // no answer, or one that promises nothing
	Done                     // the policy is changed
	Changed                  // the policy has another revision
	Resting                  // the policy was changed a short time ago
	Expired                  // the signature is too old
	Refused                  // certainly not executed, such as a throttled request
	Unfitting                // never accepted, such as a policy that is too large
)

// Prober writes as the second role, on a new connection each time. The writes can change nothing.
type Prober interface {
	Put(ctx context.Context) Seen
	Transact(ctx context.Context) Seen
}

// Seen is what a probe has seen.
type Seen int

// What a probe can see.
const (
	Unseen     Seen = iota // no answer, or one that says nothing about the policy
	Denied                 // the write was denied
	LetThrough             // the write was let through to the table
)
