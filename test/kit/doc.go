// Package kit plays a small migration in memory, in virtual time. Tests of operators and of the
// driver of a cutover use it: tables with items and a stream each, a target with rows and families,
// a ledger, and one worker that follows every stream. It takes no decision itself: the worker reads
// what is written to a source, and commits that.
package kit
