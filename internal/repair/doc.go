// Package repair rewrites rows that were parked or that differ. It decides whether a repair is
// allowed, and reports the outcome for each row. Package sink makes the writes of a repair.
package repair
