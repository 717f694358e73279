// Package job leases and paces parts of jobs. A load, its sweep and a verify are kinds of jobs. A
// job has phases, and each phase is divided into parts that all workers share. The ledger holds the
// plan of a job and its parts, and a Loop reads only the ledger. A Kind decides which phase runs,
// and how a part is processed.
package job
