package telemetry

import (
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// lookup returns the value of an environment variable, and whether it is set.
type lookup = func(name string) (string, bool)

// settings are the parts of the environment that this package decides. The SDK reads the others
// itself.
type settings struct{ traces, metrics bool }

func (s settings) String() string {
	switch {
	case s.traces && s.metrics:
		return "traces and metrics"
	case s.traces:
		return "traces"
	}
	return "metrics"
}

// The prefixes of the variables of all signals.
const (
	allSignals = "OTEL_EXPORTER_OTLP_"
	disabled   = "OTEL_SDK_DISABLED"
)

// signal is a kind of telemetry, with the names of its variables.
type signal struct {
	prefix   string   // of the variables of this signal, which come before those of all signals
	exporter string   // variable that names the exporter
	quiet    []string // exporters besides otlp that are accepted, for which nothing is sent
}

var (
	traces  = signal{"OTEL_EXPORTER_OTLP_TRACES_", "OTEL_TRACES_EXPORTER", []string{"none"}}
	metrics = signal{"OTEL_EXPORTER_OTLP_METRICS_", "OTEL_METRICS_EXPORTER", []string{"none", "prometheus"}} // /metrics serves Prometheus anyway
)

// readSettings decides which signals are exported. It checks the variables of these signals, because
// the SDK ignores a value that it cannot parse. Its errors quote no headers.
func readSettings(env lookup) (s settings, err error) {
	if value, _ := env(disabled); strings.EqualFold(strings.TrimSpace(value), "true") {
		return s, nil
	}
	for _, of := range []struct {
		signal
		on *bool
	}{{traces, &s.traces}, {metrics, &s.metrics}} {
		if *of.on, err = of.exported(env); err == nil && *of.on {
			err = of.check(env)
		}
		if err != nil {
			return settings{}, err
		}
	}
	if s.traces {
		err = checkSampler(env)
	}
	if err != nil {
		return settings{}, err
	}
	return s, nil
}

// exported reports whether a signal is exported: an endpoint is given, or the exporter is named. A
// variable that is empty counts as unset, as OpenTelemetry's specification demands.
func (s signal) exported(env lookup) (bool, error) {
	exporter, _ := env(s.exporter)
	switch exporter = strings.TrimSpace(exporter); {
	case exporter == "otlp":
		return true, nil
	case slices.Contains(s.quiet, exporter):
		return false, nil
	case exporter != "":
		return false, invalid(s.exporter+" is "+strconv.Quote(exporter), "this program has the exporters otlp and "+strings.Join(s.quiet, " and "), "set it to otlp or none, or unset it")
	}
	_, endpoint := s.value(env, "ENDPOINT")
	return endpoint != "", nil
}

// value returns a variable of the signal, or else of all signals, and its name.
func (s signal) value(env lookup, name string) (variable, value string) {
	for _, prefix := range []string{s.prefix, allSignals} {
		if value, _ := env(prefix + name); strings.TrimSpace(value) != "" {
			return prefix + name, strings.TrimSpace(value)
		}
	}
	return "", ""
}

// check refuses values that the SDK would ignore.
func (s signal) check(env lookup) error {
	if name, value := s.value(env, "PROTOCOL"); value != "" && value != "http/protobuf" {
		return invalid(name+" is "+strconv.Quote(value), "only http/protobuf is supported", "unset it, and give the collector's port for HTTP, which is 4318 by default")
	}
	if name, value := s.value(env, "ENDPOINT"); value != "" {
		if u, err := url.Parse(value); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
			return invalid(name+" is not a URL", "it has no http:// or https:// with a host", "write it as http://collector:4318")
		}
	}
	if name, value := s.value(env, "TIMEOUT"); value != "" {
		if n, err := strconv.Atoi(value); err != nil || n < 0 {
			return invalid(name+" is "+strconv.Quote(value), "it is not a number of milliseconds", "write digits alone, such as 10000")
		}
	}
	if name, value := s.value(env, "COMPRESSION"); value != "" && value != "gzip" && value != "none" {
		return invalid(name+" is "+strconv.Quote(value), "only gzip and none are supported", "set it to gzip, or unset it")
	}
	if name, value := s.value(env, "HEADERS"); value != "" && !areHeaders(value) {
		return invalid(name+" has no list of headers", "its value is not shown, because it may be a secret", "write KEY=VALUE,KEY=VALUE, with percent-encoding in the values")
	}
	for _, file := range []string{"CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"} {
		if name, value := s.value(env, file); value != "" {
			if _, err := os.ReadFile(value); err != nil {
				return &diag.Error{Code: diag.TelemetryInvalid, What: name + " names a file that cannot be read", Err: err}
			}
		}
	}
	return nil
}

// areHeaders reports whether a text is a list of headers.
func areHeaders(text string) bool {
	for pair := range strings.SplitSeq(text, ",") {
		name, value, found := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		if _, err := url.PathUnescape(strings.TrimSpace(value)); !found || err != nil || name == "" || strings.ContainsAny(name, " \t\"(),/:;<=>?@[\\]{}") {
			return false
		}
	}
	return true
}

// samplers are the values of OTEL_TRACES_SAMPLER. Those of the second half have a ratio.
var samplers = []string{"always_on", "always_off", "parentbased_always_on", "parentbased_always_off", "traceidratio", "parentbased_traceidratio"}

// checkSampler refuses a sampler that the SDK would replace by one that records everything.
func checkSampler(env lookup) error {
	const sampler, argument = "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"
	value, _ := env(sampler)
	if value = strings.ToLower(strings.TrimSpace(value)); value != "" && !slices.Contains(samplers, value) {
		return invalid(sampler+" is "+strconv.Quote(value), "the samplers are "+strings.Join(samplers, ", "), "set one of them, or unset it to record every trace")
	}
	ratio, _ := env(argument)
	if ratio = strings.TrimSpace(ratio); ratio == "" || !strings.HasSuffix(value, "traceidratio") {
		return nil
	}
	if f, err := strconv.ParseFloat(ratio, 64); err != nil || !(f >= 0 && f <= 1) {
		return invalid(argument+" is "+strconv.Quote(ratio), "it is not a number from 0 to 1", "write the share of traces to record, such as 0.01")
	}
	return nil
}

func invalid(what, cause, fix string) error {
	return &diag.Error{Code: diag.TelemetryInvalid, What: what, Cause: cause, Fix: fix}
}
