// Package processes kills and delays real processes.
//
// It works in rounds. An application writes two tables while their shards split and roll. One
// worker is killed and restarted. Another is frozen for longer than its leases last. The network of
// the third is cut, held, muted or slowed down. One worker is stopped cleanly, as by a service
// manager. Then the writing ends, all faults are healed, and both stores are compared completely.
//
// The same processes also run in two other ways. Crash kills workers repeatedly and can use
// independent services in place of the embedded ones. Soak keeps up the load for an hour, and
// checks that the workers' resources do not grow.
//
// The simulation (test/sim) finds more: it is repeatable, and its models are stricter than these
// services. These tests show what it cannot: that the real program's clients, connections, signals
// and clocks behave as the simulation assumes. So they share nothing with the program. An
// independent oracle computes row keys and cells, and the writers record what is in the tables. A
// seed repeats which faults are injected and when, not how the processes react.
//
// Every text written here contains a mark, and the workers' logs are searched for it, so that no
// item data is logged (I12).
package processes
