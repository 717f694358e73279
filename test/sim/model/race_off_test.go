//go:build !race

package model

// fewer divides the numbers of seeds; see the variant for the race detector.
const fewer = 1
