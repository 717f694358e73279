// Package scope tries every order of short histories. It has tests alone.
//
// A scenario is a history of three changes of one item, a stream that holds them (shards split, sequence numbers go on, restart or
// change their length, the stream is replaced), the pages in which workers read them (every cut, with a crash and a replay at
// every point), a raise of the generation, and images that loads read meanwhile. The real code turns it into requests.
// Any of them may be executed once or twice, in any order; those of a crashed worker perhaps never. At every step the version
// of a row must not fall, and after every complete execution the rows must be those of the item as it is in the end.
//
// Requests are interpreted literally on a compact row state, which a test holds equal to sinktest.Memory, which in turn
// is held equal to the emulator of Bigtable.
//
// The search rests on two facts: executions that have done the same requests and left a row in the same state have the same future, and a
// request touches one row, so that rows can be looked at one by one.
package scope
