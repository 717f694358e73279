// Package sim runs the replicator's own loops in virtual time (internal/virtual) under one seed.
//
// Table and Bigtable are models of the two services, stricter than the emulators: requests execute late, twice, or after their
// caller gave up; listings lag; the stream trims without an error at the horizon. A Migration is a table, its target and the
// workers between them, with checkers at every step.
package sim
