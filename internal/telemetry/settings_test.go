package telemetry

import (
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"

// What is exported, by the variables. The variable of a signal comes before that of all signals.
func TestSettings(t *testing.T) {
	for _, c := range []struct {
		variables string
		want      settings
		refused   string // part of the error
	}{
		{"", settings{}, ""},
		{endpoint + "=http://c:4318", settings{true, true}, ""},
		{endpoint + "= ", settings{}, ""},
		{endpoint + "=https://c/base", settings{true, true}, ""},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://c/v1/traces", settings{true, false}, ""},
		{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://c/v1/metrics", settings{false, true}, ""},
		{"OTEL_TRACES_EXPORTER=otlp", settings{true, false}, ""},
		{endpoint + "=http://c|OTEL_TRACES_EXPORTER=none", settings{false, true}, ""},
		{endpoint + "=http://c|OTEL_METRICS_EXPORTER=none", settings{true, false}, ""},
		{endpoint + "=http://c|OTEL_METRICS_EXPORTER=prometheus", settings{true, false}, ""},
		{endpoint + "=http://c|OTEL_SDK_DISABLED=true|OTEL_EXPORTER_OTLP_PROTOCOL=grpc", settings{}, ""},
		{endpoint + "=http://c|OTEL_SDK_DISABLED=false", settings{true, true}, ""},
		{endpoint + "=http://c|OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", settings{true, true}, ""},
		{endpoint + "=http://c|OTEL_EXPORTER_OTLP_PROTOCOL=grpc", settings{}, `OTEL_EXPORTER_OTLP_PROTOCOL is "grpc"`},
		{endpoint + "=http://c|OTEL_EXPORTER_OTLP_PROTOCOL=grpc|OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf|OTEL_METRICS_EXPORTER=none", settings{true, false}, ""},
		{endpoint + "=http://c|OTEL_EXPORTER_OTLP_METRICS_PROTOCOL=http/json", settings{}, `OTEL_EXPORTER_OTLP_METRICS_PROTOCOL is "http/json"`},
		{endpoint + "=c:4318", settings{}, endpoint + " is not a URL"},
		{endpoint + "=http://", settings{}, endpoint + " is not a URL"},
		{endpoint + "=grpc://c:4317", settings{}, endpoint + " is not a URL"},
		{endpoint + "=http://c|OTEL_TRACES_EXPORTER=console", settings{}, `OTEL_TRACES_EXPORTER is "console"`},
		{endpoint + "=http://c|OTEL_TRACES_EXPORTER=prometheus", settings{}, `OTEL_TRACES_EXPORTER is "prometheus"`},
		{endpoint + "=http://c|OTEL_EXPORTER_OTLP_TIMEOUT=10s", settings{}, `OTEL_EXPORTER_OTLP_TIMEOUT is "10s"`},
		{endpoint + "=http://c|OTEL_EXPORTER_OTLP_TIMEOUT=-1", settings{}, `OTEL_EXPORTER_OTLP_TIMEOUT is "-1"`},
		{endpoint + "=http://c|OTEL_EXPORTER_OTLP_TIMEOUT=500", settings{true, true}, ""},
		{endpoint + "=http://c|OTEL_EXPORTER_OTLP_COMPRESSION=zstd", settings{}, `OTEL_EXPORTER_OTLP_COMPRESSION is "zstd"`},
		{endpoint + "=http://c|OTEL_EXPORTER_OTLP_COMPRESSION=gzip", settings{true, true}, ""},
		{endpoint + "=http://c|OTEL_EXPORTER_OTLP_HEADERS=a=b, c=d%20e", settings{true, true}, ""},
		{endpoint + "=http://c|OTEL_EXPORTER_OTLP_HEADERS=s3cr3t", settings{}, "OTEL_EXPORTER_OTLP_HEADERS has no list of headers"},
		{endpoint + "=http://c|OTEL_EXPORTER_OTLP_HEADERS=a=s3cr3t%zz", settings{}, "OTEL_EXPORTER_OTLP_HEADERS has no list of headers"},
		{endpoint + "=http://c|OTEL_EXPORTER_OTLP_HEADERS=a b=s3cr3t", settings{}, "OTEL_EXPORTER_OTLP_HEADERS has no list of headers"},
		{endpoint + "=https://c|OTEL_EXPORTER_OTLP_CERTIFICATE=/no/such", settings{}, "OTEL_EXPORTER_OTLP_CERTIFICATE names a file that cannot be read"},
		{endpoint + "=http://c|OTEL_TRACES_SAMPLER=sometimes", settings{}, `OTEL_TRACES_SAMPLER is "sometimes"`},
		{endpoint + "=http://c|OTEL_TRACES_SAMPLER=sometimes|OTEL_TRACES_EXPORTER=none", settings{false, true}, ""},
		{endpoint + "=http://c|OTEL_TRACES_SAMPLER=traceidratio|OTEL_TRACES_SAMPLER_ARG=1.5", settings{}, `OTEL_TRACES_SAMPLER_ARG is "1.5"`},
		{endpoint + "=http://c|OTEL_TRACES_SAMPLER=traceidratio|OTEL_TRACES_SAMPLER_ARG=NaN", settings{}, `OTEL_TRACES_SAMPLER_ARG is "NaN"`},
		{endpoint + "=http://c|OTEL_TRACES_SAMPLER=parentbased_traceidratio|OTEL_TRACES_SAMPLER_ARG=0.01", settings{true, true}, ""},
		{endpoint + "=http://c|OTEL_TRACES_SAMPLER=always_on|OTEL_TRACES_SAMPLER_ARG=x", settings{true, true}, ""},
	} {
		variables := map[string]string{}
		for line := range strings.SplitSeq(c.variables, "|") {
			name, value, _ := strings.Cut(line, "=")
			variables[name] = value
		}
		got, err := readSettings(func(name string) (string, bool) { value, set := variables[name]; return value, set })
		if got != c.want || (err == nil) != (c.refused == "") {
			t.Errorf("%s: %+v, %v", c.variables, got, err)
			continue
		}
		if err != nil && (!diag.Has(err, diag.TelemetryInvalid) || !strings.Contains(err.Error(), c.refused) || strings.Contains(err.Error(), "s3cr3t")) {
			t.Errorf("%s: %v", c.variables, err)
		}
	}
}

// Attributes of the environment that cannot be parsed are refused.
func TestBadResourceAttributesAreRefused(t *testing.T) {
	t.Setenv(endpoint, "http://localhost:1")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "team")
	exports, err := Start(t.Context(), Options{Env: os.LookupEnv, Clock: time.Now, Log: slog.New(slog.DiscardHandler)})
	if exports != nil || !diag.Has(err, diag.TelemetryInvalid) || !strings.Contains(err.Error(), "OTEL_RESOURCE_ATTRIBUTES") {
		t.Errorf("%v, %v", exports, err)
	}
}
