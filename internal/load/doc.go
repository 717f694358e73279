// Package load copies the items that a table already holds, and sweeps what no item explains. The
// Conductor plans a load under the lease of the coordinator; the Loader of each worker takes parts of
// it.
package load
