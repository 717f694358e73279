// Package architecture holds the tests that keep the code in the shape ARCHITECTURE.md describes: imports that point one
// way, the runtime seam, vendor clients at the edge. It contains no code.
package architecture
