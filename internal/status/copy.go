package status

import (
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/loads"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// The states of a copy.
const (
	copyNotStarted = "not_started"
	copyRunning    = "running"
	copyDone       = "done"
)

// copyStatus is the progress of the copy of a table's existing items.
type copyStatus struct {
	State string `json:"state"` // not_started, running or done
	// Mode is how rows are written: guarded or fast. It is null before the copy begins.
	Mode     *string `json:"mode"`
	Items    *int64  `json:"items"`
	Estimate *int64  `json:"estimate"` // DynamoDB's count of items, which may be hours old
	// ItemsPerSecond is null if no worker has reported a rate recently.
	ItemsPerSecond *float64   `json:"items_per_second"`
	ETASeconds     *float64   `json:"eta_seconds"` // null if no worker has reported a rate recently
	Started        *time.Time `json:"started_at"`
	Done           *time.Time `json:"done_at"`
}

func copyOf(state checkpoint.TableState, p loads.Progress) copyStatus {
	load := state.Load
	if load.Generation != state.Generation || load.StartedAt.IsZero() {
		return copyStatus{State: copyNotStarted}
	}
	c := copyStatus{State: copyRunning, Mode: loads.ModeOf(load), Items: &p.Items, Estimate: &load.Estimate, Started: terminal.KnownTime(load.StartedAt)}
	if !load.DoneAt.IsZero() {
		c.State, c.Items, c.Done = copyDone, &load.Items, terminal.KnownTime(load.DoneAt)
		return c
	}
	if p.RateKnown {
		c.ItemsPerSecond = &p.Rate
	}
	if p.ETAKnown {
		c.ETASeconds = inSeconds(&p.ETA)
	}
	return c
}

// String returns the text of the copy's cell in the status text.
func (c copyStatus) String() string {
	switch {
	case c.State == copyDone:
		took := c.Done.Sub(*c.Started)
		if took < 0 { // the two times may come from different clocks
			return "done"
		}
		return "done (" + backfill.FormatDuration(took) + ")"
	case c.State == copyNotStarted:
		return "-"
	}
	text := backfill.FormatCount(float64(*c.Items)) + " items"
	if percent, ok := backfill.Percent(*c.Items, *c.Estimate, false); ok && *c.Items <= *c.Estimate {
		text = fmt.Sprintf("%d%%", percent)
	}
	if c.ETASeconds != nil {
		text += "  ETA " + seconds(c.ETASeconds)
	}
	return text
}
