// Package repair mends rows of the target that an operator has asked for: those of parked items, and
// those that a comparison found different. It says who may, and what became of each row; how a row
// is mended is sink's.
package repair
