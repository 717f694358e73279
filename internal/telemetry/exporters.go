package telemetry

import (
	"context"
	"encoding/hex"
	"log/slog"
	"sync"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/dynamodb-bigtable/replicator/internal/admin"
)

// outage logs when exports of a signal begin to fail, and when they succeed again. Exports happen
// every few seconds, so a log line for each would hide the others.
type outage struct {
	log  *slog.Logger
	what string

	mu      sync.Mutex
	failing bool
}

func (o *outage) note(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	was := o.failing
	switch o.failing = err != nil; {
	case err != nil && !was:
		o.log.Warn("cannot export "+o.what+" to OpenTelemetry; replication continues without them", admin.KeyCause, shortened(err.Error()))
	case err == nil && was:
		o.log.Info("exporting " + o.what + " to OpenTelemetry again")
	}
}

// spanExporter reports failures to an outage. The SDK would log each of them.
type spanExporter struct {
	trace.SpanExporter
	outage *outage
}

// ExportSpans implements trace.SpanExporter. It returns nil.
func (e spanExporter) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	e.outage.note(e.SpanExporter.ExportSpans(ctx, spans))
	return nil
}

// metricExporter is the same for metrics.
type metricExporter struct {
	metric.Exporter
	outage *outage
}

// Export implements metric.Exporter. It returns nil.
func (e metricExporter) Export(ctx context.Context, all *metricdata.ResourceMetrics) error {
	e.outage.note(e.Exporter.Export(ctx, all))
	return nil
}

// producer corrects the ids of exemplars. The bridge from Prometheus takes the hexadecimal digits of
// the labels for the bytes of the ids. A collector refuses a whole request with such an id.
type producer struct{ metric.Producer }

// Produce implements metric.Producer.
func (p producer) Produce(ctx context.Context) ([]metricdata.ScopeMetrics, error) {
	scopes, err := p.Producer.Produce(ctx)
	for _, scope := range scopes {
		for _, m := range scope.Metrics {
			if histogram, is := m.Data.(metricdata.Histogram[float64]); is {
				for _, point := range histogram.DataPoints {
					for i := range point.Exemplars {
						correct(&point.Exemplars[i])
					}
				}
			}
		}
	}
	return scopes, err
}

// correct decodes ids that are texts. A text that is no id is removed.
func correct(e *metricdata.Exemplar[float64]) {
	for _, id := range []struct {
		of   *[]byte
		size int
	}{{&e.TraceID, 16}, {&e.SpanID, 8}} {
		if len(*id.of) == id.size || len(*id.of) == 0 {
			continue
		}
		decoded, err := hex.DecodeString(string(*id.of))
		if err != nil || len(decoded) != id.size {
			decoded = nil
		}
		*id.of = decoded
	}
}
