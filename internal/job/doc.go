// Package job leases and paces parts of jobs. A load, its sweep and a verify are kinds of jobs. A
// job has phases, and each phase is divided into parts that all workers share; the plan of a job and
// its parts stand in the ledger, and a Loop looks there alone. A Kind says which phase runs, and what
// the work on a part is.
package job
