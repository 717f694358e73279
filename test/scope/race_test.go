//go:build race

package scope

// race tells that the race detector is on, under which everything takes many times as long. Nothing here runs concurrently: it has
// nothing to find, and a part of the scope will do.
const race = true
