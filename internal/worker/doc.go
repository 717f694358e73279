// Package worker is one process of a migration: it checks both ends, opens the ledger, runs the
// loops of internal/pipeline, and brings what they do to the log, the metrics and the progress
// line.
package worker
