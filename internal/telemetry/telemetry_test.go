package telemetry

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/otlptest"
)

// started starts exports with variables of the environment. The log is the buffer's.
func started(t *testing.T, variables map[string]string) (*Telemetry, *bytes.Buffer) {
	t.Helper()
	for name, value := range variables {
		t.Setenv(name, value)
	}
	log := &bytes.Buffer{}
	exports, err := Start(t.Context(), Options{Env: os.LookupEnv, Clock: time.Now, Log: slog.New(slog.NewTextHandler(log, nil)),
		Version: "v1", Instance: "w1", Pipeline: "default"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(exports.Stop)
	return exports, log
}

func receiver(t *testing.T) *otlptest.Receiver {
	t.Helper()
	r := otlptest.New()
	t.Cleanup(func() {
		r.Close()
		if _, err := r.Requests(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// Spans arrive with their names, parents, times, kinds, attributes and links. Zero facts are left
// out. A link to a text that is no traceparent is left out, too.
func TestSpansArrive(t *testing.T) {
	r := receiver(t)
	exports, _ := started(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": r.URL, "OTEL_METRICS_EXPORTER": "none", "OTEL_SERVICE_NAME": "theirs"})
	tracer, before := exports.Tracer(), time.Now()
	ctx, page := tracer.Begin(t.Context(), engine.SpanPage, time.Minute, engine.SpanFacts{Table: "Orders", Shard: "s", Records: 3})
	_, read := tracer.Begin(ctx, engine.SpanRead, time.Minute, engine.SpanFacts{})
	read.End(30*time.Second, engine.SpanFacts{}, nil)
	publishing, publish := tracer.Begin(ctx, engine.SpanPublish, 0, engine.SpanFacts{})
	parent := tracer.Traceparent(publishing)
	publish.End(0, engine.SpanFacts{}, nil)
	page.End(0, engine.SpanFacts{Changes: 2, Rows: 1}, errors.New("broken "+strings.Repeat("x", 1000)))
	for _, link := range []string{parent, "", "00-nonsense"} {
		_, apply := tracer.Begin(t.Context(), engine.SpanApply, 0, engine.SpanFacts{Part: 1, Parts: 4, Items: 9, Phase: "copy", Hook: "switch", Direction: "back", Link: link})
		apply.End(0, engine.SpanFacts{Outcome: "applied"}, nil)
	}
	exports.Stop()

	pages, reads, publishes, applies := r.Spans("page"), r.Spans("read"), r.Spans("publish"), r.Spans("apply")
	if len(pages) != 1 || len(reads) != 1 || len(publishes) != 1 || len(applies) != 3 {
		t.Fatalf("%v %v %v %v", pages, reads, publishes, applies)
	}
	if children := r.Children(pages[0]); !slices.Equal(children, []string{"read", "publish"}) || pages[0].Parent != "" {
		t.Errorf("children %q, parent %q", children, pages[0].Parent)
	}
	want := map[string]string{"replicator.source_table": "Orders", "replicator.shard": "s", "replicator.records": "3", "replicator.changes": "2", "replicator.rows": "1"}
	if !maps.Equal(pages[0].Attributes, want) || !strings.HasPrefix(pages[0].Failed, "broken x") || len(pages[0].Failed) > 400 {
		t.Errorf("%q, %q", pages[0].Attributes, pages[0].Failed)
	}
	if from := before.Sub(reads[0].From); from < 59*time.Second || from > 61*time.Second || reads[0].To.Sub(reads[0].From).Round(time.Second) != 30*time.Second || !pages[0].From.Equal(reads[0].From) && pages[0].From.After(reads[0].From.Add(time.Second)) {
		t.Errorf("a read from %s to %s, in a page from %s", reads[0].From, reads[0].To, pages[0].From)
	}
	want = map[string]string{"replicator.part": "1", "replicator.parts": "4", "replicator.items": "9", "replicator.phase": "copy", "replicator.hook": "switch", "replicator.direction": "back", "replicator.outcome": "applied"}
	for i, links := range [][]string{{publishes[0].Trace + "-" + publishes[0].ID}, nil, nil} {
		if a := applies[i]; !slices.Equal(a.Links, links) || !maps.Equal(a.Attributes, want) || a.Kind != "SPAN_KIND_CONSUMER" || a.Trace == pages[0].Trace {
			t.Errorf("%d: %+v, want links %q", i, a, links)
		}
	}
	about := r.Resource()
	for name, value := range map[string]string{"service.name": "theirs", "service.version": "v1", "service.instance.id": "w1", "replicator.pipeline": "default"} {
		if about[name] != value {
			t.Errorf("%s is %q, want %q", name, about[name], value)
		}
	}
	if publishes[0].Kind != "SPAN_KIND_PRODUCER" || pages[0].Kind != "SPAN_KIND_INTERNAL" {
		t.Errorf("kinds %s and %s", publishes[0].Kind, pages[0].Kind)
	}
}

// Metrics arrive under the names of the registry, the last one given. The exemplar of a histogram
// names its span by the bytes of the ids, as the protocol demands.
func TestMetricsArrive(t *testing.T) {
	r := receiver(t)
	exports, _ := started(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": r.URL, "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"})
	ctx, span := exports.Tracer().Begin(t.Context(), engine.SpanWrite, 0, engine.SpanFacts{})
	traceID, spanID := Recorded(ctx)
	span.End(0, engine.SpanFacts{}, nil)
	exports.Gather(prometheus.NewRegistry())
	registry := prometheus.NewRegistry()
	durations := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "some_seconds", Help: "h", Buckets: []float64{1, 2}})
	total := prometheus.NewCounter(prometheus.CounterOpts{Name: "some_total", Help: "h"})
	registry.MustRegister(durations, total)
	total.Add(7)
	durations.(prometheus.ExemplarObserver).ObserveWithExemplar(1.5, prometheus.Labels{"trace_id": traceID, "span_id": spanID})
	exports.Gather(registry)
	exports.Stop()
	if m := r.Metric("some_total"); m == nil || m.GetSum().GetDataPoints()[0].GetAsDouble() != 7 || !m.GetSum().IsMonotonic {
		t.Errorf("%v", m)
	}
	m := r.Metric("some_seconds")
	if m == nil {
		t.Fatal("no histogram")
	}
	point := m.GetHistogram().DataPoints[0]
	if len(point.Exemplars) != 1 || hex.EncodeToString(point.Exemplars[0].TraceId) != traceID || hex.EncodeToString(point.Exemplars[0].SpanId) != spanID || point.GetCount() != 1 {
		t.Errorf("%v, want an exemplar of %s %s", point, traceID, spanID)
	}
}

// Without variables, or if they turn everything off, there is nothing, and all methods may be called.
func TestOffUnlessAsked(t *testing.T) {
	for name, variables := range map[string]map[string]string{
		"no variable":      {},
		"empty":            {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
		"disabled":         {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:1", "OTEL_SDK_DISABLED": "TRUE"},
		"no exporters":     {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:1", "OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"},
		"only Prometheus":  {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:1", "OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "prometheus"},
		"only other names": {"OTEL_EXPORTER_OTLP_HEADERS": "a=b", "OTEL_TRACES_SAMPLER": "nonsense"},
	} {
		t.Run(name, func(t *testing.T) {
			exports, log := started(t, variables)
			exports.Gather(prometheus.NewRegistry())
			exports.Stop()
			if exports != nil || exports.Tracer() != nil || log.Len() > 0 {
				t.Errorf("%v, log %s", exports, log)
			}
		})
	}
}

// A command without metrics exports traces alone.
func TestACommandHasNoMetrics(t *testing.T) {
	r := receiver(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", r.URL)
	log := &bytes.Buffer{}
	exports, err := Start(t.Context(), Options{Env: os.LookupEnv, Clock: time.Now, Log: slog.New(slog.NewTextHandler(log, nil)), Pipeline: "p", TracesOnly: true})
	if err != nil || exports.Tracer() == nil || exports.metrics != nil || !strings.Contains(log.String(), "exporting traces to OpenTelemetry") {
		t.Fatal(exports, err, log)
	}
	_, span := exports.Tracer().Begin(t.Context(), "page", 0, engine.SpanFacts{})
	span.End(0, engine.SpanFacts{}, nil)
	exports.Stop()
	if about := r.Resource(); about["service.name"] != "replicator" || len(r.Spans("page")) != 1 {
		t.Errorf("%q", about)
	}
	if _, found := r.Resource()["service.instance.id"]; found {
		t.Errorf("%q", r.Resource())
	}
}

// A sampler that records nothing leaves no traceparents and no exemplars.
func TestASpanThatIsNotRecordedIsNotNamed(t *testing.T) {
	r := receiver(t)
	exports, _ := started(t, map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": r.URL + "/v1/traces", "OTEL_TRACES_SAMPLER": "always_off"})
	ctx, span := exports.Tracer().Begin(t.Context(), "page", 0, engine.SpanFacts{})
	if trace, id := Recorded(ctx); trace+id+exports.Tracer().Traceparent(ctx) != "" {
		t.Errorf("named %s %s", trace, id)
	}
	span.End(0, engine.SpanFacts{}, nil)
	exports.Stop()
	if n, _ := r.Requests(); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// A receiver that fails is logged once, and once more when it answers again. Its headers are sent and
// never logged.
func TestAFailingReceiverIsLoggedOnce(t *testing.T) {
	r := receiver(t)
	exports, log := started(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": r.URL, "OTEL_METRICS_EXPORTER": "none", "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Basic%20s3cr3t"})
	export := func() {
		_, span := exports.Tracer().Begin(t.Context(), "page", 0, engine.SpanFacts{})
		span.End(0, engine.SpanFacts{}, nil)
		if err := exports.traces.ForceFlush(t.Context()); err != nil {
			t.Error(err)
		}
	}
	r.Refuse(http.StatusForbidden)
	export()
	export()
	export()
	r.Refuse(0)
	export()
	export()
	text := log.String()
	if strings.Count(text, "cannot export traces") != 1 || strings.Count(text, "exporting traces to OpenTelemetry again") != 1 || strings.Contains(text, "s3cr3t") {
		t.Error(text)
	}
	if r.Token() != "Basic s3cr3t" || len(r.Spans("page")) != 2 {
		t.Errorf("header %q, %d spans", r.Token(), len(r.Spans("page")))
	}
}

// A receiver that accepts connections and never answers delays the end of the process by stopTime at
// most, and spans never wait for it.
func TestASilentReceiverDelaysNothing(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	exports, _ := started(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + silent.Addr().String(), "OTEL_BSP_MAX_QUEUE_SIZE": "2", "OTEL_BSP_SCHEDULE_DELAY": "1"})
	began := time.Now()
	for range 10_000 {
		_, span := exports.Tracer().Begin(context.Background(), "page", 0, engine.SpanFacts{})
		span.End(0, engine.SpanFacts{}, nil)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("10,000 spans take %s", took)
	}
	exports.within = 50 * time.Millisecond
	began = time.Now()
	exports.Stop()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the end takes %s", took)
	}
}
