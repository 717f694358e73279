// Package sim runs the replicator's own loops in virtual time under one seed.
//
// A World is a cooperative scheduler: it runs one task at a time, as a coroutine, and its seed chooses who goes on at every
// wait and at every call of a model. The same seed gives the same execution, step by step. A Process is one simulated
// machine: a task.Runtime with a wall clock of its own that can be paused, killed or given a wrong time.
//
// Stream and Bigtable are the models of the two services, stricter than the emulators: requests execute late, twice, or
// after their caller gave up; listings lag; the stream trims without an error at the horizon.
package sim
