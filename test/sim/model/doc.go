// Package model models both services for the simulation.
//
// The models are stricter than the emulators: requests are executed late, twice, or after their
// caller gave up; listings lag; the stream trims without an error at the horizon. A model records
// what was executed, returned and listed. Checkers judge it.
package model
