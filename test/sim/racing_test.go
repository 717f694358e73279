//go:build race

package sim

// One task runs at a time here, so that the race detector finds nothing that a few seeds would not
// show, and it makes each of them eight times as slow.
func init() { racing = true }
