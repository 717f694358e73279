// Package kit is a small migration in memory and in virtual time, for tests of operators and of
// what drives a cutover: tables with items and a stream each, a target with rows and families, a
// ledger, and one worker that follows every stream.
//
// It takes decisions of nobody: the worker reads what is written to a source, and commits that.
package kit
