// Package sim plays whole systems in virtual time, under seeds. It runs replicator's loops in
// test/virtual, over the models of both services in test/sim/model. A Migration is a table, its
// target and the workers between them, with checkers at every step.
package sim
