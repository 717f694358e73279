// Package load plans loads, copies and sweeps. The Conductor plans a load under the lease of the
// coordinator; the Loader of each worker takes parts of it.
package load
