package standing

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// leases is the age, in leases, up to which a process's reports count. A process renews its leases
// every third of a lease, and others take over after one. So after three leases without a takeover,
// no process will take over soon.
const leases = 3

// Fresh returns the age up to which a process's reports count.
func Fresh(lease time.Duration) time.Duration { return leases * lease }

// isFresh reports whether a time is at most three leases ago.
func isFresh(at, now time.Time, lease time.Duration) bool {
	return !at.IsZero() && now.Sub(at) <= Fresh(lease)
}

// Answers reports whether the process that wrote a heartbeat answers. The heartbeat must be at most
// three leases old by the service's clock, if the process knows the error of its own clock.
func Answers(b checkpoint.Heartbeat, now time.Time, lease time.Duration) bool {
	return isFresh(beatAt(b), now, lease)
}

// beatAt returns when a heartbeat was written; zero if there is none.
func beatAt(b checkpoint.Heartbeat) time.Time { return serviceTime(b.WrittenAt, b) }

// TroubleSince returns since when a process has had the trouble in its heartbeat, on the clock of
// now. The heartbeat has the trouble's duration by one clock. A heartbeat from the future comes
// from a clock that is ahead by an unknown time, and counts as written now.
func TroubleSince(b checkpoint.Heartbeat, now time.Time) time.Time {
	if b.Trouble.Since.IsZero() {
		return time.Time{}
	}
	return earliest(beatAt(b), now).Add(-b.Lasted())
}

// serviceTime converts a time of a worker's clock to the service's clock.
func serviceTime(at time.Time, of checkpoint.Heartbeat) time.Time {
	return of.ByService(at)
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// earliest returns the earlier of two times; zero stands for no time.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
