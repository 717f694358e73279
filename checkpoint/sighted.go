package checkpoint

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Sighted holds the facts that a cutover needs from a shard.
type Sighted struct {
	// Canary is the round of the canaries that were read: the proof of an attempt's drain
	// (ProofRound). Every change before the first of them is applied.
	Canary uint32 `json:"canary,omitempty"`
	// Canaries lists the indices of that round's canaries that were read, separated by commas.
	Canaries string `json:"canaries,omitempty"`
	// Before is how many changes of the shard were read when the first of those canaries was read.
	// Every change that precedes the canary is among them. It is 0 if there were no such changes,
	// or if an older version read the canary.
	Before uint64 `json:"before,omitempty"`
	// Candidate is the last round of candidates that were read: canaries from before the freeze,
	// which prove nothing. Candidates is how many of them were read.
	Candidate  uint32 `json:"candidate,omitempty"`
	Candidates int    `json:"candidates,omitempty"`
	// Reached lists the indices of at most two canaries of any round that were read. Their keys are
	// in the shard's range, so later canaries with these indices reach the shard too.
	Reached string `json:"reached,omitempty"`
	// WrittenAt is the time of the last change that is neither a canary nor a TTL deletion. Written
	// is a hash of that change's key.
	WrittenAt time.Time `json:"written_at,omitzero"`
	Written   string    `json:"written,omitempty"`
	// BehindAt is the last time at which the shard's lag exceeded the configured bound, on the
	// service's clock.
	BehindAt time.Time `json:"behind_at,omitzero"`
}

// HoldCanaries records that each source table may hold the canaries with the indices below a
// number.
func (c *Cutover) HoldCanaries(until map[string]int) {
	c.Canaries = true
	candidates := maps.Clone(c.Candidates)
	for source, n := range until {
		if n > candidates[source] {
			if candidates == nil {
				candidates = map[string]int{}
			}
			candidates[source] = n
		}
	}
	c.Candidates = candidates
}

// CandidateRound returns the round of the canaries that the attempt writes before the freeze, to
// find out which of them reach which shard.
func (c *Cutover) CandidateRound() uint32 { return 2*c.Attempt - 1 }

// ProofRound returns the round of the canaries that the attempt writes after the freeze. Rounds of
// proof are even, and no other round proves anything. A later round always has a higher number.
func (c *Cutover) ProofRound() uint32 { return 2 * c.Attempt }

func proves(round uint32) bool { return round%2 == 0 }

// Ahead returns s with the times and candidates of read, where s covers the applied changes and
// read covers all changes read so far. The canaries stay the canaries of s, because a canary proves
// that everything before it is applied. A write by the application counts as soon as it is read.
func (s Sighted) Ahead(read Sighted) Sighted {
	s.WrittenAt, s.Written, s.BehindAt = read.WrittenAt, read.Written, read.BehindAt
	s.Candidate, s.Candidates, s.Reached = read.Candidate, read.Candidates, read.Reached
	return s
}

// CanariesPerShard is how many canaries of a later round go to each open shard. It is also the
// maximum number of indices in `Reached`.
const CanariesPerShard = 2

// See records that canary i of a round was read.
func (s *Sighted) See(round uint32, i int) {
	if reached := s.ReachedBy(); len(reached) < CanariesPerShard && !slices.Contains(reached, i) {
		s.Reached = added(s.Reached, i)
	}
	switch {
	case !proves(round) && round >= s.Candidate:
		if round > s.Candidate {
			s.Candidate, s.Candidates = round, 0
		}
		s.Candidates++
	case proves(round) && round >= s.Canary:
		if round > s.Canary {
			s.Canary, s.Canaries, s.Before = round, "", 0
		}
		if !slices.Contains(indices(s.Canaries), i) {
			s.Canaries = added(s.Canaries, i)
		}
	}
}

// ReachedBy returns the indices that Reached lists.
func (s Sighted) ReachedBy() []int { return indices(s.Reached) }

func added(list string, i int) string {
	if list == "" {
		return strconv.Itoa(i)
	}
	return list + "," + strconv.Itoa(i)
}

func indices(list string) (all []int) {
	for text := range strings.SplitSeq(list, ",") {
		if i, err := strconv.Atoi(text); err == nil {
			all = append(all, i)
		}
	}
	return all
}

// Since reports whether s has canaries that before does not have.
func (s Sighted) Since(before Sighted) bool {
	return s.Canary != before.Canary || s.Canaries != before.Canaries || s.Candidate != before.Candidate || s.Candidates != before.Candidates
}

// Unseen returns how many of the given canaries of a round no shard of the stream has read.
func Unseen(shards []Shard, label string, round uint32, written []int) (unseen int) {
	seen := map[int]bool{}
	for i := range shards {
		if sh := &shards[i]; sh.Label == label && sh.Sighted.Canary == round {
			for _, n := range indices(sh.Sighted.Canaries) {
				seen[n] = true
			}
		}
	}
	for _, n := range written {
		if !seen[n] {
			unseen++
		}
	}
	return unseen
}
