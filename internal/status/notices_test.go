package status

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/config"
)

// A receiver of notifications is shown if it has failed for five minutes, or has lost a notification.
func TestFailingReceiversAreShown(t *testing.T) {
	ctx, cfg := t.Context(), testConfig()
	ledger, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "test", checkpoint.Options{Worker: "w", ID: "l"})
	if err != nil {
		t.Fatal(err)
	}
	notices := checkpoint.Notices{
		Unsent: []checkpoint.Unsent{{At: ago(time.Hour), To: []string{"slow", "long"}, Body: json.RawMessage("{}")}, {At: ago(time.Hour), To: []string{"long"}, Body: json.RawMessage("{}")}},
		Receivers: []checkpoint.NoticeReceiver{
			{Hash: "fine", Name: "1 (json, a)"},
			{Hash: "slow", Name: "2 (json, b)", FailingSince: ago(failsFor - time.Second), Why: "HTTP status 500"},
			{Hash: "long", Name: "3 (slack, c)", FailingSince: ago(failsFor), Why: "HTTP status 500"},
			{Hash: "lost", Name: "4 (pagerduty, d)", FailingSince: ago(time.Second), Why: "HTTP status 403", Lost: 1},
		},
	}
	if err := ledger.SaveNotices(ctx, 1, notices); err != nil {
		t.Fatal(err)
	}
	judge := func(ctx context.Context) *Document {
		failing, err := readNotices(ctx, cfg, ledger)
		if err != nil {
			t.Fatal(err)
		}
		l := &Input{Cfg: cfg, Tables: []config.Table{{From: "Orders", To: "Orders"}}, Inputs: []TableInput{followed()}, Begun: true, Receivers: failing}
		return l.Judge(nothingSet, " -c f", noon)
	}
	if m := judge(ctx); len(m.Receivers)+len(m.NextSteps) > 0 {
		t.Errorf("shown without notifications in the configuration: %+v, %+v", m.Receivers, m.NextSteps)
	}
	cfg.Notify.Heartbeat = "https://beat.example"
	m := judge(ctx)
	want := []string{
		"Notifications: receiver 3 (slack, c) has failed for 5m00s: HTTP status 500; 2 notifications waiting",
		"Notifications: receiver 4 (pagerduty, d) has failed for 1.0s: HTTP status 403; 1 notification lost",
	}
	if got := m.notes(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if len(m.NextSteps) != 1 || m.NextSteps[0].Command != "replicator notify test -c f" || m.State != "in_sync" {
		t.Errorf("%+v, %s", m.NextSteps, m.State)
	}
	document, err := json.Marshal(m)
	if err != nil || !strings.Contains(string(document), `"receivers":[`) {
		t.Errorf("%v: %s", err, document)
	}
	validateStatus(t, document)
}
