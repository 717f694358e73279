// Package load copies and sweeps: plans loads and works on their parts. The Conductor plans a load
// under the lease of the coordinator; the Loader of each worker takes parts of it.
package load
