// Package model models both services for the simulation.
//
// They are stricter than the emulators: requests execute late, twice, or after their caller gave
// up; listings lag; the stream trims without an error at the horizon. A model records what was
// executed, given and listed, and judges nothing of it.
package model
