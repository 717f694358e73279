package status

import (
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// The states of a copy.
const (
	copyNotStarted = "not_started"
	copyRunning    = "running"
	copyDone       = "done"
)

// copyStatus is the copy of the items that existed at the start.
type copyStatus struct {
	State    string `json:"state"` // not_started, running, done
	Items    *int64 `json:"items"`
	Estimate *int64 `json:"estimate"` // as DynamoDB counted them, hours old
	// ItemsPerSecond and ETASeconds are null unless the worker told them of late.
	ItemsPerSecond *float64   `json:"items_per_second"`
	ETASeconds     *float64   `json:"eta_seconds"`
	Started        *time.Time `json:"started_at"`
	Done           *time.Time `json:"done_at"`
}

// An ETA needs a minute of copying and a hundredth of the items.
const (
	etaAfter = time.Minute
	etaShare = 100
)

func copyOf(state checkpoint.TableState, seat KeeperInput, now time.Time, lease time.Duration) copyStatus {
	load := state.Load
	if load.Generation != state.Generation || load.StartedAt.IsZero() {
		return copyStatus{State: copyNotStarted}
	}
	c := copyStatus{State: copyRunning, Items: &seat.copied, Estimate: &load.Estimate, Started: knownTime(load.StartedAt)}
	if !load.DoneAt.IsZero() {
		c.State, c.Items, c.Done = copyDone, &load.Items, knownTime(load.DoneAt)
		return c
	}
	rate := seat.pace.Rate
	if rate <= 0 || seat.Owner == "" || now.Sub(seat.pace.At) > 2*lease {
		return c // nobody copies, or nobody has told for a while
	}
	c.ItemsPerSecond = &rate
	left := load.Estimate - seat.copied
	if left > 0 && now.Sub(load.StartedAt) >= etaAfter && seat.copied*etaShare >= load.Estimate {
		eta := inSeconds(time.Duration(float64(left) / rate * float64(time.Second)))
		c.ETASeconds = &eta
	}
	return c
}

// String is the cell of the text table.
func (c copyStatus) String() string {
	switch {
	case c.State == copyDone:
		return "done (" + backfill.FormatDuration(c.Done.Sub(*c.Started)) + ")"
	case c.State == copyNotStarted:
		return "-"
	}
	text := backfill.FormatCount(float64(*c.Items)) + " items"
	if *c.Estimate > 0 && *c.Items <= *c.Estimate {
		// Short of 100 until it is done, which only the load itself can tell.
		text = fmt.Sprintf("%d%%", min(99, *c.Items*100 / *c.Estimate))
	}
	if c.ETASeconds != nil {
		text += "  ETA " + seconds(c.ETASeconds)
	}
	return text
}
