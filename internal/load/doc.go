// Package load plans loads, copies and sweeps. The Conductor plans a load under the coordinator
// lease; the Loader of each worker works on parts of it.
package load
