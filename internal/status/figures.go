package status

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// coordinatorLeaseOf copies the members of a coordinator lease that status uses.
func coordinatorLeaseOf(lease checkpoint.CoordinatorLease) CoordinatorInput {
	return CoordinatorInput{Owner: lease.Owner(), Heartbeat: lease.Heartbeat(), pace: lease.Pace()}
}

// inSeconds converts a duration to seconds, rounded to a thousandth; nil if it is unknown.
func inSeconds(d *time.Duration) *float64 {
	if d == nil {
		return nil
	}
	s := d.Round(time.Millisecond).Seconds()
	return &s
}
