// Package load plans loads, copies and sweeps. The Conductor plans a load under the coordinator
// lease. The Loader of each worker copies and sweeps parts of the load.
package load
