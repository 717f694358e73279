package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/dynamodb-bigtable/replicator/test/otlptest"
)

// exporting returns the command of a process that knows only the services and the given variables.
func exporting(s *embedded, configuration string, variables []string, arguments ...string) (*exec.Cmd, *strings.Builder) {
	cmd := exec.Command("replicator", append(arguments, "-c", configuration, "--allow-emulator")...)
	cmd.Env = append(append(os.Environ(), s.environment()...), variables...)
	output := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = output, output
	return cmd, output
}

// putItem writes an item of table Orders, whose values must not be exported.
func putItem(t *testing.T, s *embedded, sk string) {
	t.Helper()
	item := map[string]any{"pk": map[string]string{"S": "s3cr3t"}, "sk": map[string]string{"S": sk}}
	if err := s.call("PutItem", map[string]any{"TableName": "Orders", "Item": item}); err != nil {
		t.Fatal(err)
	}
}

// secretOf returns a text of a span that has item data; "" if there is none.
func secretOf(spans ...otlptest.Span) string {
	for _, s := range spans {
		if text := fmt.Sprintf("%+v", s); strings.Contains(text, "s3cr3t") {
			return text
		}
	}
	return ""
}

// A process exports its traces and metrics by the SDK's own variables alone, and sends the rest when
// it ends. Without them it sends nothing. A receiver that does not answer does not matter, and is
// logged once for each signal. A protocol that is not supported is refused.
func TestAProcessExportsTelemetry(t *testing.T) {
	t.Parallel()
	s := servicesWithOrders(t)
	configuration := writeTestConfiguration(t)
	r := otlptest.New()
	t.Cleanup(r.Close)
	run := func(status int, variables ...string) string {
		t.Helper()
		cmd, output := exporting(s, configuration, variables, "run", "--once", "--idle", "200ms", "--listen", "off", "--log-format", "json")
		_ = cmd.Run() // its outcome is the exit status
		if got := cmd.ProcessState.ExitCode(); got != status {
			t.Fatalf("%v: exit status %d, want %d\n%s", variables, got, status, output)
		}
		return output.String()
	}
	endpoint := "OTEL_EXPORTER_OTLP_ENDPOINT=" + r.URL
	putItem(t, s, "1")
	run(0, endpoint, "OTEL_SERVICE_NAME=ours") // the first checkpoint of a shard is written at once
	pages := r.Spans("page")
	if len(pages) == 0 {
		t.Fatal("no page")
	}
	if children := r.Children(pages[0]); !slices.Equal(slices.Sorted(slices.Values(children)), []string{"commit", "fold", "read", "write"}) {
		t.Errorf("steps of the first page: %q", children)
	}
	requests, _ := r.Requests()
	putItem(t, s, "more")
	run(0, "OTEL_SERVICE_NAME=ours")
	if n, _ := r.Requests(); n != requests {
		t.Errorf("%d requests without an endpoint", n-requests)
	}
	if text := run(2, endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"); !strings.Contains(text, "R1110") || !strings.Contains(text, "only http/protobuf is supported") {
		t.Error(text)
	}
	putItem(t, s, "2")
	text := run(0, "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_BSP_SCHEDULE_DELAY=10", "OTEL_METRIC_EXPORT_INTERVAL=10")
	for _, signal := range []string{"traces", "metrics"} {
		if n := strings.Count(text, "cannot export "+signal+" to OpenTelemetry"); n != 1 {
			t.Errorf("%s: logged %d times\n%s", signal, n, text)
		}
	}
	if a := pages[0].Attributes; a["replicator.source_table"] != "Orders" || a["replicator.records"] == "" || a["replicator.rows"] == "" || a["replicator.shard"] == "" {
		t.Errorf("%q", a)
	}
	if m := r.Metric("replicator_changes_applied_total"); m == nil || len(m.GetSum().GetDataPoints()) == 0 {
		t.Errorf("changes applied: %v", m)
	}
	m := r.Metric("replicator_target_write_duration_seconds")
	if m == nil || len(m.GetHistogram().GetDataPoints()) != 1 || len(m.GetHistogram().DataPoints[0].Exemplars) == 0 || len(m.GetHistogram().DataPoints[0].Exemplars[0].TraceId) != 16 {
		t.Errorf("durations of writes: %v", m)
	}
	if about := r.Resource(); about["service.name"] != "ours" || about["replicator.pipeline"] == "" || about["service.instance.id"] == "" {
		t.Errorf("%q", about)
	}

	// Loads and verifies have a span a part.
	parts := r.Spans("load part")
	if len(parts) == 0 || parts[0].Attributes["replicator.outcome"] != "done" || parts[0].Attributes["replicator.phase"] != "copy" || parts[0].Attributes["replicator.items"] != "1" {
		t.Errorf("parts of a load: %+v", parts)
	}
	if cmd, output := exporting(s, configuration, []string{endpoint}, "verify", "--table", "Orders"); cmd.Run() != nil {
		t.Fatal(output)
	}
	if cmd, output := exporting(s, configuration, []string{endpoint}, "verify", "--table", "Orders", "--key", `{"pk":"s3cr3t","sk":"1"}`); cmd.Run() != nil {
		t.Fatal(output)
	}
	keys := r.Spans("verify keys")
	if len(keys) != 1 || keys[0].Attributes["replicator.outcome"] != "done" || keys[0].Attributes["replicator.rows"] != "1" {
		t.Errorf("keys of a verify: %+v", keys)
	}
	verifies := r.Spans("verify part")
	if len(verifies) == 0 || verifies[0].Attributes["replicator.outcome"] != "done" {
		t.Errorf("parts of a verify: %+v", verifies)
	}
	if _, err := r.Requests(); err != nil {
		t.Error(err)
	}
	if text := secretOf(slices.Concat(pages, parts, verifies, keys, r.Spans("write"))...); text != "" {
		t.Error(text)
	}
}

