// Package kit plays a small migration in memory, in virtual time. Tests of operator commands and of
// the cutover's driver use it. It has tables with items and a stream each, a target with rows and
// families, a ledger, and one worker that follows every stream. It makes no decisions itself: the
// worker reads the changes of a source and commits them.
package kit
