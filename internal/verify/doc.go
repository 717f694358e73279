// Package verify works on verifies. Every worker acquires parts of them. It finds rows that are
// missing, rows that differ, rows whose item is gone, and cells in managed families that replicator
// did not write. The public package verify makes the comparison itself.
package verify
