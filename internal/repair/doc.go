// Package repair rewrites rows that were parked or that differ. It says who may, and what became of
// each row; how a row is mended is sink's.
package repair
