// Package scope tries every order of short histories. It contains only tests.
//
// A scenario has four parts. A history of three changes of one item. A stream that holds them:
// shards split, sequence numbers continue, restart or change their length, or the stream is
// replaced. The pages in which workers read them: every cut, with a crash and a replay at every
// point. And a raise of the generation, with images that loads read meanwhile. The real code turns
// a scenario into requests. Each may be executed once or twice, in any order. Requests of a crashed
// worker may also never be executed. At every step the version of a row must not fall. After every
// complete execution the rows must show the final item.
//
// Requests are interpreted on a compact row state. A test compares it with sinktest.Memory, which
// another test compares with Bigtable's emulator.
//
// The search uses two facts. Executions that have done the same requests and left a row in the same
// state have the same future. And a request touches one row, so each row can be checked separately.
package scope
