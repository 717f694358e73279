package worker

import (
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/test/known"
)

// A worker measures by lag_below for how long no shard was behind: the gate of a cutover asks for
// that.
func TestTheConfiguredLagIsMeasured(t *testing.T) {
	w, _ := connected(t)
	w.Config.Cutover.ReadyWhen.LagBelow = time.Minute
	bound := w.pipeline(nil, nil, silentObserver()).Tables[0].LagBound
	known.Defect(t, 46, "lag_below 1m0s, measured by 0s", known.Expect(bound == time.Minute, "lag_below %s, measured by %s", w.Config.Cutover.ReadyWhen.LagBelow, bound))
}
