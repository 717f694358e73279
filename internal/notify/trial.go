package notify

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/hook"
	"github.com/dynamodb-bigtable/replicator/internal/status"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// trials is the document of `notify test -o json`.
type trials struct {
	Schema    string  `json:"schema"`
	Receivers []trial `json:"receivers"`
}

// trial is the answer of one receiver.
type trial struct {
	Receiver string  `json:"receiver"` // number in notify.to, with format and host; or heartbeat
	OK       bool    `json:"ok"`
	Error    *string `json:"error"` // null if the receiver accepted the call
}

const trialsSchema = "replicator.notify_test/v1"

// Test sends a test to all receivers of a configuration, or to the one with the given number (from 1;
// 0 means all). It prints one line for each. It fails if a receiver does not accept the test, or if
// there is none.
func Test(ctx context.Context, console *terminal.Console, cfg *config.Config, number int, transport http.RoundTripper) error {
	to := receivers(cfg, console.Env)
	switch {
	case !cfg.Notify.Given():
		return &diag.Error{Code: diag.MissingValue, What: "no notifications are configured", Cause: "the configuration has neither notify.to nor notify.heartbeat", Fix: "add notify.to with a receiver"}
	case number < 0 || number > len(to):
		return diag.BadUsage(fmt.Sprintf("--to %d is not a receiver", number), fmt.Sprintf("notify.to has %s; count from 1", terminal.Plural(len(to), "receiver")))
	}
	client := hook.NewClient(transport)
	found := trials{Schema: trialsSchema, Receivers: []trial{}}
	missed := 0
	add := func(name string, err error) {
		t := trial{Receiver: name, OK: err == nil}
		if err != nil {
			missed++
			text := err.Error()
			t.Error = &text
		}
		found.Receivers = append(found.Receivers, t)
	}
	for _, r := range to {
		if number == 0 || number == r.number {
			add(r.name, r.test(ctx, client, cfg.Name))
		}
	}
	if cfg.Notify.Heartbeat != "" && number == 0 {
		add(heartbeatName, ask(ctx, client, cfg.Notify.Heartbeat))
	}
	if err := found.print(console); err != nil {
		return err
	}
	if missed > 0 {
		return &diag.Error{Code: diag.NotAccepted, What: fmt.Sprintf("%d of %s did not accept the test", missed, terminal.Plural(len(found.Receivers), "receiver")), Cause: "the answers are above"}
	}
	return nil
}

// test sends a test. For PagerDuty it also sends the end, so that no incident stays open.
func (r *receiver) test(ctx context.Context, client *http.Client, pipeline string) error {
	n := news{kind: kindTest, action: happened, of: []status.Occurrence{{Kind: kindTest}}}
	if r.format != formatPagerDuty {
		return r.send(ctx, client, n.event(pipeline, task.Now(ctx)))
	}
	for _, n.action = range []string{begins, ends} {
		if err := r.send(ctx, client, n.event(pipeline, task.Now(ctx))); err != nil {
			return err
		}
	}
	return nil
}

func (d *trials) print(console *terminal.Console) error {
	if console.AsJSON() {
		return console.WriteJSON(d)
	}
	return console.Show(console.Stdout, func(w io.Writer) error {
		for _, t := range d.Receivers {
			line := "✓ " + t.Receiver + "  accepted"
			if !t.OK {
				line = "✗ " + t.Receiver + "  " + *t.Error
			}
			if _, err := fmt.Fprintln(w, line); err != nil {
				return err
			}
		}
		return nil
	})
}
