package status

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// coordinatorLeaseOf takes what is looked at of a coordinator lease.
func coordinatorLeaseOf(lease checkpoint.CoordinatorLease) CoordinatorInput {
	return CoordinatorInput{Owner: lease.Owner(), Heartbeat: lease.Heartbeat(), pace: lease.Pace()}
}

// inSeconds is a duration in seconds, to a thousandth; nil if it is unknown.
func inSeconds(d *time.Duration) *float64 {
	if d == nil {
		return nil
	}
	s := d.Round(time.Millisecond).Seconds()
	return &s
}
