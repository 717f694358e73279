// Package processes kills and delays real processes.
//
// It works in rounds. While an application writes two tables and their shards split and roll, one worker is killed and started
// again, another is frozen for longer than its leases last, the network of the third is cut, held, muted or slowed down, and one
// is stopped as a service manager stops it. Then the writing ends, everything is healed, and both stores are compared whole.
//
// Two more ways to run the same processes: Crash kills workers again and again, and takes services of other projects in place of the
// embedded ones; Soak keeps the load up for an hour, and judges whether the workers grow.
//
// The simulation (test/sim) is the sharper tool: it is repeatable, and its models are stricter than these services. What it
// cannot show is shown here: that the clients, the connections, the signals and the clocks of the real program behave as its
// models of them do. So nothing here is shared with the program: row keys and cells are worked out by an oracle of its own, and
// what is in the tables is known from the writers' own books. A seed repeats what is injected and when, not what the processes
// make of it.
//
// The workers' logs are searched for item data, which every text written here contains a mark of (I12).
package processes
