// Package sim runs the replicator's own loops in virtual time (test/virtual) under one seed,
// over the models of both services (test/sim/model). A Migration is a table, its target and the
// workers between them, with checkers at every step.
package sim
