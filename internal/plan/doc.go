// Package plan compares a configuration with both ends: it asks them, judges what is missing, how
// long the copy takes and what it costs, and creates what is missing.
package plan
