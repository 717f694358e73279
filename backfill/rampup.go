package backfill

import (
	"math"
	"time"
)

// A new Bigtable table has few tablets, all on few nodes. Bigtable splits and moves tablets under
// load, and needs up to 20 minutes for it. A load that begins at full speed only gets errors and
// slow responses from these nodes. Source:
// https://cloud.google.com/bigtable/docs/performance
const (
	// rampRows is how many rows per second a node certainly accepts, on an HDD too. Source: the same
	// page.
	rampRows = 10_000
	// rampDoubles is the time in which the rate doubles. After rampEnds it is a thousand times the
	// first rate, so it is no limit any more. Then slow responses alone bound the requests.
	rampDoubles = time.Minute
	rampEnds    = 10 * rampDoubles
)

// RampUp returns how many rows per second all workers together may write in a load without
// conditions, at a time after its beginning; 0 means no limit. The argument `nodes` is the number of
// nodes of the target's cluster; 0 if it is unknown.
func RampUp(elapsed time.Duration, nodes int) float64 {
	if elapsed >= rampEnds {
		return 0
	}
	return rampRows * float64(max(nodes, 1)) * math.Exp2(max(elapsed, 0).Minutes()/rampDoubles.Minutes())
}
