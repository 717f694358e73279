package standing

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// leases is how many leases old the word of a process may be. It renews its leases every third of
// one, and after one others take over, so that after three nobody has taken over.
const leases = 3

// Fresh is how old the word of a process may be.
func Fresh(lease time.Duration) time.Duration { return leases * lease }

// isFresh reports whether a time is at most three leases ago.
func isFresh(at, now time.Time, lease time.Duration) bool {
	return !at.IsZero() && now.Sub(at) <= Fresh(lease)
}

// Answers reports whether the process that left a beat answers: the beat is at most three leases
// old, by the clock of the service as far as the process knows how wrong its own is.
func Answers(b checkpoint.Heartbeat, now time.Time, lease time.Duration) bool {
	return isFresh(beatAt(b), now, lease)
}

// beatAt is when a beat was left; zero if none was.
func beatAt(b checkpoint.Heartbeat) time.Time { return serviceTime(b.WrittenAt, b) }

// serviceTime is a time of a worker's clock as the service's clock would show it.
func serviceTime(at time.Time, of checkpoint.Heartbeat) time.Time {
	return of.ByService(at)
}

// later is the later of two times.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// earliest is the earlier of two times, of which zero is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
