//go:build race

package sim

// Only one task runs at a time here, so a few seeds show all that the race detector can find. It
// makes each of them eight times as slow.
func init() { racing = true }
