// Package telemetry exports traces and metrics by OpenTelemetry.
//
// It sends them over HTTP (OTLP). OpenTelemetry's own environment variables configure it, and without
// them it is off.
//
// Spans have only the attributes of engine.SpanFacts, and metrics are those of the Prometheus
// endpoint, so no item data is exported. An export never delays replication: spans wait in a bounded
// queue, and those that do not fit are dropped.
//
// The SDK starts goroutines and reads the clock itself. So packages that the simulation runs know only
// the interface engine.Tracer. Nothing is set globally, so the clients of the clouds do not use these
// exporters.
package telemetry
