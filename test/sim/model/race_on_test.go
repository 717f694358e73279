//go:build race

package model

// fewer divides the numbers of seeds, mappings and planted bugs (partOf). Only one task runs at a
// time here, so ten seeds show all that the race detector can find. It makes each of them eight
// times as slow.
const fewer = 10
