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
	// Before is how many changes of the shard were read when the first of those canaries was read.
	// Every change that precedes the canary is among them. It is 0 if there were no such changes,
	// or if an older version read the canary.
	Before uint64 `json:"before,omitempty"`
	// WrittenAt is the time of the last change that is neither a canary nor a TTL deletion. Written
	// is a hash of that change's key.
	WrittenAt time.Time `json:"written_at,omitzero"`
	Written   string    `json:"written,omitempty"`
	// BehindAt is the last time at which the shard's lag exceeded the configured bound, on the
	// service's clock.
	BehindAt time.Time `json:"behind_at,omitzero"`
}

// Ahead returns s with the times of read, where s covers the applied changes and read covers all
// changes read so far. The canaries stay the canaries of s, because a canary proves that everything
// before it is applied. A write by the application counts as soon as it is read.
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
		s.Canary, s.Canaries, s.Before = attempt, "", 0
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

// Since reports whether s has canaries that before does not have.
func (s Sighted) Since(before Sighted) bool {
	return s.Canary != before.Canary || s.Canaries != before.Canaries
}

// Unseen returns how many of an attempt's first n canaries no shard of the stream has read.
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
