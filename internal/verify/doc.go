// Package verify compares a table with its source on behalf of an operator: a Verifier takes parts of
// a verify, a Sampler compares what a worker has just applied. The comparison itself is the public
// package of the same name.
package verify
