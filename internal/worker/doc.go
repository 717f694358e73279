// Package worker runs one process of a migration.
package worker
