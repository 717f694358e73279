//go:build !race

package model

// fewer divides the numbers of seeds; see the file for the race detector.
const fewer = 1
