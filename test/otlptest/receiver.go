// Package otlptest is a receiver of OpenTelemetry's protocol for tests. It decodes requests with the
// protocol's own messages, as a collector does.
package otlptest

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"
)

// Receiver receives traces and metrics.
type Receiver struct {
	URL string

	server   *httptest.Server
	mu       sync.Mutex
	received received
	changed  chan struct{} // closed at the next request
	refuse   int           // status of all answers; 0: accept
	token    string        // the last header Authorization
	wrong    []error
}

type received struct {
	spans    []Span
	metrics  map[string]*metrics.Metric
	resource map[string]string // of the last request
	requests int
}

// Span is a span as it was received. Ids are hexadecimal digits.
type Span struct {
	Name, Trace, ID, Parent string
	Links                   []string // trace-span
	Attributes              map[string]string
	Kind                    string
	From, To                time.Time
	Failed                  string
}

// New starts a receiver. The caller must call Close.
func New() *Receiver {
	r := &Receiver{changed: make(chan struct{}), received: received{metrics: map[string]*metrics.Metric{}}}
	r.server = httptest.NewServer(http.HandlerFunc(r.serve))
	r.URL = r.server.URL
	return r
}

// Close ends the receiver.
func (r *Receiver) Close() {
	r.server.CloseClientConnections()
	r.server.Close()
}

// Refuse makes the receiver answer with a status; 0 makes it accept again.
func (r *Receiver) Refuse(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = status
}

func (r *Receiver) serve(w http.ResponseWriter, request *http.Request) {
	body, err := bodyOf(request)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.received.requests++
	r.token = request.Header.Get("Authorization")
	if r.refuse != 0 {
		w.WriteHeader(r.refuse)
	} else if err == nil {
		err = r.take(request.URL.Path, body)
	}
	if err != nil {
		r.wrong = append(r.wrong, err)
		w.WriteHeader(http.StatusBadRequest)
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

func bodyOf(request *http.Request) ([]byte, error) {
	if kind := request.Header.Get("Content-Type"); kind != "application/x-protobuf" {
		return nil, fmt.Errorf("content type %s", kind)
	}
	var from io.Reader = request.Body
	if request.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(from)
		if err != nil {
			return nil, err
		}
		from = unzipped
	}
	return io.ReadAll(from)
}

func (r *Receiver) take(path string, body []byte) error {
	switch path {
	case "/v1/traces":
		var request collectortrace.ExportTraceServiceRequest
		if err := proto.Unmarshal(body, &request); err != nil {
			return err
		}
		for _, of := range request.ResourceSpans {
			r.received.resource = attributes(of.Resource.Attributes)
			for _, scope := range of.ScopeSpans {
				for _, s := range scope.Spans {
					span := Span{Name: s.Name, Trace: hex.EncodeToString(s.TraceId), ID: hex.EncodeToString(s.SpanId), Parent: hex.EncodeToString(s.ParentSpanId),
						Attributes: attributes(s.Attributes), Kind: s.Kind.String(), From: time.Unix(0, int64(s.StartTimeUnixNano)), To: time.Unix(0, int64(s.EndTimeUnixNano))}
					if s.Status.GetCode().String() == "STATUS_CODE_ERROR" {
						span.Failed = s.Status.Message
					}
					for _, link := range s.Links {
						span.Links = append(span.Links, hex.EncodeToString(link.TraceId)+"-"+hex.EncodeToString(link.SpanId))
					}
					r.received.spans = append(r.received.spans, span)
				}
			}
		}
	case "/v1/metrics":
		var request collectormetrics.ExportMetricsServiceRequest
		if err := proto.Unmarshal(body, &request); err != nil {
			return err
		}
		for _, of := range request.ResourceMetrics {
			r.received.resource = attributes(of.Resource.Attributes)
			for _, scope := range of.ScopeMetrics {
				for _, m := range scope.Metrics {
					r.received.metrics[m.Name] = m
				}
			}
		}
	default:
		return fmt.Errorf("a request to %s", path)
	}
	return nil
}

func attributes(all []*common.KeyValue) map[string]string {
	texts := map[string]string{}
	for _, a := range all {
		switch v := a.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			texts[a.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			texts[a.Key] = fmt.Sprint(v.IntValue)
		default:
			texts[a.Key] = a.Value.String()
		}
	}
	return texts
}

// Spans returns the spans of a name.
func (r *Receiver) Spans(name string) (found []Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.received.spans {
		if s.Name == name {
			found = append(found, s)
		}
	}
	return found
}

// Children returns the names of the spans whose parent is the given span.
func (r *Receiver) Children(of Span) (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.received.spans {
		if s.Trace == of.Trace && s.Parent == of.ID {
			names = append(names, s.Name)
		}
	}
	return names
}

// Metric returns a metric as it was last received; nil if it never was.
func (r *Receiver) Metric(name string) *metrics.Metric {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.received.metrics[name]
}

// Resource returns the attributes of the process that sent the last request.
func (r *Receiver) Resource() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.received.resource
}

// Token returns the header Authorization of the last request.
func (r *Receiver) Token() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.token
}

// Requests returns the number of requests, and the first error of a request that is not of the
// protocol.
func (r *Receiver) Requests() (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.wrong) > 0 {
		return r.received.requests, r.wrong[0]
	}
	return r.received.requests, nil
}

// Await waits until a condition holds, which it checks after each request. It fails when ctx ends.
func (r *Receiver) Await(ctx context.Context, what string, holds func() bool) error {
	for {
		r.mu.Lock()
		changed := r.changed
		r.mu.Unlock()
		if holds() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		}
	}
}
