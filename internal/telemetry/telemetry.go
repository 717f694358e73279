package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
)

// stopTime is how long Stop sends what is left.
const stopTime = 5 * time.Second

// scope names this program in spans.
const scope = "github.com/dynamodb-bigtable/replicator"

// Options describe the process that exports.
type Options struct {
	// Env returns a variable of the environment. The SDK itself reads that of the process.
	Env   func(name string) (string, bool)
	Clock func() time.Time // the wall clock
	Log   *slog.Logger
	// Version is the version of the program, Instance an identity of the process, and Pipeline the
	// name of the configuration. Empty ones are left out.
	Version, Instance, Pipeline string
	TracesOnly                  bool // the process has no metrics
}

// Telemetry exports the traces and metrics of a process. A nil Telemetry exports nothing, and all
// its methods may be called.
type Telemetry struct {
	traces  *trace.TracerProvider // nil if no traces are exported
	metrics *metric.MeterProvider // nil if no metrics are exported
	source  source
	clock   func() time.Time
	within  time.Duration // stopTime
}

// Start starts the exports that the environment asks for. It returns nil if there are none. It fails
// with a diag.Error of code TelemetryInvalid if a variable has a value that the SDK would ignore. It
// sends nothing itself, so it does not need the receiver.
func Start(ctx context.Context, o Options) (*Telemetry, error) {
	on, err := readSettings(o.Env)
	on.metrics = on.metrics && !o.TracesOnly
	if err != nil || on == (settings{}) {
		return nil, err
	}
	// The SDK would log headers that it cannot parse. Failed exports are logged by this package.
	otel.SetLogger(logr.Discard())
	about, err := about(ctx, o)
	if err != nil {
		return nil, err
	}
	t := &Telemetry{clock: o.Clock, within: stopTime}
	if on.traces {
		exporter, err := otlptracehttp.New(ctx)
		if err != nil {
			return nil, cannotStart(err)
		}
		t.traces = trace.NewTracerProvider(trace.WithResource(about), trace.WithBatcher(spanExporter{exporter, &outage{log: o.Log, what: "traces"}}))
	}
	if on.metrics {
		exporter, err := otlpmetrichttp.New(ctx)
		if err != nil {
			t.Stop()
			return nil, cannotStart(err)
		}
		reader := metric.NewPeriodicReader(metricExporter{exporter, &outage{log: o.Log, what: "metrics"}},
			metric.WithProducer(producer{bridge.NewMetricProducer(bridge.WithGatherer(&t.source))}))
		t.metrics = metric.NewMeterProvider(metric.WithResource(about), metric.WithReader(reader))
	}
	o.Log.Info("exporting " + on.String() + " to OpenTelemetry")
	return t, nil
}

func cannotStart(err error) error {
	return &diag.Error{Code: diag.TelemetryInvalid, What: "the OpenTelemetry exporters cannot be created", Err: err}
}

// about returns the resource of the process. The environment's attributes come last, so they replace
// this program's.
func about(ctx context.Context, o Options) (*resource.Resource, error) {
	var own []attribute.KeyValue
	for _, a := range []attribute.KeyValue{
		attribute.String("service.name", "replicator"), attribute.String("service.version", o.Version),
		attribute.String("service.instance.id", o.Instance), attribute.String("replicator.pipeline", o.Pipeline),
	} {
		if a.Value.AsString() != "" {
			own = append(own, a)
		}
	}
	r, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(own...), resource.WithFromEnv())
	if err != nil {
		return nil, &diag.Error{Code: diag.TelemetryInvalid, What: "OTEL_RESOURCE_ATTRIBUTES cannot be parsed", Err: err, Fix: "write KEY=VALUE,KEY=VALUE, with percent-encoding in the values"}
	}
	return r, nil
}

// Tracer returns what begins the spans of this process; nil if no traces are exported.
func (t *Telemetry) Tracer() engine.Tracer {
	if t == nil || t.traces == nil {
		return nil
	}
	return tracer{t.traces.Tracer(scope), t.clock}
}

// Gather makes the metrics of a registry the exported ones, under the same names. It replaces an
// earlier registry.
func (t *Telemetry) Gather(from prometheus.Gatherer) {
	if t != nil {
		t.source.registry.Store(&from)
	}
}

// Stop sends what is left, for at most five seconds, and ends the exports.
func (t *Telemetry) Stop() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), t.within)
	defer cancel()
	var both sync.WaitGroup
	if t.traces != nil {
		both.Go(func() { _ = t.traces.Shutdown(ctx) }) // a failed export is logged
	}
	if t.metrics != nil {
		both.Go(func() { _ = t.metrics.Shutdown(ctx) })
	}
	both.Wait() // both end with ctx, even during an export
}

// source is the registry of the running worker. A process that resumes after a cutover has a new one.
type source struct {
	registry atomic.Pointer[prometheus.Gatherer]
}

// Gather implements prometheus.Gatherer.
func (s *source) Gather() ([]*dto.MetricFamily, error) {
	if registry := s.registry.Load(); registry != nil {
		return (*registry).Gather()
	}
	return nil, nil
}
