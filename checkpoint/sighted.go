package checkpoint

import (
	"math/big"
	"time"
)

// Sighted holds the facts that a cutover needs from a shard.
type Sighted struct {
	// Canary is the attempt whose canary was read. Every change before that canary is applied.
	Canary uint32 `json:"canary,omitempty"`
	// Canaries is the set of that attempt's canaries that were read: bit n of the hexadecimal
	// number is canary n.
	Canaries string `json:"canaries,omitempty"`
	// WrittenAt is the time of the last change that is neither a canary nor a removal by time to
	// live. Written is a hash of its key.
	WrittenAt time.Time `json:"written_at,omitzero"`
	Written   string    `json:"written,omitempty"`
	// BehindAt is when the shard was last further behind than the configuration's bound, on the
	// service's clock.
	BehindAt time.Time `json:"behind_at,omitzero"`
}

// Ahead is what was sighted in a shard of which more was read than is applied for good: canaries prove
// that everything before them is applied, so they wait; that somebody writes is a fact as soon as it
// is read.
func (s Sighted) Ahead(read Sighted) Sighted {
	s.WrittenAt, s.Written, s.BehindAt = read.WrittenAt, read.Written, read.BehindAt
	return s
}

// See records that canary i of an attempt was read.
func (s *Sighted) See(attempt uint32, i int) {
	if attempt < s.Canary {
		return
	}
	if attempt > s.Canary {
		s.Canary, s.Canaries = attempt, ""
	}
	seen := s.seen(attempt)
	s.Canaries = seen.SetBit(seen, i, 1).Text(16)
}

func (s *Sighted) seen(attempt uint32) *big.Int {
	seen := new(big.Int)
	if s.Canary == attempt && s.Canaries != "" {
		seen.SetString(s.Canaries, 16)
	}
	return seen
}

// Since reports whether more canaries were read than before.
func (s Sighted) Since(before Sighted) bool {
	return s.Canary != before.Canary || s.Canaries != before.Canaries
}

// Unseen returns how many of an attempt's first n canaries were read in no shard of a stream.
func Unseen(shards []Shard, label string, attempt uint32, n int) int {
	all := new(big.Int)
	for i := range shards {
		if shards[i].Label == label {
			all.Or(all, shards[i].Sighted.seen(attempt))
		}
	}
	unseen := n
	for i := range n {
		unseen -= int(all.Bit(i))
	}
	return unseen
}
