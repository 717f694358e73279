package status

import (
	"context"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// receiverStatus is a receiver of notifications that fails.
type receiverStatus struct {
	Name         string    `json:"name"` // its number in notify.to, format and host; or heartbeat
	FailingSince time.Time `json:"failing_since"`
	Reason       string    `json:"reason"`  // the last failure; no address and no secret
	Waiting      int       `json:"waiting"` // notifications that will be sent again
	Lost         int       `json:"lost"`    // notifications that were refused or dropped
}

// failsFor is how long a receiver must fail before it is shown, if it has lost no notification. A
// shorter failure passes by itself.
const failsFor = 5 * time.Minute

// readNotices reads the receivers of notifications that failed at their last call.
func readNotices(ctx context.Context, cfg *config.Config, ledger *checkpoint.Ledger) (failing []receiverStatus, err error) {
	if !cfg.Notify.Given() {
		return nil, nil
	}
	n, _, err := ledger.Notices(ctx)
	for _, r := range n.Receivers {
		if !r.FailingSince.IsZero() {
			failing = append(failing, receiverStatus{Name: r.Name, FailingSince: r.FailingSince.UTC(), Reason: r.Why, Waiting: n.Waiting(r.Hash), Lost: r.Lost})
		}
	}
	return failing, err
}

// noticed adds the receivers that need an operator.
func (m *Document) noticed(failing []receiverStatus) {
	for _, r := range failing {
		if r.Lost > 0 || m.At.Sub(r.FailingSince) >= failsFor {
			m.Receivers = append(m.Receivers, r)
		}
	}
}

// text describes the failure of a receiver.
func (r receiverStatus) text(now time.Time) string {
	text := fmt.Sprintf("receiver %s has failed for %s: %s", r.Name, backfill.FormatDuration(now.Sub(r.FailingSince)), diag.Printable(r.Reason))
	if r.Lost > 0 {
		text += fmt.Sprintf("; %s lost", terminal.Plural(r.Lost, "notification"))
	}
	if r.Waiting > 0 {
		text += fmt.Sprintf("; %s waiting", terminal.Plural(r.Waiting, "notification"))
	}
	return text
}

func receiverLines(s subject) (lines []string) {
	for _, r := range s.m.Receivers {
		lines = append(lines, "Notifications: "+r.text(s.m.At))
	}
	return lines
}
