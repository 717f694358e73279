//go:build !race

package scope

// race tells that the race detector is on.
const race = false
