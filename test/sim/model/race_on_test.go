//go:build race

package model

// fewer divides the numbers of seeds, and of mappings and planted bugs (partOf). One task runs at a time here, so that the race detector
// finds nothing that ten seeds would not show, and it makes each of them eight times as slow.
const fewer = 10
