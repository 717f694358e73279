// Package demo runs a migration without a cloud. At the end it compares source and
// target cell by cell.
//
// The demo simulates nothing. It starts the workers as an operator would, with a configuration file
// and the vendors' own environment variables. The demo observes them through their HTTP endpoints,
// and reads both stores for its verdict.
package demo
