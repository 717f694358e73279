package status

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// keeperLeaseOf takes what is looked at of a keeper lease.
func keeperLeaseOf(lease checkpoint.KeeperLease) KeeperInput {
	return KeeperInput{Owner: lease.Owner(), Heartbeat: lease.Heartbeat(), pace: lease.Pace()}
}

// inSeconds is a duration in seconds, to a thousandth.
func inSeconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }

// lagAndHeadroom are what follows from the time up to which everything is applied, as far as can be
// told, and from that which a trim is judged by.
func lagAndHeadroom(covered, reached, now time.Time) (lag, headroom *float64) {
	l, h := inSeconds(max(0, now.Sub(covered))), inSeconds(cdc.Retention-max(0, now.Sub(reached)))
	return &l, &h
}
