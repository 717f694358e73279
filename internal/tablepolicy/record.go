package tablepolicy

import (
	"errors"
	"time"
)

// Record is what the ledger holds about a freeze. Any process can continue the freeze from it.
type Record struct {
	Attempt uint32 `json:"attempt"`
	Sid     string `json:"sid"`
	// Rehearse reports that the statement denies the writes of the probe's role only.
	Rehearse bool `json:"rehearse,omitempty"`
	// Text and Revision are the policy as it was read before the last freeze request, and "" if
	// there was none. They are for people. The policy is never put back.
	Text     string `json:"text,omitempty"`
	Revision string `json:"revision,omitempty"`
	// Open reports that the probe's writes were let through before the first freeze request.
	Open bool `json:"open,omitempty"`
	// Signed is when the last freeze request was signed, also of former attempts, in the source's
	// time. It is zero if there was none.
	Signed time.Time `json:"signed,omitzero"`
	// Ends reports that the statement is to be removed. Then no freeze request is saved any more.
	Ends bool `json:"ends,omitempty"`
	// Over reports that the statement is removed, and that no freeze request can be executed.
	Over bool `json:"over,omitempty"`
}

// Errors of a record.
var (
	errEnds  = errors.New("the freeze of this attempt has ended: begin another attempt")
	errLasts = errors.New("the freeze of the former attempt has not ended: end it first")
	errOlder = errors.New("the number of the attempt is not higher than that of the former attempt")
)

// Begin returns the record of a new attempt. The argument `former` is the record of the former
// attempt, zero if there was none. Its freeze must have ended, but need not be over.
func Begin(former Record, hash string, attempt uint32, rehearse bool) (Record, error) {
	switch {
	case former.Sid != "" && !former.Ends:
		return former, errLasts
	case former.Sid != "" && attempt <= former.Attempt:
		return former, errOlder
	}
	return Record{Attempt: attempt, Sid: sidOf(hash, attempt), Rehearse: rehearse, Signed: former.Signed}, nil
}

// signing returns the record to be saved before a freeze request that is signed with the given
// time.
func (r Record) signing(p Policy, signed time.Time) (Record, error) {
	if r.Ends {
		return r, errEnds
	}
	r.Text, r.Revision = p.Text, p.Revision
	if signed.After(r.Signed) {
		r.Signed = signed
	}
	return r, nil
}

// OverAt returns when the freeze is over at the earliest, in the source's time: every freeze
// request is executed or refused by then, and its effect shows. The argument t has a Wait.
func (r Record) OverAt(t Timings) time.Time {
	if r.Signed.IsZero() {
		return time.Time{}
	}
	t = t.orDefault()
	return r.Signed.Add(t.Wait + t.Settle)
}

// isOver reports whether a look that began at the given time, and that found no statement to
// remove, ends the freeze.
func (r Record) isOver(clear bool, began time.Time, t Timings) bool {
	return r.Ends && clear && !began.Before(r.OverAt(t))
}

// Timings are the durations of a freeze. The zero value of each except Wait stands for its default.
type Timings struct {
	// Wait is W: how long after its signature a request may still be executed.
	Wait time.Duration
	// Frozen is how long the probe's writes must be refused before the table is frozen; default
	// 60 s.
	Frozen time.Duration
	// Settle is the longest time until a changed policy is in force, and shows in each read;
	// default 60 s.
	Settle time.Duration
	// Rest is how long a policy cannot be changed after a change; default 15 s.
	Rest time.Duration
	// Look is the time between two looks; default 1 s.
	Look time.Duration
	// Gap is the longest time between two probes without a break; default 15 s.
	Gap time.Duration
	// Call is the longest duration of one request; default 5 s.
	Call time.Duration
}

func (t Timings) orDefault() Timings {
	or := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	or(&t.Frozen, time.Minute)
	or(&t.Settle, time.Minute)
	or(&t.Rest, 15*time.Second)
	or(&t.Look, time.Second)
	or(&t.Gap, 15*time.Second)
	or(&t.Call, 5*time.Second)
	return t
}
