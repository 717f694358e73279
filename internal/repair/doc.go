// Package repair rewrites rows that were parked or that differ. It decides whether a repair is
// allowed, and reports the outcome of each row; package sink makes the repair itself.
package repair
