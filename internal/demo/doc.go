// Package demo runs a whole migration on one machine, without a cloud. At the end both stores are
// compared cell by cell.
//
// Nothing in it is staged: the workers are started as an operator would start them, with a configuration file and the vendors'
// own environment variables, they are observed through their HTTP endpoints, and the verdict comes from reading both stores.
package demo
