package tablepolicy

import (
	"errors"
	"slices"
	"time"
)

// change is the change of a policy that a look calls for.
type change struct {
	kind     changeKind
	text     string // of a put
	revision string // the revision that the change expects
}

type changeKind int

const (
	nothing changeKind = iota
	put
	remove
)

// errNoRevision is the error of an endpoint whose policies cannot be changed safely.
var errNoRevision = errors.New("this endpoint gives no revision of the table's resource policy, so a change could undo a change of another program: freeze writes by hooks")

// toFreeze decides what brings a statement into a policy.
func toFreeze(p Policy, s Statement) (change, error) {
	if p.Text != "" && p.Revision == "" {
		return change{}, errNoRevision
	}
	if has, err := hasSid(p.Text, s.Sid); has || err != nil {
		return change{}, err
	}
	text, err := addTo(p.Text, s)
	return change{put, text, p.Revision}, err
}

// toUnfreeze decides what takes the statements of a ledger, up to an attempt, out of a policy. It
// uses only the policy as it is now (P3).
func toUnfreeze(p Policy, hash string, attempt uint32) (change, error) {
	if p.Text != "" && p.Revision == "" {
		return change{}, errNoRevision
	}
	text, changed, empty, err := strip(p.Text, hash, attempt)
	switch {
	case err != nil || !changed:
		return change{}, err
	case empty:
		return change{kind: remove, revision: p.Revision}, nil
	}
	return change{put, text, p.Revision}, nil
}

// round is one round of probes: a write of each kind. Its times are on the monotonic clock.
type round struct {
	began, ended time.Duration
	seen         Seen // LetThrough if one write was let through, Denied if all were denied
	open         bool // all writes were let through
	denied       bool // a write was denied
}

// roundOf returns a round of the given writes.
func roundOf(began, ended time.Duration, writes ...Seen) round {
	r := round{began: began, ended: ended, denied: slices.Contains(writes, Denied)}
	through := slices.Contains(writes, LetThrough)
	r.open = through && !r.denied && !slices.Contains(writes, Unseen)
	switch {
	case through:
		r.seen = LetThrough
	case !slices.Contains(writes, Unseen):
		r.seen = Denied
	}
	return r
}

// streak is an unbroken sequence of rounds in which all writes were denied.
type streak struct {
	rounds      int
	since, last time.Duration // the ends of the first and the last round
	lasted      time.Duration // from the end of the first round to the begin of the last one
}

// after returns the streak with one more round. A round that saw anything else breaks it, and so
// does a longer time without a round than the gap.
func (s streak) after(r round, gap time.Duration) streak {
	switch {
	case r.seen != Denied:
		return streak{}
	case s.rounds == 0 || r.began-s.last > gap:
		return streak{rounds: 1, since: r.ended, last: r.ended}
	}
	return streak{rounds: s.rounds + 1, since: s.since, last: r.ended, lasted: r.began - s.since}
}

// proves reports whether the streak proves that the table is frozen.
func (s streak) proves(frozen time.Duration) bool { return s.rounds > 1 && s.lasted >= frozen }
