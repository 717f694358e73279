// Package parked is what an operator does about parked items: list and show their records, retry
// them from the source as it is now, or drop them. Nothing here replays an old image.
package parked
