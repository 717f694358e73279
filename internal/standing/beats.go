package standing

import (
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// leases is how old a process's reports may be in order to count, in lease durations. A process
// renews its leases three times per duration. After one duration, others take over. So after three
// durations without a takeover, no process is expected to take over.
const leases = 3

// Fresh returns the maximum age of a process's reports that count.
func Fresh(lease time.Duration) time.Duration { return leases * lease }

// isFresh reports whether a time is at most three lease durations ago.
func isFresh(at, now time.Time, lease time.Duration) bool {
	return !at.IsZero() && now.Sub(at) <= Fresh(lease)
}

// Answers reports whether the process that wrote a heartbeat answers. The heartbeat must be at most
// three lease durations old. If the process knows the error of its clock, the service's clock
// is used.
func Answers(b checkpoint.Heartbeat, now time.Time, lease time.Duration) bool {
	return isFresh(beatAt(b), now, lease)
}

// Lent is the prefix of the ids of processes that only copy parts of loads, such as those of Beam
// jobs. They read no stream.
const Lent = "beam/"

// Lends reports whether the process with an id only copies parts of loads.
func Lends(id string) bool { return strings.HasPrefix(id, Lent) }

// Answering returns the processes that answer.
func Answering(all []checkpoint.Process, now time.Time, lease time.Duration) []checkpoint.Process {
	return slices.DeleteFunc(slices.Clone(all), func(p checkpoint.Process) bool { return !Answers(p.Heartbeat, now, lease) })
}

// Outdated returns a process of an older version, and that version (checkpoint.Heartbeat.Records).
// The process replicates the table, or may do so soon. Worker is "" if there is none. The argument
// beat is the coordinator's heartbeat.
func Outdated(shards []checkpoint.Shard, coordinator string, beat checkpoint.Heartbeat, running []checkpoint.Process) (worker, version string) {
	return without(checkpoint.Heartbeat.Records, shards, coordinator, beat, running)
}

// KeepsMarkers returns a process that would leave the markers of a fast load in rows
// (checkpoint.Heartbeat.Copies), and its version. Otherwise it is like Outdated.
func KeepsMarkers(shards []checkpoint.Shard, running []checkpoint.Process) (worker, version string) {
	return without(checkpoint.Heartbeat.Copies, shards, "", checkpoint.Heartbeat{}, running)
}

// without returns a process whose program does not know something.
func without(knows func(checkpoint.Heartbeat) bool, shards []checkpoint.Shard, coordinator string, beat checkpoint.Heartbeat, running []checkpoint.Process) (worker, version string) {
	for _, s := range shards {
		if s.Owner != "" && !knows(s.Heartbeat) {
			return s.Owner, s.Holder.Version
		}
	}
	if coordinator != "" && !knows(beat) {
		return coordinator, beat.Holder.Version
	}
	for _, p := range running {
		if !knows(p.Heartbeat) {
			return p.Worker, p.Holder.Version
		}
	}
	return "", ""
}

// beatAt returns the time at which a heartbeat was written; zero if there is no heartbeat.
func beatAt(b checkpoint.Heartbeat) time.Time { return serviceTime(b.WrittenAt, b) }

// TroubleSince returns the time since which a process has had the trouble in its heartbeat, on the
// service's clock. The heartbeat contains the duration of the trouble, which does not depend on the
// error of a clock. A heartbeat with a future time comes from a clock that is ahead, and counts as
// written now.
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

// earliest returns the earlier of two times. It ignores a time that is zero.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