// The span in which an applier applies a message is linked to the span in which the relay published
// it, across two processes and Pub/Sub.
func TestTracesAreLinkedAcrossPubSub(t *testing.T) {
	t.Parallel()
	s := servicesWithOrders(t)
	r := otlptest.New()
	t.Cleanup(r.Close)
	pubsub := pstest.NewServer()
	t.Cleanup(func() { _ = pubsub.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, name := range []string{"changes", "dead"} {
		if _, err := pubsub.GServer.CreateTopic(ctx, &pubsubpb.Topic{Name: "projects/p/topics/" + name}); err != nil {
			t.Fatal(err)
		}
	}
	for _, sub := range []*pubsubpb.Subscription{
		{Name: "projects/p/subscriptions/dead", Topic: "projects/p/topics/dead"},
		{Name: "projects/p/subscriptions/appliers", Topic: "projects/p/topics/changes", AckDeadlineSeconds: 60, MessageRetentionDuration: durationpb.New(7 * 24 * time.Hour),
			DeadLetterPolicy: &pubsubpb.DeadLetterPolicy{DeadLetterTopic: "projects/p/topics/dead", MaxDeliveryAttempts: 20},
			RetryPolicy:      &pubsubpb.RetryPolicy{MinimumBackoff: durationpb.New(time.Second)}},
	} {
		if _, err := pubsub.GServer.CreateSubscription(ctx, sub); err != nil {
			t.Fatal(err)
		}
	}
	configuration := t.TempDir() + "/replicator.yaml"
	text := testConfiguration + "relay: { pubsub_topic: projects/p/topics/changes, subscription: projects/p/subscriptions/appliers }\n"
	if err := os.WriteFile(configuration, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	putItem(t, s, "1")
	variables := []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + r.URL, "OTEL_BSP_SCHEDULE_DELAY=50", "PUBSUB_EMULATOR_HOST=" + pubsub.Addr}
	applier, applied := exporting(s, configuration, variables, "run", "--from", "pubsub", "--listen", "off")
	if err := applier.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = applier.Process.Kill() })
	relay, published := exporting(s, configuration, variables, "relay", "--once", "--idle", "200ms", "--listen", "off")
	if err := relay.Run(); err != nil {
		t.Fatal(err, published)
	}
	_ = applier.Process.Signal(syscall.SIGTERM)
	if err := applier.Wait(); err != nil {
		t.Fatal(err, applied)
	}
	publishes, pages, applies := r.Spans("publish"), r.Spans("page"), r.Spans("apply")
	if len(publishes) == 0 || len(pages) == 0 || publishes[0].Parent != pages[0].ID || publishes[0].Kind != "SPAN_KIND_PRODUCER" {
		t.Fatalf("%+v in %+v", publishes, pages)
	}
	linked := slices.ContainsFunc(applies, func(s otlptest.Span) bool {
		return slices.Equal(s.Links, []string{publishes[0].Trace + "-" + publishes[0].ID}) && s.Attributes["replicator.outcome"] == "applied"
	})
	if !linked {
		t.Errorf("%+v, want a link to %+v", applies, publishes[0])
	}
	if text := secretOf(slices.Concat(publishes, pages, applies)...); text != "" {
		t.Error(text)
	}
}
