// Package verify works on verifies. Every worker takes parts of them. It finds rows that are missing,
// rows that differ, rows whose item is gone, and cells in managed families that replicator did not
// write. The comparison itself is the public package of the same name.
package verify
