// Package verify carries out verifies. Every worker acquires parts of them. A verify finds missing
// rows, rows that differ, rows without an item, and cells in managed families that replicator did
// not write. The public package verify makes the comparisons.
package verify
